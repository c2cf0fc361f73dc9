"""Temporal ranks: for each tracklet the others of its video, in order of the distance between their positions.

No N x N matrix: the tracklets lie once in order of (video, position), and the r nearest to a place are always some just
before it and the rest just after. How many before is a binary search, so any rank of any tracklet costs O(log r).

Ties are the rule, not the exception: inside a track the neighbours start exactly as many frames before as after. All
tracklets at one distance from an anchor are at most two runs of neighbouring places, those that start d before it and
those that start d after it, so a tie is known by the ends of its two runs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Column: TypeAlias = NDArray[Any] | Tensor | Sequence[Any]
Integers: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Timeline:
    """N tracklets in order of (video, position, index). An index is the caller's, a place is one in this order."""

    index: Integers  # of the tracklet at each place
    place: Integers  # of the tracklet with each index
    position: NDArray[Any]  # at each place
    video_begin: Integers  # first place of the video, at each place
    video_end: Integers  # one past its last
    run_begin: Integers  # first place of the same video and position, at each place
    run_end: Integers  # one past its last

    @property
    def others(self) -> Integers:
        """The number C of other tracklets in its video, of the tracklet with each index: (N,)."""
        return (self.video_end - self.video_begin - 1)[self.place]


class Tie(NamedTuple):
    """The tracklets at one distance from an anchor: the places of two runs, one of which may be empty."""

    distance: NDArray[Any]
    before_begin: Integers
    before_end: Integers
    after_begin: Integers
    after_end: Integers


def timeline(video: Column, position: Column) -> Timeline:
    """The tracklets of videos (N,), numbers or names, at positions (N,), in order."""
    code, when = video_codes(video), _array(position)
    if code.shape != when.shape or when.ndim != 1:
        raise ValueError(f"video {code.shape} and position {when.shape} must be two columns of one length")
    when = when.astype(np.float64 if when.dtype.kind == "f" else np.int64)
    index = np.lexsort((when, code))  # stable: ties by index
    code, when = code[index], when[index]
    new_video = np.diff(code, prepend=-1) != 0
    new_run = new_video.copy()
    new_run[1:] |= when[1:] != when[:-1]
    place = np.empty_like(index)
    place[index] = np.arange(len(index))
    return Timeline(index, place, when, *_stretches(new_video), *_stretches(new_run))


def neighbours(line: Timeline, anchors: Integers, count: int) -> Integers:
    """The tracklets (A, count) of ranks 1..count of each anchor (A,), ties by index; -1 where the video has no more."""
    here = line.place[anchors]
    begin, end, now = line.video_begin[here], line.video_end[here], line.position[here]
    before = np.where(line.run_begin[here] < here, line.run_begin[here], _run_before(line, here))
    after = here + 1
    found = np.full((len(anchors), count), -1, dtype=np.int64)
    for k in range(count):
        has_before, has_after = before >= begin, after < end
        b, a = np.maximum(before, 0), np.minimum(after, len(line.index) - 1)
        since, until = now - line.position[b], line.position[a] - now
        nearer = (since < until) | ((since == until) & (line.index[b] < line.index[a]))
        go_before = has_before & (nearer | ~has_after)
        go_after = has_after & ~go_before
        found[go_before, k] = line.index[b[go_before]]
        found[go_after, k] = line.index[a[go_after]]
        more_in_run = b + 1 < np.minimum(line.run_end[b], here)
        before = np.where(go_before, np.where(more_in_run, b + 1, _run_before(line, b)), before)
        after += go_after
    return found


def tie_at(line: Timeline, here: Integers, rank: Integers) -> Tie:
    """The tie that holds the given rank (1..C) of the tracklet at each place: all that could have this rank."""
    when, now = line.position, line.position[here]
    least = np.maximum(0, rank - (line.video_end[here] - 1 - here))
    most = np.minimum(rank, here - line.video_begin[here])
    # How many of the `rank` nearest lie before, when those go first in a tie.
    low = _first(least, most, lambda n: now - when[here - n - 1] > when[here + rank - n] - now)
    before, after = here - low, here + rank - low
    since, until = now - when[before], when[after] - now
    distance = np.maximum(since, until)
    # The last of the `rank` may be one before; then those after, in the same tie, begin at the next place.
    after = np.where((until < distance) & (after + 1 < line.video_end[here]), after + 1, after)
    in_tie_before, in_tie_after = since == distance, when[after] - now == distance
    return Tie(
        distance,
        before_begin=np.where(in_tie_before, line.run_begin[before], here),
        before_end=np.where(in_tie_before, np.minimum(line.run_end[before], here), here),
        after_begin=np.where(in_tie_after, np.maximum(line.run_begin[after], here + 1), here),
        after_end=np.where(in_tie_after, line.run_end[after], here),
    )


def ranks_of(video: Column, position: Column, anchors: Column, bags: Column) -> Floats:
    """The temporal rank (A, K) of the members of bags (A, K) of anchors (A,); NaN where a bag has no more.

    Members at the same distance from the anchor share the mean of their ranks: 1.5 for the two neighbours in a track.
    """
    line, members = timeline(video, position), _array(bags)
    here = np.broadcast_to(line.place[_array(anchors)][:, None], members.shape)
    distance = np.abs(line.position[line.place[members]] - line.position[here])
    nearer = _closer(line, here, lambda d: d < distance)
    not_farther = _closer(line, here, lambda d: d <= distance)
    return np.where(members < 0, np.nan, (nearer + 1 + not_farther) / 2)


def video_codes(video: Column) -> Integers:
    """Videos as whole numbers from 0, in order of first appearance: (N,)."""
    names = _array(video).tolist()
    code = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.fromiter((code[name] for name in names), dtype=np.int64, count=len(names))


def _array(column: Column) -> NDArray[Any]:
    return column.detach().cpu().numpy() if isinstance(column, torch.Tensor) else np.asarray(column)


def _closer(line: Timeline, here: Integers, close: Callable[[NDArray[Any]], NDArray[np.bool_]]) -> Integers:
    """How many other tracklets of the video are `close`, told by their distance, to the tracklet at each place."""
    when, now, last = line.position, line.position[here], len(line.position) - 1
    begin = _first(line.video_begin[here], here, lambda place: close(now - when[place]))
    end = _first(here + 1, line.video_end[here], lambda place: ~close(when[np.minimum(place, last)] - now))
    return end - begin - 1


def _first(low: Integers, high: Integers, holds: Callable[[Integers], NDArray[np.bool_]]) -> Integers:
    """The first number from low to high - 1 at which `holds`, which does not stop once it did; high if at none."""
    while (searching := low < high).any():
        middle = (low + high) // 2  # where the search has ended, `high`
        found = holds(middle) | ~searching
        low, high = np.where(found, low, middle + 1), np.where(found, middle, high)
    return low


def _stretches(new: NDArray[np.bool_]) -> tuple[Integers, Integers]:
    """Where the stretch of each place begins and ends, `new` marking the first place of each."""
    first = np.flatnonzero(new)
    length = np.diff(first, append=len(new))
    return np.repeat(first, length), np.repeat(first + length, length)


def _run_before(line: Timeline, place: Integers) -> Integers:
    """The first place of the run before that of each place, or the place before the video when there is none."""
    last = line.run_begin[place] - 1
    return np.where(last < line.video_begin[place], last, line.run_begin[last])
