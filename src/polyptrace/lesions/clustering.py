"""From pairwise log-odds to lesions: a partition of the tracks of a procedure, with a distribution of the count.

1. Average linkage on the log-odds of pairs joins tracks that almost certainly belong together (mean log-odds of at
   least 3) into groups, usually the visits to a lesion.
2. The posterior over all partitions of the groups is computed exactly, by dynamic programming over subsets. The weight
   of a lesion C, whose groups are taken in temporal order, is

       log w(C) = Σ over its groups but the first: log prior(shortest pause to an earlier group of C)
                                                   + mean log ratio(pairs with the earlier groups of C)

   The mean counts one group as one piece of evidence, because its tracks repeat each other. After a long pause the
   prior grows with the ratio of the two times in view. Groups with simultaneous tracks are in no common lesion.
3. The count is the median of its posterior. Among the partitions with that count, the partition that maximises the sum
   over pairs of tracks in one lesion of P(same) - 1/2 is chosen: it minimises the expected number of wrong pairs.

Groups that are linked by undecided log-odds form components. Steps 2 and 3 are done for each component, and the counts
are added. A component of more than `MAX_GROUPS` groups is solved approximately: its groups are assigned one after the
other in temporal order, each to the lesion with the largest weight or to a new one. Its count is the number of lesions
that result, and its distribution takes the assignments as independent.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyptrace.core.arrays import Bools, Float32s, Floats, Ints
from polyptrace.data.identity import by_appearance, group_rows
from polyptrace.lesions.same import ProcedureTracks, SameModel

#: Groups whose partitions are enumerated: 2^12 subsets, 4,213,597 partitions.
MAX_GROUPS = 12
#: Mean log-odds of a group, and the mean log-odds above which two groups are undecided: probabilities of 95 and 5 %.
JOIN, LINK = 3.0, -3.0
#: Up to this many earlier groups, each is a place to return to. Among more, the prior of a return is shared.
RETURNS = 6
#: A lesion is inspected once and only passed at other times: after a long pause, the odds of a return grow with this
#: power of the ratio of the two times in view, relative to a typical ratio; the change is at most a factor of 2.
LENGTH, TYPICAL_RATIO = 0.3, 2.0
#: Share of the other density in p1 and in p0 (defined in same.py): one lesion in another light or behind an instrument
#: can look different, and two lesions can look the same. It limits the likelihood ratio to 0.85 / 0.15.
EXCEPTIONS = 0.15
#: Distance of tracks that are visible at the same time. It dominates every mean over pairs.
APART = 1e9
#: Probability that the interval of the count leaves out, half of it on each side.
OUTSIDE = 0.10


@dataclass(frozen=True)
class Partition:
    """The lesions of one procedure and how certain they are; tracks in temporal order."""

    lesion: Ints  # (n,) 0, 1, ... by first appearance
    group: Ints  # (n,) tracks that were joined before the partitions were enumerated
    together: Floats  # (G, G) probability that two groups are one lesion
    confidence: Floats  # (lesions,) probability that a lesion consists of exactly these groups
    distribution: Floats  # (n + 1,) probability of each count

    @property
    def count(self) -> int:
        """Number of lesions."""
        return int(self.lesion.max()) + 1

    @property
    def interval(self) -> tuple[int, int]:
        """The smallest and the largest count of the central 90 %."""
        return count_interval(self.distribution, self.count)


def count_interval(distribution: Floats, count: int) -> tuple[int, int]:
    """The central 90 % of a distribution of the count, extended to the count itself."""
    cumulative = np.cumsum(distribution)
    low = int(np.searchsorted(cumulative, OUTSIDE / 2 + 1e-12))
    high = int(np.searchsorted(cumulative, 1 - OUTSIDE / 2 - 1e-12))
    return min(low, count), max(high, count)


@dataclass(frozen=True)
class PairScores:
    """Log prior and log ratio (n, n) of all pairs of tracks of a procedure, which are simultaneous, and lengths."""

    prior: Float32s
    ratio: Float32s
    simultaneous: Bools
    seconds: Floats  # (n,) length of each track

    @property
    def log_odds(self) -> Float32s:
        return self.prior + self.ratio

    def select(self, tracks: Ints) -> "PairScores":
        """The scores of some tracks."""
        inside = np.ix_(tracks, tracks)
        return PairScores(self.prior[inside], self.ratio[inside], self.simultaneous[inside], self.seconds[tracks])


def pair_scores(tracks: ProcedureTracks, model: SameModel) -> PairScores:
    """The scores of all pairs, computed row by row so that only the results are held in memory."""
    count = len(tracks)
    prior, ratio = np.zeros((2, count, count), np.float32)
    simultaneous = np.zeros((count, count), bool)
    for i in range(count - 1):
        j = np.arange(i + 1, count)
        cosine = tracks.unit[j] @ tracks.unit[i]
        pause = np.maximum.accumulate(tracks.pause_s[i:])
        prior[i, j] = prior[j, i] = model.visits.log_odds(pause)
        gap = np.maximum(tracks.start_s[j] - tracks.end_s[i], 0.0)
        ratio[i, j] = ratio[j, i] = _limited(model.log_ratio(cosine, gap))
        simultaneous[i, j] = simultaneous[j, i] = tracks.start_s[j] <= tracks.end_s[i]
    return PairScores(prior, ratio, simultaneous, tracks.end_s - tracks.start_s)


def _limited(ratio: Floats) -> Floats:
    """The log ratios of p1 to p0 when each is mixed with the share `EXCEPTIONS` of the other."""
    share = np.log(EXCEPTIONS / (1 - EXCEPTIONS))
    return np.asarray(np.logaddexp(ratio, share) - np.logaddexp(ratio + share, 0.0))


def partition(scores: PairScores, max_groups: int = MAX_GROUPS) -> Partition:
    """The lesions of one procedure; components of up to `max_groups` groups are solved exactly."""
    group = _join(scores)
    groups = _Groups.of(scores, group)
    block = np.empty(len(groups.prior), np.int64)  # lesion of each group
    together = np.eye(len(block))
    confidence: list[float] = []
    distribution = np.ones(1)
    for members in groups.components():
        inside = np.ix_(members, members)
        component = _Groups(groups.prior[inside], groups.ratio[inside], groups.size[members])
        solved = _solve(component) if len(members) <= max_groups else _assign(component)
        block[members] = solved.block + len(confidence)
        together[inside] = solved.together
        confidence += solved.confidence
        distribution = np.convolve(distribution, solved.distribution)
    lesion = by_appearance(block[group])
    confidence_of_lesion = np.empty(len(confidence))
    confidence_of_lesion[lesion] = np.array(confidence)[block[group]]
    distribution = np.pad(distribution, (0, len(group) + 1 - len(distribution)))
    return Partition(lesion, group, together, confidence_of_lesion, distribution)


def weakest_link(log_odds: NDArray[np.floating], members: Ints) -> tuple[int, int, float] | None:
    """The weakest link of the tree of strongest links within a lesion: two tracks and their log-odds."""
    if len(members) < 2:
        return None
    from scipy.sparse.csgraph import minimum_spanning_tree  # slow to import; not needed to start `explore`

    inside = log_odds[np.ix_(members, members)].astype(np.float64)
    offset = inside.max() + 1.0  # a distance of 0 is no link
    tree = minimum_spanning_tree(np.triu(offset - inside, 1)).tocoo()
    link = int(np.argmax(tree.data))
    first, second = tree.coords[0][link], tree.coords[1][link]
    return int(members[first]), int(members[second]), float(inside[first, second])


def _join(scores: PairScores) -> Ints:
    """Groups (n,) of tracks that almost certainly belong together."""
    count = len(scores.prior)
    if count == 1:
        return np.zeros(1, np.int64)
    from scipy.cluster.hierarchy import fcluster, linkage  # slow to import; not needed to start `explore`

    upper = np.triu(np.ones((count, count), bool), 1)
    distance = -scores.log_odds[upper].astype(np.float64)
    distance[scores.simultaneous[upper]] = APART
    offset = max(0.0, -float(distance.min()))  # linkage wants distances of at least 0
    distance += offset
    tree = linkage(distance, "average")
    return by_appearance(fcluster(tree, offset - JOIN, "distance"))


def _between_groups(matrix: NDArray[Any], group: Ints, combine: np.ufunc) -> Floats:
    """A matrix (n, n) with the rows and the columns of each group combined (G, G); groups (n,) count from 0."""
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(int(group.max()) + 1))
    rows = combine.reduceat(matrix[order], starts, axis=0, dtype=np.float64)
    return np.asarray(combine.reduceat(rows[:, order], starts, axis=1))


def group_scores(scores: PairScores, group: Ints) -> tuple[Floats, Floats]:
    """Largest log prior and mean log ratio (G, G) of the pairs between groups; `group` (n,) counts from 0."""
    size = np.bincount(group)
    ratio = _between_groups(scores.ratio, group, np.add) / np.outer(size, size)
    return _between_groups(scores.prior, group, np.maximum), ratio


@dataclass(frozen=True)
class _Groups:
    """Largest log prior and mean log ratio (G, G) between groups in temporal order; -inf if tracks are simultaneous."""

    prior: Floats
    ratio: Floats
    size: Ints  # (G,) tracks of each group

    @classmethod
    def of(cls, scores: PairScores, group: Ints) -> "_Groups":
        prior, ratio = group_scores(scores, group)
        ratio = np.where(_between_groups(scores.simultaneous, group, np.add) > 0, -np.inf, ratio)
        earlier = np.arange(len(prior))  # groups before each group
        shared = np.log(np.maximum(np.maximum.outer(earlier, earlier) / RETURNS, 1.0))
        seconds = np.bincount(group, scores.seconds)
        longer = np.abs(np.log(seconds[:, None] / seconds)) - np.log(TYPICAL_RATIO)
        prior = np.where(prior < 0, prior - shared + np.minimum(LENGTH * longer, np.log(2)), prior)
        return cls(prior, ratio, np.bincount(group))

    def components(self) -> list[Ints]:
        """Groups with undecided links between them."""
        from scipy.sparse import coo_array  # slow to import; not needed to start `explore`
        from scipy.sparse.csgraph import connected_components

        linked = self.prior + self.ratio > LINK
        return group_rows(connected_components(coo_array(linked), directed=False)[1])


@dataclass(frozen=True)
class _Solved:
    """The posterior over the partitions of the groups of a component."""

    block: Ints  # (G,) of the chosen partition
    together: Floats
    confidence: list[float]  # of each block
    distribution: Floats  # (G + 1,)


def _solve(groups: _Groups) -> _Solved:
    """The posterior by summing over all partitions, by dynamic programming over subsets of groups."""
    count, full = len(groups.size), 2 ** len(groups.size) - 1
    weight = _subset_weights(groups.prior, groups.ratio)
    total = np.full((full + 1, count + 1), -np.inf)  # log sum over partitions of a subset into k blocks
    total[0, 0] = 0.0
    for subset in range(1, full + 1):
        blocks = _blocks(subset)
        total[subset, 1:] = np.logaddexp.reduce(weight[blocks][:, None] + total[subset ^ blocks, :-1], axis=0)
    every = np.logaddexp.reduce(total, axis=1)  # over the number of blocks
    distribution = np.exp(total[full] - every[full])
    probability = np.exp(weight + every[full - np.arange(full + 1)] - every[full])  # that a subset is a block
    probability[0] = 0.0
    contains = (np.arange(full + 1)[:, None] >> np.arange(count)) & 1  # (subsets, G)
    together = np.minimum(contains.T @ (probability[:, None] * contains), 1.0)
    number = int(np.searchsorted(np.cumsum(distribution), 0.5 - 1e-12))
    agreement = np.outer(groups.size, groups.size) * (together - 0.5)
    best = _best_blocks(np.where(np.isneginf(groups.ratio), -np.inf, agreement), number)
    block = contains[best].argmax(axis=0)
    return _Solved(block, together, probability[best].tolist(), distribution)


def _best_blocks(agreement: Floats, number: int) -> list[int]:
    """The partition into `number` blocks, as subsets, with the largest sum of agreement over pairs in one block."""
    count = len(agreement)
    full = 2**count - 1
    weight = np.zeros(full + 1)
    for last, earlier, members in _subsets_by_last(count):
        weight[earlier | 1 << last] = weight[earlier] + np.where(members, agreement[last, :last], 0.0).sum(axis=1)
    best, choice = np.full((full + 1, count + 1), -np.inf), np.zeros((full + 1, count + 1), np.int64)
    best[0, 0] = 0.0
    for subset in range(1, full + 1):
        blocks = _blocks(subset)
        scores = weight[blocks][:, None] + best[subset ^ blocks, :-1]
        chosen = scores.argmax(axis=0)
        best[subset, 1:], choice[subset, 1:] = scores[chosen, np.arange(count)], blocks[chosen]
    chain, subset = [], full
    while subset:
        chain.append(int(choice[subset, number]))
        subset, number = subset ^ chain[-1], number - 1
    return chain


def _assign(groups: _Groups) -> _Solved:
    """Assigns the groups one after the other, for components that are too large to enumerate."""
    count = len(groups.size)
    block, together, chosen = np.zeros(count, np.int64), np.eye(count), np.ones(count)
    distribution = np.ones(1)
    for group in range(count):
        earlier = np.arange(group)
        blocks = int(block[earlier].max(initial=-1)) + 1
        log_odds = np.zeros(blocks + 1)  # the last one: a new lesion
        for each in range(blocks):
            members = earlier[block[earlier] == each]
            log_odds[each] = groups.prior[group, members].max() + groups.ratio[group, members].mean()
        probability = np.exp(log_odds - np.logaddexp.reduce(log_odds))
        block[group] = int(np.argmax(probability))
        chosen[group] = probability[block[group]]
        together[group, earlier] = together[earlier, group] = probability[block[earlier]]
        distribution = np.convolve(distribution, (1 - probability[-1], probability[-1]))
    confidence = [float(chosen[block == each].min()) for each in range(int(block.max()) + 1)]
    return _Solved(block, together, confidence, distribution)


def _subset_weights(prior: Floats, ratio: Floats) -> Floats:
    """log w of each subset of groups in temporal order; -inf where two groups cannot be one lesion."""
    count = len(prior)
    weight = np.zeros(2**count)
    for last, earlier, members in _subsets_by_last(count):
        nearest = np.where(members, prior[last, :last], -np.inf).max(axis=1)
        looks = np.where(members, ratio[last, :last], 0.0).sum(axis=1) / members.sum(axis=1)
        weight[earlier | 1 << last] = weight[earlier] + nearest + looks
    return weight


def _subsets_by_last(count: int) -> Iterator[tuple[int, Ints, Bools]]:
    """For each last element from 1, the non-empty subsets (S,) of those before it, and their elements (S, last)."""
    for last in range(1, count):
        earlier = np.arange(1, 2**last)
        yield last, earlier, ((earlier[:, None] >> np.arange(last)) & 1).astype(bool)


def _blocks(subset: int) -> Ints:
    """The subsets of a subset that contain its lowest element."""
    lowest = subset & -subset
    blocks, rest = np.array([lowest]), subset ^ lowest
    while rest:
        bit = rest & -rest
        blocks, rest = np.concatenate([blocks, blocks | bit]), rest ^ bit
    return blocks
