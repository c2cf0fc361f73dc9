"""What the curriculum does to bags: ranks, and, where polyps are known, purity and who gets the gradient.

A bag is pure when all its members show the anchor's polyp. Needs labels, so it is a diagnostic: training has no access.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyptrace.config import Supervision
from polyptrace.core.randomness import torch_generator
from polyptrace.evaluate import draw_counts, interval, mean_draws
from polyptrace.losses import gradient_share
from polyptrace.supervision import (
    fitted_temperature,
    nearest_bags,
    sample_bags,
    temperature,
    uniform_bags,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Draws behind an interval, and the part of the sampled ranks that a band shows.
DRAWS = 500
BAND = (10, 90)

#: Bags that are drawn at each point at least (up to so many for each anchor), so that a curve is not one epoch's luck.
BAGS, MOST_EACH = 2000, 20


@dataclass(frozen=True)
class Share:
    """A share in [0, 1] at each point of the curriculum, with its 95 % interval over polyps."""

    value: Floats  # (P,)
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Curriculum:
    """Bags through the curriculum, at P points."""

    c: Floats  # (P,)
    tau: Floats  # (P,) mean over anchors, where it differs between them
    rank: Floats  # (P, 3): mean, 10th and 90th percentile of the sampled ranks
    anchors: int
    epochs: int  # bags that were drawn for each anchor at each point
    bag_size: int
    judged: int  # of these bags, those whose polyps are all known (at the last point)
    polyps: int
    pure: Share | None  # bags with members of the anchor's polyp alone
    wrong: Share | None  # members of another polyp
    wrong_gradient: Share | None  # their part of the pull towards the anchor


@dataclass(frozen=True)
class Tracklets:
    """The columns that bags are made from, and what is known about them beside."""

    video: NDArray[np.object_]
    position: Ints
    polyp: NDArray[np.object_]  # "" unknown
    vectors: Tensor | None = None  # (N, D) what the loss sees


def draw(tracklets: Tracklets, settings: Supervision, c: float, seed: int, epoch: int = 0) -> tuple[Ints, float]:
    """The bags (N, K) at progress c, as training draws them, and the mean temperature they were drawn at."""
    video, position, size = tracklets.video, tracklets.position, settings.bag_size
    high = fitted_temperature(video, position, settings.tau_fit, settings.tau_max, settings.tau_share, settings.tau_min)
    tau = high if settings.curriculum == "fixed" else temperature(c, settings.tau_min, high)
    generator = torch_generator(seed, round(c * 1_000_000), epoch)
    match settings.sampling:
        case "exponential":
            bags = sample_bags(video, position, size, tau, generator)
        case "uniform":
            bags, tau = uniform_bags(video, position, size, generator), math.inf
        case "nearest":
            bags, tau = nearest_bags(video, position, size), 0.0
    drawn: Ints = bags.numpy()
    if settings.small_videos == "leave-out":
        drawn[(drawn < 0).any(1)] = -1
    return drawn, float(torch.as_tensor(tau, dtype=torch.float64).mean())


def through_curriculum(tracklets: Tracklets, settings: Supervision, points: int = 21, seed: int = 0) -> Curriculum:
    """Bags of every anchor at `points` values of c from 0 to 1."""
    c = np.linspace(0, 1, points)
    tau, rank, figures = np.empty(points), np.full((points, 3), np.nan), []
    epochs = min(max(1, -(-BAGS // len(tracklets.video))), MOST_EACH)
    anchors = 0
    for place, now in enumerate(c):
        drawn = [draw(tracklets, settings, float(now), seed, epoch) for epoch in range(epochs)]
        tau[place] = drawn[0][1]
        anchors = int((drawn[0][0] >= 0).any(1).sum())
        ranks = np.concatenate([sampled_ranks(tracklets.video, tracklets.position, bags) for bags, _ in drawn])
        found = ranks[np.isfinite(ranks)]
        if len(found):
            rank[place] = [found.mean(), *np.percentile(found, BAND)]
        figures.append(judge(tracklets, [bags for bags, _ in drawn], seed))
    last = figures[-1]
    return Curriculum(
        c,
        tau,
        rank,
        anchors,
        epochs,
        settings.bag_size,
        last.bags,
        last.polyps,
        _over_points([f.pure for f in figures]),
        _over_points([f.wrong for f in figures]),
        _over_points([f.wrong_gradient for f in figures]),
    )


@dataclass(frozen=True)
class Judged:
    """One set of bags, looked at with labels: (value, low, high), None where it cannot be said."""

    bags: int
    polyps: int
    pure: tuple[float, float, float] | None = None
    wrong: tuple[float, float, float] | None = None
    wrong_gradient: tuple[float, float, float] | None = None


def judge(tracklets: Tracklets, epochs: Sequence[Ints], seed: int = 0) -> Judged:
    """How pure bags (N, K), drawn once or more, are; those in which some polyp is unknown do not count."""
    polyps: list[NDArray[np.object_]] = []
    columns: list[list[Floats]] = []
    for bags in epochs:
        right = same_polyp(tracklets.polyp, bags)  # (N, K)
        rows = np.flatnonzero((bags >= 0).any(1) & ~((bags >= 0) & np.isnan(right)).any(1))
        wrong = right[rows] == 0
        members = (bags[rows] >= 0).sum(1)
        columns.append([(~wrong.any(1)).astype(np.float64), wrong.sum(1) / members])
        if tracklets.vectors is not None:
            columns[-1].append((wrong * shares(tracklets.vectors, rows, bags[rows])).sum(1))
        polyps.append(tracklets.polyp[rows])
    names, cluster = np.unique(np.concatenate(polyps).astype(str), return_inverse=True)
    if not len(names):
        return Judged(0, 0)
    counts = draw_counts(len(names), DRAWS, seed)
    joined = [np.concatenate(column) for column in zip(*columns, strict=True)]
    said = [(float(column.mean()), *interval(mean_draws(column, cluster, counts), len(names))) for column in joined]
    return Judged(len(cluster), len(names), said[0], said[1], said[2] if len(said) > 2 else None)


def sampled_ranks(video: NDArray[np.object_], position: Ints, bags: Ints) -> Floats:
    """The rank (N, K) of each member among the others of its anchor's video; a tie has the mean of its ranks."""
    ranks = np.full(bags.shape, np.nan)
    for name in dict.fromkeys(video.tolist()):
        rows = np.flatnonzero(video == name)
        when = np.sort(position[rows])
        members = bags[rows]
        now = position[rows][:, None]
        distance = np.abs(position[np.maximum(members, 0)] - now)
        nearer = _within(when, now, distance - 1) - 1  # without the anchor itself
        as_near = _within(when, now, distance) - 1
        nearer = np.where(distance == 0, 0, nearer)
        ranks[rows] = np.where(members >= 0, (nearer + 1 + as_near) / 2, np.nan)
    return ranks


def same_polyp(polyp: NDArray[np.object_], bags: Ints) -> Floats:
    """1 where a member (N, K) shows its anchor's polyp, 0 where another, NaN where that is not known."""
    members, anchor = polyp[np.maximum(bags, 0)], polyp[: len(bags), None]
    known = (bags >= 0) & (members != "") & (anchor != "")
    return np.where(known, (members == anchor).astype(np.float64), np.nan)


def shares(vectors: Tensor, anchors: Ints, bags: Ints, temperature: float = 0.07) -> Floats:
    """The share (A, K) of the gradient that each member of the bags (A, K) of some anchors (A,) gets."""
    parts = [torch.zeros(0, bags.shape[1])]
    for begin in range(0, len(anchors), 256):
        some = torch.from_numpy(bags[begin : begin + 256])
        of_anchors = vectors[torch.from_numpy(anchors[begin : begin + 256])]
        parts.append(gradient_share(of_anchors, vectors[some.clamp(min=0)], temperature, some >= 0))
    share: Floats = torch.cat(parts).double().numpy()
    return share


def _within(when: Ints, now: Ints, distance: Ints) -> Ints:
    """How many of the sorted times lie within a distance of now, ends included."""
    return np.searchsorted(when, now + distance, "right") - np.searchsorted(when, now - distance, "left")


def _over_points(figures: list[tuple[float, float, float] | None]) -> Share | None:
    known = [figure for figure in figures if figure is not None]
    return Share(*np.array(known).T) if len(known) == len(figures) and known else None
