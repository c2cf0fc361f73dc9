"""Temporal ranks: the other tracklets of a video, ordered by the distance of their positions from an anchor.

There is no N x N matrix. The tracklets are sorted once by (video, position), and the r nearest ones are always a number
of slots just before the anchor and the rest just after it. That number is found by binary search, so any rank of any
tracklet costs O(log r).

Ties are frequent: within a track, the neighbours start equally many frames before and after. All tracklets at one
distance d from an anchor form at most two runs of neighbouring slots, those that start d before it and those that start
d after it, so a tie is described by the ends of its two runs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyptrace.core.arrays import Bools, Floats, Ints

Column: TypeAlias = NDArray[Any] | Tensor | Sequence[Any]


@dataclass(frozen=True)
class Timeline:
    """N tracklets sorted by (video, position, index). An index is the caller's; a slot is a place in this order."""

    index: Ints  # of the tracklet in each slot
    slot: Ints  # of the tracklet with each index
    position: NDArray[Any]  # in each slot
    video_begin: Ints  # first slot of the video, for each slot
    video_end: Ints  # one past its last slot
    run_begin: Ints  # first slot with the same video and position, for each slot
    run_end: Ints  # one past its last slot

    @property
    def others(self) -> Ints:
        """The number C of other tracklets in the video of the tracklet with each index: (N,)."""
        return (self.video_end - self.video_begin - 1)[self.slot]


class Tie(NamedTuple):
    """The tracklets at one distance from an anchor: two runs of slots, one of which may be empty."""

    distance: NDArray[Any]
    before_begin: Ints
    before_end: Ints
    after_begin: Ints
    after_end: Ints


def timeline(video: Column, position: Column) -> Timeline:
    """The sorted tracklets of videos (N,), numbers or names, at positions (N,)."""
    code, time = video_codes(video), _array(position)
    if code.shape != time.shape or time.ndim != 1:
        raise ValueError(f"video {code.shape} and position {time.shape} must be two columns of one length")
    time = time.astype(np.float64 if time.dtype.kind == "f" else np.int64)
    index = np.lexsort((time, code))  # stable: ties by index
    code, time = code[index], time[index]
    new_video = np.diff(code, prepend=-1) != 0
    new_run = new_video.copy()
    new_run[1:] |= time[1:] != time[:-1]
    slot = np.empty_like(index)
    slot[index] = np.arange(len(index))
    return Timeline(index, slot, time, *_runs(new_video), *_runs(new_run))


def neighbours(line: Timeline, anchors: Ints, count: int) -> Ints:
    """The tracklets (A, count) of ranks 1..count of each anchor (A,), ties by index; -1 past the end of the video."""
    slot = line.slot[anchors]
    begin, end, now = line.video_begin[slot], line.video_end[slot], line.position[slot]
    before = np.where(line.run_begin[slot] < slot, line.run_begin[slot], _previous_run(line, slot))
    after = slot + 1
    nearest = np.full((len(anchors), count), -1, dtype=np.int64)
    for k in range(count):
        has_before, has_after = before >= begin, after < end
        b, a = np.maximum(before, 0), np.minimum(after, len(line.index) - 1)
        since, until = now - line.position[b], line.position[a] - now
        nearer = (since < until) | ((since == until) & (line.index[b] < line.index[a]))
        take_before = has_before & (nearer | ~has_after)
        take_after = has_after & ~take_before
        nearest[take_before, k] = line.index[b[take_before]]
        nearest[take_after, k] = line.index[a[take_after]]
        more_in_run = b + 1 < np.minimum(line.run_end[b], slot)
        before = np.where(take_before, np.where(more_in_run, b + 1, _previous_run(line, b)), before)
        after += take_after
    return nearest


def tie_at(line: Timeline, slot: Ints, rank: Ints) -> Tie:
    """The tie that contains the given rank (1..C) of the tracklet in each slot: all tracklets that could have it."""
    time, now = line.position, line.position[slot]
    fewest = np.maximum(0, rank - (line.video_end[slot] - 1 - slot))
    most = np.minimum(rank, slot - line.video_begin[slot])
    # The number of the `rank` nearest that lie before, if those before go first in a tie.
    low = _first(fewest, most, lambda n: now - time[slot - n - 1] > time[slot + rank - n] - now)
    before, after = slot - low, slot + rank - low
    since, until = now - time[before], time[after] - now
    distance = np.maximum(since, until)
    # If the last of the `rank` lies before, those after it in the same tie begin in the next slot.
    after = np.where((until < distance) & (after + 1 < line.video_end[slot]), after + 1, after)
    in_tie_before, in_tie_after = since == distance, time[after] - now == distance
    return Tie(
        distance,
        before_begin=np.where(in_tie_before, line.run_begin[before], slot),
        before_end=np.where(in_tie_before, np.minimum(line.run_end[before], slot), slot),
        after_begin=np.where(in_tie_after, np.maximum(line.run_begin[after], slot + 1), slot),
        after_end=np.where(in_tie_after, line.run_end[after], slot),
    )


def ranks_of(video: Column, position: Column, anchors: Column, bags: Column) -> Floats:
    """The temporal ranks (A, K) of the members of bags (A, K) of anchors (A,); NaN where the bag has -1.

    Members at the same distance from the anchor share the mean of their ranks: 1.5 for the two neighbours in a track.
    """
    line, members = timeline(video, position), _array(bags)
    slot = np.broadcast_to(line.slot[_array(anchors)][:, None], members.shape)
    distance = np.abs(line.position[line.slot[members]] - line.position[slot])
    nearer = _count(line, slot, lambda d: d < distance)
    as_near = _count(line, slot, lambda d: d <= distance)
    return np.where(members < 0, np.nan, (nearer + 1 + as_near) / 2)


def video_codes(video: Column) -> Ints:
    """Videos as integers from 0, in order of first appearance: (N,)."""
    codes: Ints = pa.array(_array(video)).dictionary_encode().indices.to_numpy().astype(np.int64)
    return codes


def _array(column: Column) -> NDArray[Any]:
    return column.detach().cpu().numpy() if isinstance(column, torch.Tensor) else np.asarray(column)


def _count(line: Timeline, slot: Ints, near: Callable[[NDArray[Any]], Bools]) -> Ints:
    """The number of other tracklets of the video whose distance from the tracklet in each slot is `near`."""
    time, now, last = line.position, line.position[slot], len(line.position) - 1
    begin = _first(line.video_begin[slot], slot, lambda other: near(now - time[other]))
    end = _first(slot + 1, line.video_end[slot], lambda other: ~near(time[np.minimum(other, last)] - now))
    return end - begin - 1


def _first(low: Ints, high: Ints, holds: Callable[[Ints], Bools]) -> Ints:
    """The first number in low..high-1 for which a monotone condition holds, by binary search; high if there is none."""
    while (searching := low < high).any():
        middle = (low + high) // 2  # equal to `high` where the search has ended
        lower = holds(middle) | ~searching
        low, high = np.where(lower, low, middle + 1), np.where(lower, middle, high)
    return low


def _runs(new: Bools) -> tuple[Ints, Ints]:
    """The begin and the end of the run that contains each slot; `new` marks the first slot of each run."""
    first = np.flatnonzero(new)
    length = np.diff(first, append=len(new))
    return np.repeat(first, length), np.repeat(first + length, length)


def _previous_run(line: Timeline, slot: Ints) -> Ints:
    """The first slot of the run before that of each slot, or the slot before the video if there is none."""
    last = line.run_begin[slot] - 1
    return np.where(last < line.video_begin[slot], last, line.run_begin[last])
