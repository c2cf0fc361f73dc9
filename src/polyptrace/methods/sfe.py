"""SFE: single-frame encoder, SimCLR over frames. The vector of a tracklet is the mean over its frames.

Every stored frame is an item once per epoch. Its second view is another frame of its track, at a distance drawn from a
normal distribution with a standard deviation of 30 frames. The release draws it among the frames of the polyp, which
needs labels: `--views.source polyp`. The optional augmentation changes each frame on its own.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from polyptrace.config import Config
from polyptrace.core.arrays import Floats, Ints
from polyptrace.core.errors import UserError
from polyptrace.core.randomness import numpy_generator
from polyptrace.data.identity import codes, video_keys
from polyptrace.encoders import FrameEncoder
from polyptrace.encoders.encoder import OwnEncoder
from polyptrace.losses import nt_xent
from polyptrace.methods.method import (
    Batch,
    Data,
    Epoch,
    Targets,
    TrainingMethod,
    TrainingPlan,
    labels_seen,
    polyp_codes,
)
from polyptrace.methods.views import pair_batch, pairs_per_batch, track_frames

DEGREES, SHIFT, SMALLEST, LARGEST = 15.0, 0.1, 0.9, 1.1
BRIGHTNESS, CONTRAST, SATURATION, HUE = 0.2, 0.2, 0.2, 0.1

#: RGB to luma and two chroma axes (YIQ); a rotation of the chroma plane shifts the hue.
TO_YIQ = ((0.299, 0.587, 0.114), (0.596, -0.274, -0.322), (0.211, -0.523, 0.312))


@dataclass(frozen=True)
class FrameRuns:
    """The stored frames of all tracks, sorted into runs (a track or a polyp) from which second views are drawn."""

    rows: Ints  # (n,) of the crop store
    owner: Ints  # (n,) the track, among the dataset's tracklets
    begin: Ints  # (n,) where the frame's run begins
    count: Ints  # (n,) frames in that run
    spread: Floats  # (n,) standard deviation of the distance to the second view, in stored frames


def encoder(config: Config, size: int) -> OwnEncoder:
    """A backbone and a head; the embedding is the output of the head."""
    settings = config.encoder
    return FrameEncoder(settings.backbone, settings.weights, settings.projection, size, config.train.method)


def plan(data: Data, config: Config) -> TrainingPlan:
    """Pairs of frames close in time, of one track or of one polyp."""
    runs = frame_runs(data, config)
    pairs, notes = pairs_per_batch(config, len(runs.rows), "frames")
    steps = len(runs.rows) // pairs

    def epoch(number: int, _epochs: int) -> Epoch:
        random = numpy_generator(config.train.seed, number)
        item = random.permutation(len(runs.rows))
        views = np.stack([item, second_view(runs, item, random)], 1)  # (n, 2)

        def batch(step: int) -> Batch:
            both = views[step * pairs : (step + 1) * pairs]  # (pairs, 2)
            return pair_batch(runs.rows[both][..., None], runs.owner[both])

        return Epoch(steps, batch)

    used = "polyp identities, for second views" if config.views.source == "polyp" else "none"
    return TrainingPlan(
        epoch,
        lambda epochs: epochs * steps,
        batch_size=2 * pairs,
        frames_per_step=2 * pairs,
        labels=labels_seen(data, used),
        notes=notes,
        augment=augment if config.views.augment else None,
    )


def frame_runs(data: Data, config: Config) -> FrameRuns:
    """The frames of each track, or of each polyp, as one run."""
    if config.views.deviation <= 0:
        raise UserError(f"views.deviation: {config.views.deviation} frames -> give more than 0")
    tracks = track_frames(data, config)
    run = polyp_codes(data, tracks.index) if config.views.source == "polyp" else np.arange(len(tracks))
    video = codes(video_keys(data.tracklets)[tracks.index])
    order = np.lexsort((data.tracklets.position[tracks.index], video, run))
    count = tracks.count[order]
    run_of_frame = np.repeat(run[order], count)
    begin = np.flatnonzero(np.diff(run_of_frame, prepend=-1))
    size = np.diff(begin, append=len(run_of_frame))
    step = (tracks.span[order] - 1) / (count - 1)  # frames of the video between two stored ones
    return FrameRuns(
        rows=np.concatenate([tracks.rows[i] for i in order]),
        owner=np.repeat(tracks.index[order], count),
        begin=np.repeat(begin, size),
        count=np.repeat(size, size),
        spread=np.repeat(config.views.deviation / step, count),
    )


def second_view(runs: FrameRuns, item: Ints, random: np.random.Generator) -> Ints:
    """A frame near each item in its run, clipped to the run and drawn again while it is the item itself."""
    begin, last, spread = runs.begin[item], runs.count[item] - 1, runs.spread[item]
    first = item - begin
    second = first.copy()
    while (same := np.flatnonzero(second == first)).size:
        drawn = np.rint(random.normal(first[same], spread[same])).astype(np.int64)
        second[same] = np.clip(drawn, 0, last[same])
    return begin + second


def loss(z: Tensor, _: Targets, config: Config) -> tuple[Tensor, dict[str, Tensor]]:
    """NT-Xent of the two views of each item, z (2 pairs, T, P)."""
    return nt_xent(z[0::2, 0], z[1::2, 0], config.loss.temperature), {}


def augment(frames: Tensor) -> Tensor:
    """Float frames (n, 3, H, W) in [0, 255] after a random geometric and colour change.

    Random numbers come from torch's global generator, which every step seeds.
    """
    return jitter(transform(frames))


def transform(frames: Tensor) -> Tensor:
    """Random flips (each with probability 0.5), rotations, shifts and scalings about the centre."""
    n = len(frames)
    angle = _uniform(frames, n, -math.radians(DEGREES), math.radians(DEGREES))
    flip = torch.sign(torch.rand(n, 2, device=frames.device) - 0.5) / _uniform(frames, n, SMALLEST, LARGEST)[:, None]
    rotation = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], 1).reshape(n, 2, 2)
    shift = 2 * _uniform(frames, 2 * n, -SHIFT, SHIFT).reshape(n, 2, 1)
    grid = functional.affine_grid(
        torch.cat([rotation * flip[:, None], shift], 2), list(frames.shape), align_corners=False
    )
    return functional.grid_sample(frames, grid.to(frames.dtype), align_corners=False)


def jitter(frames: Tensor) -> Tensor:
    """Random changes of brightness, contrast, saturation and hue."""
    n = len(frames)
    to_yiq = torch.tensor(TO_YIQ, device=frames.device, dtype=frames.dtype)
    frames = frames * _uniform(frames, n, 1 - BRIGHTNESS, 1 + BRIGHTNESS)[:, None, None, None]
    mean = (frames.mean((-2, -1)) * to_yiq[0]).sum(1)[:, None, None, None]  # luma of each frame
    contrast = _uniform(frames, n, 1 - CONTRAST, 1 + CONTRAST)[:, None, None, None]
    frames = mean + (frames - mean) * contrast
    saturation = _uniform(frames, n, 1 - SATURATION, 1 + SATURATION)
    rotation = _uniform(frames, n, -2 * math.pi * HUE, 2 * math.pi * HUE)
    zero, one = torch.zeros_like(rotation), torch.ones_like(rotation)
    cosine, sine = saturation * rotation.cos(), saturation * rotation.sin()
    chroma = torch.stack([one, zero, zero, zero, cosine, -sine, zero, sine, cosine], 1).reshape(n, 3, 3)
    matrix = torch.linalg.inv(to_yiq) @ chroma @ to_yiq  # (n, 3, 3)
    return torch.einsum("nij,njhw->nihw", matrix, frames).clamp(0, 255)


def _uniform(frames: Tensor, n: int, low: float, high: float) -> Tensor:
    return torch.rand(n, device=frames.device, dtype=frames.dtype) * (high - low) + low


SFE = TrainingMethod(
    "sfe",
    labels="by setting",
    defaults={
        "views": {"batch": 64},
        "optimiser": {"name": "adam", "lr": 3e-4 * 64 / 256, "weight_decay": 1e-4, "schedule": "one-cycle"},
        "train": {"epochs": 10},
    },
    encoder=encoder,
    plan=plan,
    loss=loss,
)
