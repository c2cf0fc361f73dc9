"""Intervals and tests: a bootstrap over polyps (or videos) by weights, never by copies.

A draw takes C of the C clusters (polyps or videos) with replacement and weighs what belongs to a cluster by how often
it was taken, c_u. Copies would be wrong here: a copied tracklet would find itself as its nearest neighbour.

- A mean over queries, or over the tracklets that test a probe, weighs each by its cluster's count; the gallery stays.
- A pair of tracklets of two clusters weighs c_u c_v. A pair inside one cluster weighs c_u: the cluster was taken c_u
  times and brings its own pairs each time, and pairs between its copies are not made. (With c_u² the intervals of
  AUROC came out 25 to 40 % too wide on simulated data.)
- Training seeds are drawn outside: each draw takes S - 1 of the S seeds with replacement and averages them, all on the
  same clusters, since all were tested on the same polyps. The mean of S - 1 draws from S seeds varies as the mean of S
  seeds does; with S draws it would vary less, for three seeds by a third.

The interval is between two percentiles of the draws. For 95 % these are not the 2.5th and 97.5th: with few clusters
those are too close together, so they are moved out to where a t distribution with C - 1 degrees of freedom, its scale
enlarged by √(C / (C - 1)), has its own (Hesterberg, The American Statistician 2015, "expanded percentile").

Two methods are compared on the same draws: the difference of their figures over the standard deviation of the drawn
differences (enlarged likewise) against that t distribution gives the two-sided p. It has no smallest value that Holm's
correction over a large table could not get below.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

LEVEL = 0.95


@dataclass(frozen=True)
class Paired:
    """How much better a is than b, with its interval and two-sided p."""

    difference: float
    low: float
    high: float
    p: float


def draw_counts(clusters: int, draws: int, seed: int) -> NDArray[np.int64]:
    """How often each cluster was taken in each draw (R, C); rows sum to C."""
    generator = np.random.default_rng([seed, clusters])
    counts: NDArray[np.int64] = generator.multinomial(clusters, np.full(clusters, 1.0 / clusters), size=draws)
    return counts


def mean_draws(
    values: NDArray[np.float64], cluster: NDArray[np.int64], counts: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Weighted means (R,) of values (Q,) that belong to clusters (Q,); NaN where a draw has none of them."""
    clusters = counts.shape[1]
    total = counts @ np.bincount(cluster, weights=values, minlength=clusters)
    number = counts @ np.bincount(cluster, minlength=clusters)
    means = np.full(len(counts), np.nan)
    np.divide(total, number, out=means, where=number > 0)
    return means


def nested_draws(draws: ArrayLike, seed: int) -> NDArray[np.float64]:
    """Draws (R,) of a mean over training seeds, from each seed's own draws (S, R) on the same clusters."""
    each = np.asarray(draws, dtype=np.float64)
    seeds, number = each.shape
    size = max(seeds - 1, 1)
    generator = np.random.default_rng([seed, seeds])
    taken = generator.multinomial(size, np.full(seeds, 1 / seeds), size=number) / size  # (R, S)
    return np.asarray((taken.T * each).sum(axis=0))


def interval(draws: NDArray[np.float64], clusters: int, level: float = LEVEL) -> tuple[float, float]:
    """(low, high) of the draws that are defined, over so many clusters; NaN with fewer than two of either."""
    defined = draws[~np.isnan(draws)]
    if len(defined) < 2 or clusters < 2:
        return float("nan"), float("nan")
    reach = np.sqrt(clusters / (clusters - 1)) * stats.t.ppf((1 + level) / 2, clusters - 1)
    low, high = np.quantile(defined, [stats.norm.cdf(-reach), stats.norm.cdf(reach)])
    return float(low), float(high)


def paired(
    value: float, other: float, draws: NDArray[np.float64], other_draws: NDArray[np.float64], clusters: int
) -> Paired:
    """The difference of two figures that were drawn on the same clusters, draw by draw."""
    assert draws.shape == other_draws.shape
    drawn = draws - other_draws
    low, high = interval(drawn, clusters)
    spread = float(np.nanstd(drawn)) * np.sqrt(clusters / max(clusters - 1, 1))
    if clusters < 2 or not spread > 0:
        return Paired(value - other, low, high, 1.0)
    p = 2 * stats.t.sf(abs(value - other) / spread, clusters - 1)
    return Paired(value - other, low, high, float(p))


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment: smallest p times n, next times n - 1, ..., never falling, at most 1."""
    order = np.argsort(p, kind="stable")
    factors = np.arange(len(order), 0, -1)
    stepped = np.minimum(1.0, np.maximum.accumulate(np.asarray(p, dtype=np.float64)[order] * factors))
    adjusted = np.empty(len(order))
    adjusted[order] = stepped
    return [float(value) for value in adjusted]
