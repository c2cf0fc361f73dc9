"""Bags: the K tracklets that, by time, probably show the anchor's polyp.

Ranks are drawn without replacement from P(r) ∝ exp(-r/τ), r = 1..C. Gumbel top-K would need C random numbers for each
anchor; the exponential distribution does not. The ranks that are left after some draws form gaps between the drawn
ones, and a gap of n ranks after rank a has the mass e^{-a/τ} (1 - e^{-n/τ}), up to a common factor. So a gap is drawn
by its mass, then a rank inside it by inverting the truncated geometric distribution. This takes O(K²) per anchor for
any C and τ. It is computed in float64 and log space and is exact up to the 2^-53 resolution of the uniform numbers:
each draw is within C·2^-51 of its distribution in total variation, below 1e-9 for a video of a million tracklets.
τ = inf is uniform.

The purity of bags, whether their members show the anchor's polyp, needs labels. It is a diagnostic for reports, which
training never calls.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyptrace.core.arrays import Bools, Floats, Ints
from polyptrace.core.errors import UserError
from polyptrace.supervision.ranks import Column, Timeline, neighbours, tie_at, timeline

#: Anchors per vectorised operation: large enough for numpy, small enough for the cache.
CHUNK = 16_384

NOT_TAKEN = np.iinfo(np.int64).max


def sample_bags(
    video: Column,
    position: Column,
    bag_size: int,
    temperature: float | Column,
    generator: torch.Generator,
) -> Tensor:
    """A bag for each tracklet: (N, K) indices of other tracklets of its video, in the order drawn.

    -1 where the video has no more tracklets. video (N,): numbers or names. position (N,): first frames. Rows may be in
    any order. temperature: one number or (N,). Tracklets at the same distance from the anchor share their ranks in
    random order. `math.inf` draws uniformly.
    """
    line = timeline(video, position)
    return torch.from_numpy(draw_bags(line, np.arange(len(line.index)), bag_size, temperature, generator))


def nearest_bags(video: Column, position: Column, bag_size: int) -> Tensor:
    """The bag (N, K) of the nearest tracklets in time, nearest first, ties by index; -1 past the end of the video."""
    line = timeline(video, position)
    return torch.from_numpy(neighbours(line, np.arange(len(line.index)), bag_size))


def draw_bags(
    line: Timeline,
    anchors: Ints,
    bag_size: int,
    temperature: float | Column,
    generator: torch.Generator,
) -> Ints:
    """A bag (A, K) for each anchor (A,), which may repeat; temperature: one number or (N,), by index."""
    rate = _rate(temperature, len(line.index))
    others = line.others
    bags = np.empty((len(anchors), bag_size), dtype=np.int64)
    by_time = np.argsort(line.slot[anchors], kind="stable")  # neighbours in time are neighbours in memory
    for start in range(0, len(anchors), CHUNK):
        rows = by_time[start : start + CHUNK]
        chunk = anchors[rows]
        u = torch.rand((3, bag_size, len(chunk)), generator=generator, dtype=torch.float64, device=generator.device)
        gap, inside, tie = u.cpu().numpy()
        ranks = draw_ranks(others[chunk], rate[chunk], gap, inside)
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


def _rate(temperature: float | Column, tracklets: int) -> Floats:
    """1/τ (N,); for τ = inf a number so small that the formulas give the uniform limit."""
    tau = np.asarray(torch.as_tensor(temperature, dtype=torch.float64).cpu().numpy())
    if tau.ndim > 0 and tau.shape != (tracklets,):
        raise ValueError(f"temperature has shape {tau.shape}, it must be one number or ({tracklets},)")
    if not (tau > 0).all():
        raise UserError(f"temperature of the ranks: {tau.min()} -> supervision.tau_min and tau_max must be above 0")
    return np.broadcast_to(np.maximum(1 / tau, 1e-150), (tracklets,))


@dataclass(frozen=True)
class BagPurity:
    """A bags in which the polyp of every tracklet is known."""

    anchor: Ints  # (A,) index of the anchor
    members: Ints  # (A,) number of members
    wrong: Bools  # (A, K) members that show another polyp than the anchor

    @property
    def pure(self) -> Bools:
        """Bags whose members all show the anchor's polyp: (A,)."""
        return np.logical_not(self.wrong.any(1))

    @property
    def wrong_share(self) -> Floats:
        """The share of wrong members in each bag: (A,)."""
        share: Floats = self.wrong.sum(1) / self.members
        return share


def bag_purity(bags: Ints, polyp: NDArray[Any]) -> BagPurity:
    """The purity of the bags (N, K) of tracklets with `polyp` (N,); "" is unknown.

    Empty bags, and bags in which a polyp is unknown, are left out.
    """
    same = same_polyp(bags, polyp)
    valid = bags >= 0
    anchor = np.flatnonzero(valid.any(1) & ~(valid & np.isnan(same)).any(1))
    return BagPurity(anchor, valid[anchor].sum(1), same[anchor] == 0)


def same_polyp(bags: Ints, polyp: NDArray[Any]) -> Floats:
    """1 where a member of bags (N, K) shows the anchor's polyp, 0 where it shows another, NaN where it is unknown."""
    members, anchor = polyp[np.maximum(bags, 0)], polyp[: len(bags), None]
    known = (bags >= 0) & (members != "") & (anchor != "")
    return np.where(known, (members == anchor).astype(np.float64), np.nan)
