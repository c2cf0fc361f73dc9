"""SFE, MVE and TPC: SimCLR over two views of a frame, of a track, or of two tracks.

SFE, the single-frame encoder, takes every stored frame once per epoch. Its second view is another frame of its track,
at a distance drawn from a normal distribution with a standard deviation of 30 frames. The release draws it among the
frames of the polyp, which needs labels: `--views.source polyp`. The optional augmentation changes each frame on its
own. The vector of a tracklet is the mean over its frames.

MVE, the multi-view encoder (Intrator et al. 2023), takes two views of the same track that never overlap. TPC, towards
polyp counting (Parolari et al. 2025), does so with probability α; otherwise the second view shows another track: the
nearest one in time in the same video, without labels, or any other track of the same polyp, as in the release
(`--views.source polyp`). α decreases linearly from 0.8 to 0.4 over the first 5 epochs.

In the release MVE and TPC start from a trained SFE (`--init-from SFE_RUN`). The encoder is ours, as in the table; the
published widths are `--encoder.width 128 --encoder.feed-forward 2048`. The published batch size is not recorded; 30
pairs are as many tracklets as a batch of ours.

A view has as many frames as a tracklet (8 by default) at a stride of d = 1 to 4 frames, drawn with weight d. The crop
store has every 4th frame of a track by default; each frame of a view is then the nearest stored one, so a view at
stride 1 repeats its crops. With `--views.stride stored` every view is a run of stored frames, as our tracklets are. A
track that is too short for two views at the smallest stride is split in half, and each half is spread over the frames
of a view.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

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
from polyptrace.losses import nt_xent, repeated_tracklets
from polyptrace.methods import ours
from polyptrace.methods.method import (
    Batch,
    Data,
    Epoch,
    Targets,
    TrainingMethod,
    TrainingPlan,
    polyp_codes,
)
from polyptrace.supervision import nearest_bags

#: Frames of a view, if the dataset has no tracklets to take the length from.
LENGTH = 8

#: The published strides, in frames of the video; each is drawn with a weight proportional to it.
STRIDES = (1.0, 2.0, 3.0, 4.0)

#: Augmentation of SFE: the largest rotation (degrees) and shift (share of the side), the range of scales, and the
#: largest changes of colour.
DEGREES, SHIFT, SMALLEST, LARGEST = 15.0, 0.1, 0.9, 1.1
BRIGHTNESS, CONTRAST, SATURATION, HUE = 0.2, 0.2, 0.2, 0.1

#: Draws of SFE's second view before it is taken to be the next frame or the previous one.
MAX_DRAWS = 200

#: RGB to luma and two chroma axes (YIQ); a rotation of the chroma plane shifts the hue.
TO_YIQ = ((0.299, 0.587, 0.114), (0.596, -0.274, -0.322), (0.211, -0.523, 0.312))


@dataclass(frozen=True)
class TrackFrames:
    """The stored frames of whole tracks, from which views are drawn."""

    index: Ints  # (n,) of each track among the dataset's tracklets
    rows: list[Ints]  # rows of the crop store of each track
    count: Ints  # (n,) stored frames
    span: Ints  # (n,) frames of the video from the first to the last
    length: int  # frames of a view
    strides: tuple[float, ...] | None = STRIDES  # None: the stride of the stored frames

    def __len__(self) -> int:
        return len(self.index)

    @cached_property
    def step(self) -> Floats:
        """(n,) frames of the video from one stored frame to the next."""
        return (self.span - 1) / (self.count - 1)

    def two_views(self, track: int, random: np.random.Generator) -> tuple[Ints, Ints]:
        """Two views of a track without a common frame; the second begins after the first has ended."""
        half = int(self.span[track]) // 2
        stride = self._stride(track, half, random)
        extent = min(self.length * stride, half)  # rounding errors may make it longer
        first = random.uniform(0, half - extent) // 1
        second = random.uniform(first + extent, first + half) // 1
        a, b = self._frames(track, first, stride), self._frames(track, second, stride)
        b = np.maximum(b, a.max() + 1)  # the nearest stored frame may be the same
        return self.rows[track][a], self.rows[track][b]

    def one_view(self, track: int, random: np.random.Generator) -> Ints:
        """A view of a track, anywhere in it."""
        span = int(self.span[track])
        stride = self._stride(track, span, random)
        first = random.uniform(0, max(span - self.length * stride, 0)) // 1
        return self.rows[track][self._frames(track, first, stride)]

    def _stride(self, track: int, available: int, random: np.random.Generator) -> float:
        """A stride at which a view fits into the available frames."""
        fitting: Floats = np.array([d for d in self.strides or (self.step[track],) if self.length * d < available])
        if not len(fitting):
            return available / self.length
        return float(random.choice(fitting, p=fitting / fitting.sum()))

    def _frames(self, track: int, first: float, stride: float) -> Ints:
        """The stored frames nearest to the frames of a view: (L,)."""
        frame = first + np.floor(np.arange(self.length) * stride)
        return np.clip(np.floor(frame / self.step[track] + 0.5), 0, self.count[track] - 1).astype(np.int64)


def track_frames(data: Data, config: Config) -> TrackFrames:
    """The tracks that have at least two stored frames."""
    table = data.tracklets
    index = data.select("track")
    index = index[table.length[index] >= 2]
    lengths = table.length[data.select("tracklet")]
    if not len(index):
        raise UserError(f"{data.path}: has no tracks of two frames or more -> prepare more data")
    return TrackFrames(
        index=index,
        rows=[table.rows[i] for i in index],
        count=table.length[index],
        span=np.maximum(table.last[index] - table.position[index] + 1, table.length[index]),
        length=int(lengths.max()) if len(lengths) else LENGTH,
        strides=STRIDES if config.views.stride == "random" else None,
    )


def mve_plan(data: Data, config: Config) -> TrainingPlan:
    """Pairs of views of one track each: TPC that never takes a second track."""
    views = replace(config.views, source="label-free", alpha_start=1.0, alpha_end=1.0)
    return tpc_plan(data, replace(config, views=views))


def tpc_plan(data: Data, config: Config) -> TrainingPlan:
    """Pairs of views of one track, or of two that probably (with labels: certainly) show one polyp.

    The first view of a pair shows a track drawn with weight √(stored frames). The second view shows the same track with
    probability α, otherwise its partner. An epoch has as many pairs as show about as many frames as the tracks have.
    """
    settings, tracks = config.views, track_frames(data, config)
    partner = partners(data, tracks.index, settings.source)
    pairs, notes = pairs_per_batch(config, len(tracks), "tracks")
    steps = max(1, int(tracks.count.sum()) // (2 * tracks.length * pairs))

    def alpha(epoch: int) -> float:
        done = min(epoch / settings.alpha_epochs, 1.0) if settings.alpha_epochs else 1.0
        return settings.alpha_start + done * (settings.alpha_end - settings.alpha_start)

    def batch(epoch: int, step: int) -> Batch:
        random = numpy_generator(config.train.seed, epoch, step)
        views: list[Ints] = []
        owners = []
        for track in draw_tracks(tracks.count, pairs, random).tolist():
            other = track if random.random() < alpha(epoch) else partner(track, random)
            if other == track:
                views += tracks.two_views(track, random)
            else:
                views += [tracks.one_view(t, random) for t in (track, other)]
            owners.append((track, other))
        return pair_batch(np.stack(views).reshape(pairs, 2, -1), tracks.index[np.array(owners)])

    return TrainingPlan(
        lambda epoch, _: Epoch(steps, lambda step: batch(epoch, step), lambda _: {"alpha": alpha(epoch)}),
        lambda epochs: epochs * steps,
        batch_size=2 * pairs,
        frames_per_step=2 * pairs * tracks.length,
        notes=notes,
    )


def partners(data: Data, chosen: Ints, source: str) -> Callable[[int, np.random.Generator], int]:
    """A function from a track to another one that shows the same polyp, or to itself if there is none.

    With polyp labels, it is any other track of the polyp; without, the track of the video that begins nearest in time.
    """
    if source == "polyp":
        polyp = polyp_codes(data, chosen)

        def same_polyp(track: int, random: np.random.Generator) -> int:
            others = np.flatnonzero(polyp == polyp[track])
            others = others[others != track]
            return int(random.choice(others)) if len(others) else track

        return same_polyp
    nearest = nearest_bags(video_keys(data.tracklets)[chosen], data.tracklets.position[chosen], 1)[:, 0].numpy()
    return lambda track, _: int(nearest[track]) if nearest[track] >= 0 else track


def draw_tracks(count: Ints, number: int, random: np.random.Generator) -> Ints:
    """Different tracks, each draw with weight √(stored frames)."""
    keys = random.gumbel(size=len(count)) + np.log(count) / 2
    return np.argsort(-keys, kind="stable")[:number]


def pairs_per_batch(config: Config, available: int, what: str) -> tuple[int, list[str]]:
    """Pairs in a batch, fewer if the data does not have enough, and a note on that for the log."""
    wanted = config.views.batch
    if available >= wanted:
        return wanted, []
    if available < 2:
        raise UserError(f"views.batch: a batch needs two {what}, the data has {available} -> prepare more data")
    return available, [f"data: batches of {available} pairs instead of {wanted}, because there are no more {what}"]


def pair_batch(rows: Ints, owners: Ints) -> Batch:
    """The batch of pairs of views (pairs, 2, L), rows of the crop store, of the tracks `owners` (pairs, 2)."""
    return Batch(
        rows=rows.reshape(-1, rows.shape[-1]),
        tracklet=owners.flatten(),
        group=np.repeat(np.arange(len(rows)), 2),
        position=np.zeros(2 * len(rows)),
        together=2,
    )


def track_pair_loss(z: Tensor, targets: Targets, config: Config) -> tuple[Tensor, dict[str, Tensor]]:
    """NT-Xent of the first token of each view, z (2 pairs, T, P); a track is never a negative of itself."""
    ignore = repeated_tracklets(targets.tracklet)
    return nt_xent(z[0::2, 0], z[1::2, 0], config.loss.temperature, ignore=ignore), {}


@dataclass(frozen=True)
class FrameRuns:
    """The stored frames of all tracks, sorted into runs (a track or a polyp) from which second views are drawn."""

    rows: Ints  # (n,) of the crop store
    owner: Ints  # (n,) the track, among the dataset's tracklets
    begin: Ints  # (n,) where the frame's run begins
    count: Ints  # (n,) frames in that run
    spread: Floats  # (n,) standard deviation of the distance to the second view, in stored frames


def sfe_encoder(config: Config, size: int) -> OwnEncoder:
    """A backbone and a head; the embedding is the output of the head."""
    settings = config.encoder
    return FrameEncoder(settings.backbone, settings.weights, settings.projection, size, config.train.method)


def sfe_plan(data: Data, config: Config) -> TrainingPlan:
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

    return TrainingPlan(
        epoch,
        lambda epochs: epochs * steps,
        batch_size=2 * pairs,
        frames_per_step=2 * pairs,
        notes=notes,
        augment=augment if config.views.augment else None,
    )


def frame_runs(data: Data, config: Config) -> FrameRuns:
    """The frames of each track, or of each polyp, as one run."""
    tracks = track_frames(data, config)
    run = polyp_codes(data, tracks.index) if config.views.source == "polyp" else np.arange(len(tracks))
    video = codes(video_keys(data.tracklets)[tracks.index])
    order = np.lexsort((data.tracklets.position[tracks.index], video, run))
    count = tracks.count[order]
    run_of_frame = np.repeat(run[order], count)
    begin = np.flatnonzero(np.diff(run_of_frame, prepend=-1))
    size = np.diff(begin, append=len(run_of_frame))
    return FrameRuns(
        rows=np.concatenate([tracks.rows[i] for i in order]),
        owner=np.repeat(tracks.index[order], count),
        begin=np.repeat(begin, size),
        count=np.repeat(size, size),
        spread=np.repeat(config.views.deviation / tracks.step[order], count),
    )


def second_view(runs: FrameRuns, item: Ints, random: np.random.Generator) -> Ints:
    """A frame near each item in its run, clipped to the run and drawn again while it is the item itself.

    Where stored frames are much farther apart than the spread, almost every draw is the item itself, and almost all
    others are its neighbours, one of which is then taken.
    """
    begin, last, spread = runs.begin[item], runs.count[item] - 1, runs.spread[item]
    first = item - begin
    second = first.copy()
    for _ in range(MAX_DRAWS):
        same = np.flatnonzero(second == first)
        if not same.size:
            return begin + second
        drawn = np.rint(random.normal(first[same], spread[same])).astype(np.int64)
        second[same] = np.clip(drawn, 0, last[same])
    same = np.flatnonzero(second == first)
    side = random.choice((-1, 1), len(same))
    side[first[same] == 0] = 1
    side[first[same] == last[same]] = -1
    second[same] += side
    return begin + second


def frame_pair_loss(z: Tensor, _: Targets, config: Config) -> tuple[Tensor, dict[str, Tensor]]:
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
    encoder=sfe_encoder,
    plan=sfe_plan,
    loss=frame_pair_loss,
)
DEFAULTS: dict[str, dict[str, Any]] = {
    "views": {"batch": 30},
    "optimiser": {"name": "adam", "lr": 1e-4, "weight_decay": 0.0},
}
MVE = TrainingMethod("mve", "never", DEFAULTS, ours.encoder, mve_plan, track_pair_loss)
TPC = TrainingMethod("tpc", "by setting", DEFAULTS, ours.encoder, tpc_plan, track_pair_loss)
