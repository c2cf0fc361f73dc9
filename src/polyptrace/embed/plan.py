"""Which frames and tracklets `embed` computes together: blocks of tracklets that share frames, and batches."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from polyptrace.core.arrays import Bools, Ints
from polyptrace.data.tracklets import LabelFreeTracklets, pad_rows


@dataclass(frozen=True)
class TrackletBlock:
    """Some tracklets, and the range `begin` to `end` of their frames in the frames of the plan."""

    tracklets: Ints
    begin: int
    end: int


@dataclass(frozen=True)
class EmbeddingPlan:
    """All frames, as rows of the crop store in ascending order, each once; and the blocks."""

    frames: Ints  # (n,)
    blocks: tuple[TrackletBlock, ...]


def make_plan(tracklets: LabelFreeTracklets, chosen: Ints, size: int) -> EmbeddingPlan:
    """The plan of the chosen tracklets, with blocks of about `size` frames."""
    wanted = np.isin(np.arange(len(tracklets)), chosen)
    frames = np.unique(tracklets.row_index[np.repeat(wanted, tracklets.length)])
    groups = list(blocks(tracklets, chosen, size))
    starts = [int(tracklets.row_index[tracklets.offset[group[0]]]) for group in groups[1:]]
    edges = [0, *np.searchsorted(frames, starts).tolist(), len(frames)]
    return EmbeddingPlan(frames, tuple(map(TrackletBlock, groups, edges, edges[1:])))


def blocks(tracklets: LabelFreeTracklets, chosen: Ints, size: int) -> Iterator[Ints]:
    """Groups of tracklets with about `size` frames each; no two groups share a frame or interleave in the store."""
    order = chosen[np.argsort(tracklets.row_index[tracklets.offset[chosen]], kind="stable")]
    first = tracklets.row_index[tracklets.offset[order]]
    reached = np.maximum.accumulate(np.maximum.reduceat(tracklets.row_index, tracklets.offset[:-1])[order])
    cuts = np.flatnonzero(first[1:] > reached[:-1]) + 1  # no tracklet before shares a frame with one after
    begin = 0
    while begin < len(order):
        following = cuts[np.searchsorted(first[cuts], first[begin] + size) :]
        end = int(following[0]) if len(following) else len(order)
        yield order[begin:end]
        begin = end


def batches_by_length(length: Ints, chosen: Ints, frames: int) -> Iterator[Ints]:
    """Batches of tracklets of similar length, with at most `frames` frames after padding, or of one tracklet."""
    order = chosen[np.argsort(-length[chosen], kind="stable")]
    begin = 0
    while begin < len(order):
        count = max(1, frames // int(length[order[begin]]))
        yield order[begin : begin + count]
        begin += count


def padded_rows(tracklets: LabelFreeTracklets, chosen: Ints) -> tuple[Ints, Bools]:
    """Rows (B, L) of the chosen tracklets and a mask (B, L) of valid ones; the padding repeats the first row."""
    rows = pad_rows([tracklets.rows[i] for i in chosen])
    mask = rows >= 0
    return np.where(mask, rows, rows[:, :1]), mask
