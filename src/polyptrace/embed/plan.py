"""What is computed together: tracklets in blocks that share no frame, those of similar length in a batch.

A plan is a function of the tracklets and the settings alone: whoever computes a block, here or on another machine, puts
the same frames together and gets the same numbers.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyptrace.data import LabelFreeTracklets, pad_rows

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Block:
    """Some tracklets, and where their frames stand among all frames of the plan: from `begin` to `end`."""

    tracklets: Ints
    begin: int
    end: int


@dataclass(frozen=True)
class Plan:
    """All frames, as rows of the crop store in ascending order, each once; and the blocks they are worked off in."""

    frames: Ints  # (n,)
    blocks: tuple[Block, ...]


def make_plan(tracklets: LabelFreeTracklets, chosen: Ints, size: int) -> Plan:
    """The plan of the chosen tracklets, with blocks of about `size` frames."""
    frames = _rows_of(tracklets, chosen)
    groups = list(blocks(tracklets, chosen, size))
    ends = [int(tracklets.crop_index[tracklets.offset[group[0]]]) for group in groups[1:]]  # where the next one begins
    edges = [0, *np.searchsorted(frames, ends).tolist(), len(frames)]
    return Plan(frames, tuple(map(Block, groups, edges, edges[1:])))


def _rows_of(tracklets: LabelFreeTracklets, chosen: Ints) -> Ints:
    """All rows of the chosen tracklets in ascending order, each once: marked, which is faster than sorting."""
    wanted = np.zeros(len(tracklets), bool)
    wanted[chosen] = True
    there = np.zeros(int(tracklets.crop_index.max()) + 1, bool)
    there[tracklets.crop_index[np.repeat(wanted, tracklets.length)]] = True
    return np.flatnonzero(there)


def blocks(tracklets: LabelFreeTracklets, chosen: Ints, size: int) -> Iterator[Ints]:
    """Tracklets in groups whose frames lie together in the store and apart from others', about `size` frames each."""
    order = chosen[np.argsort(tracklets.crop_index[tracklets.offset[chosen]], kind="stable")]
    first = tracklets.crop_index[tracklets.offset[order]]
    reached = np.maximum.accumulate(np.maximum.reduceat(tracklets.crop_index, tracklets.offset[:-1])[order])
    cuts = np.flatnonzero(first[1:] > reached[:-1]) + 1  # nothing before shares a frame with anything after
    begin = 0
    while begin < len(order):
        following = cuts[np.searchsorted(first[cuts], first[begin] + size) :]
        end = int(following[0]) if len(following) else len(order)
        yield order[begin:end]
        begin = end


def batches_by_length(length: Ints, chosen: Ints, frames: int) -> Iterator[Ints]:
    """Tracklets of similar length together, as many as have about so many frames when padded, one at least."""
    order = chosen[np.argsort(-length[chosen], kind="stable")]
    begin = 0
    while begin < len(order):
        count = max(1, frames // int(length[order[begin]]))
        yield order[begin : begin + count]
        begin += count


def padded_rows(tracklets: LabelFreeTracklets, chosen: Ints) -> tuple[Ints, Flags]:
    """Rows (B, L) of the chosen tracklets, and where they are real (B, L); the others repeat the first row."""
    rows = pad_rows([tracklets.rows[i] for i in chosen])
    mask = rows >= 0
    return np.where(mask, rows, rows[:, :1]), mask
