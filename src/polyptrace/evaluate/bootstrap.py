"""Confidence intervals and tests: a cluster bootstrap by weights, and the variance between training seeds.

A draw takes C of the C clusters (procedures or polyps) with replacement and weights everything that belongs to a
cluster by the number of times it was taken, c_u. Copies would be wrong: a copied tracklet would be its own nearest
neighbour.

- A mean over queries, or over the tracklets that test a probe, weights each by its cluster's count. The gallery of a
  query stays complete.
- A pair of tracklets from two clusters has weight c_u c_v. A pair inside one cluster has weight c_u: each time the
  cluster is taken it brings its own pairs, and pairs between its copies are not made.
- The repeats of a probe are resampled outside the clusters (`nested_draws`).

Variance of a metric that is averaged over S training seeds, all tested on the same C clusters:

    V = V_clusters + V_seeds                                V_seeds = max(between - interaction, 0)
    between     = (variance of the S values) / S            interaction = (variance of a seed's deviation from the
                                                                           mean, over draws, mean over seeds) / S

The interaction of seeds and clusters is part of both V_clusters and `between`, so it is subtracted once. V has
Welch-Satterthwaite degrees of freedom,

    df = V² / (V_clusters² / (C - 1) + V_seeds² / (S - 1)),

because three seeds determine a variance much less well than twenty procedures do. A row with one training seed has
V_seeds = 0: its interval and tests are about that trained model, not about the training procedure.

The confidence interval is between two percentiles of the draws, which are moved outwards for few clusters
("expanded percentile interval", Hesterberg, The American Statistician 2015). V_seeds widens both sides by the method
of variance estimates recovery (Zou and Donner, Statistics in Medicine 2008). Two rows are compared on the same draws:
the difference over √V, with the seed variances of both rows, against a t distribution with df degrees of freedom. The
interval of a difference comes from the same distribution, so it excludes 0 exactly when p is below 0.05.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from polyptrace.core.arrays import Floats, Ints
from polyptrace.core.randomness import numpy_generator

LEVEL = 0.95
#: Streams of random numbers, so that clusters and repeats are drawn independently.
CLUSTERS, REPEATS = 0, 1

#: A variance and its degrees of freedom.
Part = tuple[float, float]


@dataclass(frozen=True)
class Estimate:
    """A metric of S training seeds: its values (S,), and its values on each of R bootstrap draws (S, R)."""

    values: Floats
    draws: Floats
    clusters: int

    @property
    def value(self) -> float:
        """Mean over training seeds."""
        return float(self.values.mean())

    @property
    def mean_draws(self) -> Floats:
        """The mean over training seeds on each draw (R,)."""
        return np.asarray(self.draws.mean(axis=0))

    @property
    def seed_part(self) -> Part:
        """The variance of the mean that is due to the training seeds, and its degrees of freedom."""
        seeds = len(self.values)
        if seeds < 2:
            return 0.0, 1
        between = float(self.values.var(ddof=1)) / seeds
        deviation = self.draws - self.mean_draws
        interaction = float(np.nanvar(deviation, axis=1).sum()) / (seeds - 1) / seeds * _small_sample(self.clusters)
        return max(between - interaction, 0.0), seeds - 1

    def interval(self) -> tuple[float, float]:
        """(low, high) of the cluster bootstrap, widened by the variance of the training seeds; NaN if undefined."""
        ends = interval(self.mean_draws, self.clusters)
        if np.isnan(ends[0]) or not self.seed_part[0]:
            return ends
        centre = float(np.clip(self.value, *ends))  # a biased metric can lie outside its percentiles
        reach = _t_quantile(self.clusters - 1)
        parts = [_total([(((end - centre) / reach) ** 2, self.clusters - 1), self.seed_part]) for end in ends]
        low, high = (_t_quantile(degrees) * np.sqrt(variance) for variance, degrees in parts)
        return float(centre - low), float(centre + high)


@dataclass(frozen=True)
class Paired:
    """The difference of two rows, its confidence interval and its two-sided p."""

    difference: float
    low: float
    high: float
    p: float


def draw_counts(clusters: int, draws: int, seed: int) -> Ints:
    """How often each cluster is taken in each draw (R, C); rows sum to C."""
    generator = numpy_generator(seed, CLUSTERS, clusters)
    counts: Ints = generator.multinomial(clusters, np.full(clusters, 1.0 / clusters), size=draws)
    return counts


def mean_draws(values: Floats, cluster: Ints, counts: Ints) -> Floats:
    """Weighted means (R,) of values (Q,) that belong to clusters (Q,); NaN where a draw contains none of them."""
    clusters = counts.shape[1]
    total = counts @ np.bincount(cluster, weights=values, minlength=clusters)
    number = counts @ np.bincount(cluster, minlength=clusters)
    means = np.full(len(counts), np.nan)
    np.divide(total, number, out=means, where=number > 0)
    return means


def nested_draws(draws: ArrayLike, seed: int) -> Floats:
    """Draws (R,) of a mean over S probe repeats, from the draws of each repeat (S, R) on the same clusters.

    Each draw takes S - 1 of the repeats with replacement. The mean of S - 1 draws from S values varies as the mean of
    S values does; with S draws it would vary less.
    """
    each = np.asarray(draws, dtype=np.float64)
    repeats, number = each.shape
    size = max(repeats - 1, 1)
    generator = numpy_generator(seed, REPEATS, repeats)
    taken = generator.multinomial(size, np.full(repeats, 1 / repeats), size=number) / size  # (R, S)
    return np.asarray((taken.T * each).sum(axis=0))


def interval(draws: Floats, clusters: int) -> tuple[float, float]:
    """(low, high) of the draws (R,) that are not NaN; NaN with fewer than two draws or clusters."""
    defined = draws[~np.isnan(draws)]
    if len(defined) < 2 or clusters < 2:
        return float("nan"), float("nan")
    reach = np.sqrt(_small_sample(clusters)) * _t_quantile(clusters - 1)
    low, high = np.quantile(defined, [stats.norm.cdf(-reach), stats.norm.cdf(reach)])
    return float(low), float(high)


def paired(one: Estimate, other: Estimate) -> Paired:
    """The difference `one` - `other` of two estimates on the same draws."""
    assert one.draws.shape[1] == other.draws.shape[1]
    assert one.clusters == other.clusters
    clusters, difference = one.clusters, one.value - other.value
    drawn = one.mean_draws - other.mean_draws
    if clusters < 2 or np.isfinite(drawn).sum() < 2:
        return Paired(difference, float("nan"), float("nan"), 1.0)
    cluster_part = (float(np.nanvar(drawn)) * _small_sample(clusters), clusters - 1)
    variance, degrees = _total([cluster_part, one.seed_part, other.seed_part])
    if variance == 0:
        return Paired(difference, difference, difference, float(difference == 0))
    deviation = np.sqrt(variance)
    reach = float(_t_quantile(degrees) * deviation)
    p = float(2 * stats.t.sf(abs(difference) / deviation, degrees))
    return Paired(difference, difference - reach, difference + reach, p)


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment of a family of tests; in our tables a family is a column."""
    order = np.argsort(p, kind="stable")
    factors = np.arange(len(order), 0, -1)
    stepped = np.minimum(1.0, np.maximum.accumulate(np.asarray(p, dtype=np.float64)[order] * factors))
    adjusted = np.empty(len(order))
    adjusted[order] = stepped
    return [float(value) for value in adjusted]


def _small_sample(clusters: int) -> float:
    """C / (C - 1): the variance of bootstrap draws is too small by this factor."""
    return clusters / max(clusters - 1, 1)


def _t_quantile(degrees: float) -> float:
    """The quantile of Student's t that bounds a two-sided interval of `LEVEL`."""
    return float(stats.t.ppf((1 + LEVEL) / 2, degrees))


def _total(parts: Sequence[Part]) -> Part:
    """Sum of the variances, and its degrees of freedom by Welch and Satterthwaite."""
    total = sum(variance for variance, _ in parts)
    squares = sum(variance**2 / degrees for variance, degrees in parts)
    return total, total**2 / squares if squares > 0 else 1.0
