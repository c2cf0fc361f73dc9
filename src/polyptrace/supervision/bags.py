"""Bags: the K tracklets that, by time, probably show the anchor's polyp, drawn by their temporal rank.

The rank r = 1..C orders the other tracklets of the anchor's video by the distance of their positions. There is no N x N
matrix. The tracklets are sorted once by (video, position), and the r nearest ones are always a number of slots just
before the anchor and the rest just after it. That number is found by binary search, so any rank costs O(log r).

Ties are frequent: within a track, the neighbours start equally many frames before and after. All tracklets at one
distance d from an anchor form at most two runs of neighbouring slots, those that start d before it and those that start
d after it, so a tie is described by the ends of its two runs.

Ranks are drawn without replacement from P(r) ∝ exp(-r/τ), r = 1..C. Gumbel top-K would need C random numbers for each
anchor; the exponential distribution does not. The ranks that are left after some draws form gaps between the drawn
ones, and a gap of n ranks after rank a has the mass e^{-a/τ} (1 - e^{-n/τ}), up to a common factor. So a gap is drawn
by its mass, then a rank inside it by inverting the truncated geometric distribution. This takes O(K²) per anchor for
any C and τ. It is computed in float64 and log space and is exact up to the 2^-53 resolution of the uniform numbers:
each draw is within C·2^-51 of its distribution in total variation, below 1e-9 for a video of a million tracklets.
τ = inf is uniform.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from polyptrace.core.arrays import Bools, Floats, Ints
from polyptrace.core.errors import UserError
from polyptrace.data.identity import by_appearance


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


def timeline(video: ArrayLike, position: ArrayLike) -> Timeline:
    """The sorted tracklets of videos (N,), numbers or names, at positions (N,)."""
    code, time = by_appearance(_array(video)), _array(position)
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
    begin, end, run = line.video_begin[slot], line.video_end[slot], line.run_begin[slot]
    backwards = np.lexsort((line.index, -line.position, line.video_begin))  # slots, the last ones of each video first
    ahead = run[:, None] + np.arange(count + 1)  # slots of the anchor's own run and after it
    behind = (begin + end - run)[:, None] + np.arange(count)  # before the run: places in `backwards`
    last = len(line.index) - 1
    candidate = np.concatenate([np.minimum(ahead, last), backwards[np.minimum(behind, last)]], axis=1)
    valid = (np.concatenate([ahead, behind], axis=1) < end[:, None]) & (candidate != slot[:, None])
    distance = np.where(valid, np.abs(line.position[candidate] - line.position[slot][:, None]), np.inf)
    tracklet = np.where(valid, line.index[candidate], -1)
    return np.take_along_axis(tracklet, np.lexsort((tracklet, distance))[:, :count], axis=1)


def tie_at(line: Timeline, slot: Ints, rank: Ints) -> Tie:
    """The tie that contains the given rank (1..C) of the tracklet in each slot: all tracklets that could have it."""
    time, now = line.position, line.position[slot]
    fewest = np.maximum(0, rank - (line.video_end[slot] - 1 - slot))
    most = np.minimum(rank, slot - line.video_begin[slot])
    # The number of the `rank` nearest that lie before, if those before go first in a tie.
    low = _search(fewest, most, lambda n: now - time[slot - n - 1] > time[slot + rank - n] - now)
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


def ranks_of(video: ArrayLike, position: ArrayLike, anchors: ArrayLike, bags: ArrayLike) -> Floats:
    """The temporal ranks (A, K) of the members of bags (A, K) of anchors (A,); NaN where the bag has -1.

    Members at the same distance from the anchor share the mean of their ranks: 1.5 for the two neighbours in a track.
    """
    line, members = timeline(video, position), _array(bags)
    slot = np.broadcast_to(line.slot[_array(anchors)][:, None], members.shape)
    distance = np.abs(line.position[line.slot[members]] - line.position[slot])
    nearer = _count(line, slot, lambda d: d < distance)
    as_near = _count(line, slot, lambda d: d <= distance)
    return np.where(members < 0, np.nan, (nearer + 1 + as_near) / 2)


def _array(column: ArrayLike) -> NDArray[Any]:
    return column.detach().cpu().numpy() if isinstance(column, torch.Tensor) else np.asarray(column)


def _count(line: Timeline, slot: Ints, near: Callable[[NDArray[Any]], Bools]) -> Ints:
    """The number of other tracklets of the video whose distance from the tracklet in each slot is `near`."""
    time, now, last = line.position, line.position[slot], len(line.position) - 1
    begin = _search(line.video_begin[slot], slot, lambda other: near(now - time[other]))
    end = _search(slot + 1, line.video_end[slot], lambda other: ~near(time[np.minimum(other, last)] - now))
    return end - begin - 1


def _search(low: Ints, high: Ints, holds: Callable[[Ints], Bools]) -> Ints:
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


#: Anchors per vectorised operation: large enough for numpy, small enough for the cache.
ANCHORS_AT_ONCE = 16_384

NOT_TAKEN = np.iinfo(np.int64).max


def sample_bags(
    video: ArrayLike,
    position: ArrayLike,
    bag_size: int,
    temperature: ArrayLike,
    generator: torch.Generator,
) -> Tensor:
    """A bag for each tracklet: (N, K) indices of other tracklets of its video, in the order drawn.

    -1 where the video has no more tracklets. video (N,): numbers or names. position (N,): first frames. Rows may be in
    any order. temperature: one number or (N,). Tracklets at the same distance from the anchor share their ranks in
    random order. `math.inf` draws uniformly.
    """
    line = timeline(video, position)
    return torch.from_numpy(draw_bags(line, np.arange(len(line.index)), bag_size, temperature, generator))


def nearest_bags(video: ArrayLike, position: ArrayLike, bag_size: int) -> Tensor:
    """The bag (N, K) of the nearest tracklets in time, nearest first, ties by index; -1 past the end of the video."""
    line = timeline(video, position)
    return torch.from_numpy(neighbours(line, np.arange(len(line.index)), bag_size))


def draw_bags(
    line: Timeline,
    anchors: Ints,
    bag_size: int,
    temperature: ArrayLike,
    generator: torch.Generator,
) -> Ints:
    """A bag (A, K) for each anchor (A,), which may repeat; temperature: one number, or that of each anchor (A,)."""
    rate = _rate(temperature, len(anchors))
    others = line.others
    bags = np.empty((len(anchors), bag_size), dtype=np.int64)
    by_time = np.argsort(line.slot[anchors], kind="stable")  # neighbours in time are neighbours in memory
    for start in range(0, len(anchors), ANCHORS_AT_ONCE):
        rows = by_time[start : start + ANCHORS_AT_ONCE]
        chunk = anchors[rows]
        u = torch.rand((3, bag_size, len(chunk)), generator=generator, dtype=torch.float64, device=generator.device)
        gap, inside, tie = u.cpu().numpy()
        ranks = draw_ranks(others[chunk], rate[rows], gap, inside)
        bags[rows] = _at_ranks(line, line.slot[chunk], ranks, tie).T
    return bags


def draw_ranks(others: Ints, rate: Floats, gap: Floats, inside: Floats) -> Ints:
    """Distinct ranks (K, A) in 1..others (A,) with P(r) ∝ exp(-r · rate), 0 where none is left.

    gap, inside (K, A): uniform numbers in [0, 1) that choose a gap between the ranks drawn so far, and the rank in it.
    """
    ranks = np.zeros(gap.shape, dtype=np.int64)
    begin = np.zeros((1, len(others)), dtype=np.int64)  # of each gap: the drawn rank before it, ascending
    for k, (gap_choice, rank_choice) in enumerate(zip(gap, inside, strict=True)):
        end = np.concatenate([begin[1:], others[None] + 1])
        length = np.maximum(end - begin - 1, 0)  # (k + 1, A) ranks left in each gap
        with np.errstate(divide="ignore"):
            log_mass = np.log(-np.expm1(-length * rate)) - begin * rate
        mass = np.exp(log_mass - np.where(others > k, log_mass.max(0), 0.0)).cumsum(0)
        target = np.minimum(gap_choice * mass[-1], np.nextafter(mass[-1], 0.0))
        chosen = np.minimum((mass <= target).sum(0), k)[None]
        n = np.take_along_axis(length, chosen, 0)[0]
        step = np.ceil(-np.log1p(rank_choice * np.expm1(-n * rate)) / rate)
        rank = np.take_along_axis(begin, chosen, 0)[0] + np.clip(step.astype(np.int64), 1, n)
        ranks[k] = np.where(others > k, rank, 0)
        begin = np.sort(np.concatenate([begin, ranks[k : k + 1]]), axis=0)
    return ranks


def _at_ranks(line: Timeline, slot: Ints, ranks: Ints, uniform: Floats) -> Ints:
    """The tracklets (K, A) at the ranks (K, A) from the slots (A,), those of one tie in random order; -1 at rank 0."""
    tie = tie_at(line, np.broadcast_to(slot, ranks.shape), ranks)
    before = tie.before_end - tie.before_begin
    size = before + tie.after_end - tie.after_begin
    drawn_slot = np.empty_like(ranks)
    choice = np.full_like(ranks, NOT_TAKEN)  # number of the drawn tracklet within its tie
    for k in range(len(ranks)):
        taken = np.sort(np.where(tie.distance[:k] == tie.distance[k], choice[:k], NOT_TAKEN), axis=0)
        number = (uniform[k] * (size[k] - (taken < NOT_TAKEN).sum(0))).astype(np.int64)
        for other in taken:
            number += number >= other
        choice[k] = number
        after = tie.after_begin[k] + number - before[k]
        drawn_slot[k] = np.where(number < before[k], tie.before_begin[k] + number, after)
    valid = ranks > 0
    return np.where(valid, line.index[np.where(valid, drawn_slot, 0)], -1)


def _rate(temperature: ArrayLike, anchors: int) -> Floats:
    """1/τ (A,); for τ = inf a number so small that the formulas give the uniform limit."""
    tau = np.asarray(torch.as_tensor(temperature, dtype=torch.float64).cpu().numpy())
    if tau.ndim > 0 and tau.shape != (anchors,):
        raise ValueError(f"temperature has shape {tau.shape}, it must be one number or ({anchors},)")
    if not (tau > 0).all():
        raise UserError(f"temperature of the ranks: {tau.min()} -> supervision.tau_min and tau_max must be above 0")
    return np.broadcast_to(np.maximum(1 / tau, 1e-150), (anchors,))
