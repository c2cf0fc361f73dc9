"""Two views of the same thing, drawn from whole tracks: what SFE, MVE and TPC share.

The crop store has every 4th frame of a track. MVE's views are 8 frames at a stride of 1 to 4 frames, the wider the
likelier; a stride of 4 is what neighbours in the store have, so all views here are runs of stored frames: the same
frame rate as our tracklets, and each method sees the same pixels. A track whose half has fewer than 8 stored frames
gives two shorter views.
"""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from polyptrace.config import Config
from polyptrace.core.errors import UserError
from polyptrace.losses import nt_xent
from polyptrace.methods.batch import Batch, Data, Ints, Targets

#: Frames of a view where the dataset has no tracklets to take it from.
LENGTH = 8


@dataclass(frozen=True)
class Tracks:
    """The whole tracks of a dataset."""

    index: Ints  # (n,) of each track among the dataset's tracklets
    rows: list[Ints]  # rows of the crop store of each
    count: Ints  # (n,) stored frames of each
    length: int  # of a view

    def __len__(self) -> int:
        return len(self.index)


def tracks_of(data: Data) -> Tracks:
    """The tracks that have two stored frames at least."""
    length = data.tracklets.length
    index = data.select("track")
    index = index[length[index] >= 2]
    if not len(index):
        raise UserError(f"{data.path}: has no tracks of two frames or more -> prepare more data")
    of_tracklets = length[data.select("tracklet")]
    return Tracks(index, [data.tracklets.rows[i] for i in index], length[index], int(of_tracklets.max(initial=LENGTH)))


def two_views(rows: Ints, length: int, random: np.random.Generator) -> tuple[Ints, Ints]:
    """Two runs of a track's stored frames that never overlap, the second after the first has ended."""
    half = len(rows) // 2
    length = min(length, half)
    first = int(random.integers(0, half - length + 1))
    second = int(random.integers(first + length, first + half + 1))
    return rows[first : first + length], rows[second : second + length]


def one_view(rows: Ints, length: int, random: np.random.Generator) -> Ints:
    """A run of a track's stored frames, anywhere in it."""
    length = min(length, len(rows))
    first = int(random.integers(0, len(rows) - length + 1))
    return rows[first : first + length]


def draw_tracks(count: Ints, number: int, random: np.random.Generator) -> Ints:
    """So many different tracks, each draw with weight √(stored frames): no track is its own negative."""
    keys = random.gumbel(size=len(count)) + np.log(count) / 2
    return np.argsort(-keys, kind="stable")[:number]


def pairs_per_batch(config: Config, available: int, what: str) -> tuple[int, list[str]]:
    """Pairs in a batch, fewer where the data has not enough, and what the log says about that."""
    wanted = config.views.batch
    if available >= wanted:
        return wanted, []
    if available < 2:
        raise UserError(f"views.batch: a batch needs two {what}, the data has {available} -> prepare more data")
    return available, [f"data: batches of {available} pairs instead of {wanted}, there are no more {what}"]


def steps_of(tracks: Tracks, pairs: int) -> int:
    """Steps of an epoch of so many pairs of views each: about as many frames as the tracks have."""
    return max(1, int(tracks.count.sum()) // (2 * tracks.length * pairs))


def pair_batch(rows: Ints, owners: Ints) -> Batch:
    """The batch of pairs of views (pairs, 2, L), rows of the crop store, of the tracks `owners` (pairs, 2)."""
    return Batch(
        rows=rows.reshape(-1, rows.shape[-1]),
        tracklet=owners.flatten(),
        group=np.repeat(np.arange(len(rows)), 2),
        position=np.zeros(2 * len(rows)),
        together=2,
    )


def pair_loss(z: Tensor, _: Targets, config: Config) -> tuple[Tensor, dict[str, Tensor]]:
    """NT-Xent of the first token of each view: z (2 pairs, T, P), the views of a pair side by side."""
    return nt_xent(z[0::2, 0], z[1::2, 0], config.loss.temperature), {}
