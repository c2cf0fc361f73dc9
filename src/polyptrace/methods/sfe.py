"""SFE: a single-frame encoder, SimCLR over frames; a tracklet's vector is the mean over its frames.

Every stored frame is an item once an epoch. Its second view is a frame near it in time: as far away as a normal
distribution with a standard deviation of 30 frames says, inside the track, never the frame itself. The released code
draws inside the polyp's identity instead, which needs labels: `--views.source polyp`.
"""

from dataclasses import dataclass

import numpy as np

from polyptrace.config import Config
from polyptrace.core.errors import UserError
from polyptrace.data import codes, video_keys
from polyptrace.encoders import FrameEncoder, OwnEncoder
from polyptrace.methods.batch import (
    Batch,
    Data,
    Epoch,
    Floats,
    Ints,
    Method,
    Plan,
    generator,
    labels_seen,
    polyp_codes,
)
from polyptrace.methods.views import pair_batch, pair_loss, pairs_per_batch, tracks_of


@dataclass(frozen=True)
class Runs:
    """The stored frames of all tracks, those among which a second view is drawn side by side and in time."""

    rows: Ints  # (n,) of the crop store
    owner: Ints  # (n,) the track, among the dataset's tracklets
    begin: Ints  # (n,) where the frame's run begins
    count: Ints  # (n,) frames in it
    spread: Floats  # (n,) standard deviation of the distance to the second view, in stored frames


def encoder(config: Config, size: int) -> OwnEncoder:
    """ResNet and a head; the embedding is the head's output."""
    chosen = config.encoder
    return FrameEncoder(chosen.backbone, chosen.weights, chosen.projection, size, config.train.method)


def plan(data: Data, config: Config) -> Plan:
    """Pairs of frames that are near each other in their track, or in their polyp."""
    runs = runs_of(data, config)
    pairs, remarks = pairs_per_batch(config, len(runs.rows), "frames")
    steps = len(runs.rows) // pairs

    def epoch(number: int, _epochs: int) -> Epoch:
        random = generator(config.train.seed, number)
        item = random.permutation(len(runs.rows))
        other = second_view(runs, item, random)

        def batch(step: int) -> Batch:
            both = np.stack([item, other], 1)[step * pairs : (step + 1) * pairs]  # (pairs, 2)
            return pair_batch(runs.rows[both][..., None], runs.owner[both])

        return Epoch(steps, batch)

    used = "polyp identities, for second views" if config.views.source == "polyp" else "none"
    return Plan(epoch, lambda epochs: epochs * steps, remarks, labels_seen(data, used))


def runs_of(data: Data, config: Config) -> Runs:
    """The frames of each track, or of each polyp, as one run."""
    if config.views.deviation <= 0:
        raise UserError(f"views.deviation: {config.views.deviation} frames -> give more than 0")
    tracks = tracks_of(data)
    run = polyp_codes(data, tracks.index) if config.views.source == "polyp" else np.arange(len(tracks))
    video = codes(video_keys(data.tracklets)[tracks.index])
    order = np.lexsort((data.tracklets.position[tracks.index], video, run))
    count = tracks.count[order]
    run_of_frame = np.repeat(run[order], count)
    begin = np.flatnonzero(np.diff(run_of_frame, prepend=-1))
    size = np.diff(begin, append=len(run_of_frame))
    first, last = (time[tracks.index[order]] for time in (data.tracklets.position, data.tracklets.last))
    step = np.maximum(last - first, 1) / (count - 1)  # frames of the video between two that are stored
    return Runs(
        rows=np.concatenate([tracks.rows[i] for i in order]),
        owner=np.repeat(tracks.index[order], count),
        begin=np.repeat(begin, size),
        count=np.repeat(size, size),
        spread=np.repeat(config.views.deviation / step, count),
    )


def second_view(runs: Runs, item: Ints, random: np.random.Generator) -> Ints:
    """A frame near each item in its run, never the item: clipped to the run, drawn again while it is the item."""
    begin, last, spread = runs.begin[item], runs.count[item] - 1, runs.spread[item]
    here = item - begin
    there = here.copy()
    while (same := np.flatnonzero(there == here)).size:
        drawn = np.rint(random.normal(here[same], spread[same])).astype(np.int64)
        there[same] = np.clip(drawn, 0, last[same])
    return begin + there


METHOD = Method(
    "sfe",
    labels="by setting",
    defaults={
        "views": {"batch": 64},
        "optimiser": {"name": "adam", "lr": 3e-4 * 64 / 256, "weight_decay": 1e-4, "schedule": "one-cycle"},
        "train": {"epochs": 10},
    },
    encoder=encoder,
    plan=plan,
    loss=pair_loss,
)
