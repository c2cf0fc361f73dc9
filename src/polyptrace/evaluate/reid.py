"""Re-identification: do two tracklets show the same polyp? AUROC and AUPR over every unordered pair (Section 3).

AUROC counts a tie as half. AUPR is the average precision Σ_k (R_k - R_{k-1}) P_k over the thresholds; pairs of equal
score are accepted together, as a threshold does. scikit-learn defines both in the same way.

Up to `similarity.EXACT` vectors each pair's score is kept and sorted. Beyond that, pairs are counted in the cells of
the coarse grid (2^-22 in cosine), so memory does not depend on the number of pairs.

AUROC and AUPR on bootstrap draws (`ReID.draws`): pairs are counted once, by score cell and by the clusters of the two
tracklets; a draw then only weights the counts (see `bootstrap`). Cells end at the same-polyp scores. Up to `THRESHOLDS`
distinct ones the result is exact; with more, cells end at a subset of them, spread evenly over recall and more densely
at its start, and the resulting offset of the metrics is subtracted from the draws. With few clusters the counts of all
pairs of clusters are kept and the weights c_u c_v are exact. With many, the linear part c_u + c_v - 1 replaces the
product: the remainder (c_u - 1)(c_v - 1) averages out over the C²/2 pairs of clusters and is of the order 1/√C of the
rest.

Edge cases: tracklets without a polyp are left out and counted; a zero vector has cosine 0 with every vector; without a
same-polyp pair both metrics are NaN; without a different-polyp pair AUROC is NaN and AUPR is 1.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyptrace.core.arrays import Floats, Ints
from polyptrace.evaluate.similarity import CELLS, Labels, Vectors, label_codes, score_blocks, steps_per_unit, unit_rows

#: Bins of the similarity histograms, from -1 to 1.
EDGES = np.linspace(-1.0, 1.0, 101)
#: Distinct same-polyp scores up to which cells are exact.
THRESHOLDS = 1023
#: Maximum number of entries in a table of counts.
ENTRIES = 2**25


@dataclass(frozen=True)
class PairCounts:
    """Number of same-polyp and different-polyp pairs at each score (U,), highest score first."""

    score: Floats
    same: Ints
    different: Ints


@dataclass(frozen=True)
class ReID:
    """AUROC, AUPR, and what curves, histograms and draws are computed from."""

    auroc: float
    aupr: float
    counts: PairCounts
    polyp: Ints  # (N,) codes, -1: unknown, left out
    labelled: Tensor  # (n, D): the unit vectors of known polyps
    zero_vectors: int

    @property
    def unlabelled(self) -> int:
        """Number of tracklets without a polyp."""
        return int((self.polyp < 0).sum())

    @property
    def same_pairs(self) -> int:
        """Number of pairs that show the same polyp."""
        return int(self.counts.same.sum())

    @property
    def different_pairs(self) -> int:
        """Number of pairs that show two polyps."""
        return int(self.counts.different.sum())

    def roc(self, points: int = 1000) -> tuple[Floats, Floats]:
        """(false positive rate, true positive rate) from (0, 0) to (1, 1), with at most `points` points."""
        false, true = self._rates()
        kept = _thinned(false, true, points)
        return np.concatenate([[0.0], false[kept]]), np.concatenate([[0.0], true[kept]])

    def precision_recall(self, points: int = 1000) -> tuple[Floats, Floats]:
        """(recall, precision) with increasing recall, with at most `points` points."""
        true, false = self.counts.same.cumsum(), self.counts.different.cumsum()
        kept = _thinned(*self._rates(), points)
        return true[kept] / max(true[-1], 1), true[kept] / (true[kept] + false[kept])

    def histograms(self) -> tuple[Ints, Ints]:
        """(same, different): number of pairs in each bin of `EDGES`."""
        score = np.clip(self.counts.score, -1.0, 1.0)  # on the coarse grid, 1 may be rounded up
        same = np.histogram(score, EDGES, weights=self.counts.same)[0]
        different = np.histogram(score, EDGES, weights=self.counts.different)[0]
        return same.astype(np.int64), different.astype(np.int64)

    def draws(self, cluster: Ints, weights: Ints) -> tuple[Floats, Floats]:
        """(AUROC, AUPR) on each bootstrap draw (R,): clusters (N,) weighted by the counts (R, C) of `draw_counts`."""
        known, unit, counts, clusters = self.polyp >= 0, self.labelled, self.counts, weights.shape[1]
        entries = ENTRIES if unit.dtype == torch.float64 else ENTRIES // 8  # the table is traversed once per block
        most = max(32, min(THRESHOLDS, (entries // (2 * clusters) - 1) // 2))
        edges = _edges(counts, steps_per_unit(unit.dtype), most)
        shape = (clusters, clusters if clusters**2 * (len(edges) + 1) <= entries else 2, len(edges) + 1)
        tables = _tables(unit, self.polyp[known], cluster[known], edges, shape)
        every = np.concatenate([np.ones((1, clusters)), weights])  # the first row is the data themselves
        drawn = areas(*(_weighted(table, every)[:, ::-1] for table in tables))
        exact = areas(counts.same, counts.different)
        auroc, aupr = (d[1:] + (e - d[0]) for d, e in zip(drawn, exact, strict=True))
        return auroc, aupr

    def _rates(self) -> tuple[Floats, Floats]:
        true, false = self.counts.same.cumsum(), self.counts.different.cumsum()
        return false / max(self.different_pairs, 1), true / max(self.same_pairs, 1)


def reid(vectors: Vectors, polyp: Labels, *, device: str | torch.device = "cpu") -> ReID:
    """AUROC and AUPR, fractions in [0, 1], of (N, D) vectors and their polyps (N,)."""
    unit, zero_vectors = unit_rows(vectors, device)
    codes = label_codes(polyp, len(unit))
    labelled = unit[torch.as_tensor(codes >= 0)]
    counts = count_pairs(labelled, codes[codes >= 0])
    auroc, aupr = areas(counts.same, counts.different)
    return ReID(float(auroc), float(aupr), counts, codes, labelled, zero_vectors)


def areas(same: NDArray[Any], different: NDArray[Any]) -> tuple[Floats, Floats]:
    """(AUROC, average precision) of (weighted) counts (..., U) by score, highest first.

    AUROC is NaN if either kind of pair is missing, average precision if there is no same-polyp pair.
    """
    same, different = same.astype(np.float64), different.astype(np.float64)
    true, false = same.cumsum(axis=-1), different.cumsum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        beaten = (same * (different.sum(axis=-1, keepdims=True) - false + different / 2)).sum(axis=-1)
        auroc = beaten / (same.sum(axis=-1) * different.sum(axis=-1))
        precision = np.where(same > 0, true / (true + false), 0.0)
        aupr = (same * precision).sum(axis=-1) / same.sum(axis=-1)
    return auroc, aupr


class PairBlock(NamedTuple):
    """Rows first..last against columns first..N, with masks of their pairs. Each pair is in exactly one block."""

    first: int
    last: int
    steps: Tensor  # (Q, N - first): cosines in grid steps
    pair: Tensor  # (Q, N - first): where the column is after the row
    same: Tensor  # (Q, N - first): pairs of the same polyp


def pair_blocks(unit: Tensor, polyp: Ints) -> Iterator[PairBlock]:
    """The upper triangle of the similarity matrix of unit vectors (N, D) in blocks of bounded size."""
    code, number = torch.as_tensor(polyp, device=unit.device), torch.arange(len(unit), device=unit.device)
    for a, b, steps in score_blocks(unit, upper=True):
        pair = number[a:] > number[a:b, None]
        yield PairBlock(a, b, steps, pair, pair & (code[a:] == code[a:b, None]))


def count_pairs(unit: Tensor, polyp: Ints) -> PairCounts:
    """Counts over unit vectors (N, D) with polyp codes (N,)."""
    if unit.dtype == torch.float64:
        return _exact_counts(unit, polyp)
    same, every = torch.zeros(2, CELLS, dtype=torch.int64, device=unit.device)
    for block in pair_blocks(unit, polyp):
        cell = block.steps.int() + CELLS // 2
        _add_counts(same, every, cell, block)
    filled = torch.nonzero(every).flatten().flip(0)
    score = (filled.cpu().numpy() - CELLS // 2) / steps_per_unit(unit.dtype)
    return PairCounts(score, same[filled].cpu().numpy(), (every - same)[filled].cpu().numpy())


def _add_counts(same: Tensor, every: Tensor, cell: Tensor, block: PairBlock) -> None:
    """Adds the cells (Q, N - first) of a block to the counts of same-polyp pairs and of all pairs."""
    same += torch.bincount(cell[block.same], minlength=len(same))
    cell = torch.where(block.pair, cell, len(every))  # faster than a selection
    every += torch.bincount(cell.flatten(), minlength=len(every) + 1)[:-1]


def _exact_counts(unit: Tensor, polyp: Ints) -> PairCounts:
    """Counts at each distinct score of the fine grid."""
    none = unit.new_zeros(0)
    pairs = [(none, none), *((b.steps[b.pair], b.steps[b.same]) for b in pair_blocks(unit, polyp))]
    steps, of_same = (torch.cat(each).cpu().numpy() for each in zip(*pairs, strict=True))
    score, every = np.unique(steps, return_counts=True)
    score_of_same, number = np.unique(of_same, return_counts=True)
    same = np.zeros_like(every)
    same[np.searchsorted(score, score_of_same)] = number
    return PairCounts(score[::-1] / steps_per_unit(unit.dtype), same[::-1], (every - same)[::-1])


def _thinned(false: Floats, true: Floats, points: int) -> Ints:
    """Thresholds spread evenly along both axes of a curve, including the first and the last."""
    if len(false) < points:
        return np.arange(len(false))
    steps = np.linspace(0.0, 1.0, points // 2)
    last = len(false) - 1
    along = [np.minimum(np.searchsorted(axis, steps), last) for axis in (false, true)]
    return np.unique(np.concatenate([[0], *along, [last]]))[-points + 1 :]


def _edges(counts: PairCounts, steps: float, most: int) -> Floats:
    """Cell boundaries in grid steps, ascending: one cell per threshold and one per gap between thresholds."""
    index = np.flatnonzero(counts.same)
    if len(index) > most:
        recalled = counts.same[index].cumsum()
        even, dense = np.linspace(1, recalled[-1], most // 2 + 1), np.geomspace(1, recalled[-1], most // 2)
        index = index[np.unique(np.searchsorted(recalled, np.concatenate([even, dense])))]
    threshold = np.round(counts.score[index][::-1] * steps)
    return np.stack([threshold - 0.5, threshold + 0.5], axis=1).reshape(-1)


def _tables(unit: Tensor, polyp: Ints, cluster: Ints, edges: Floats, shape: tuple[int, int, int]) -> Floats:
    """Numbers of same-polyp and different-polyp pairs, two arrays (C, J, K), by cluster and cell, lowest score first.

    If J is C, the second index is the cluster of the other tracklet. If J is 2, it is 1 for pairs of two clusters,
    which are counted for both of them.
    """
    clusters, width, cells = shape
    code, ends = torch.as_tensor(cluster, device=unit.device).int(), torch.as_tensor(edges).to(unit)
    same, every = torch.zeros(2, clusters * width * cells, dtype=torch.int64, device=unit.device)
    for block in pair_blocks(unit, polyp):
        cell = torch.searchsorted(ends, block.steps, out_int32=True)
        one, other = code[block.first : block.last, None], code[block.first :]
        between = one != other
        _add_counts(same, every, (one * width + (other if width == clusters else between)) * cells + cell, block)
        if width < clusters:
            both = block._replace(pair=block.pair & between, same=block.same & between)
            _add_counts(same, every, (other * width + 1) * cells + cell, both)
    return torch.stack([same, every - same]).view(2, *shape).cpu().numpy().astype(np.float64)


def _weighted(table: Floats, weights: Floats) -> Floats:
    """The weight of each cell (R, K) for draws (R, C), from a table of `_tables`."""
    clusters, width, cells = table.shape
    if width < clusters:
        within, sides = table[:, 0], table[:, 1]
        linear = sides.sum(axis=0) / 2 + (weights - 1) @ sides
        rising = np.maximum.accumulate(np.maximum(linear[:, ::-1].cumsum(axis=1), 0.0), axis=1)
        return np.asarray(weights @ within + np.diff(rising, axis=1, prepend=0.0)[:, ::-1])
    weighted = np.empty((len(weights), cells))
    for a in range(0, len(weights), 64):
        part = weights[a : a + 64]
        products = part[:, :, None] * part[:, None, :]
        products[:, range(clusters), range(clusters)] = part  # a pair inside one cluster
        weighted[a : a + 64] = products.reshape(len(part), -1) @ table.reshape(-1, cells)
    return weighted
