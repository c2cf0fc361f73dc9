"""Re-identification: do two tracklets show the same polyp? AUROC and AUPR over every unordered pair (Section 3).

AUROC counts a tie as half. AUPR is the average precision Σ_k (R_k - R_{k-1}) P_k over the thresholds; pairs of equal
score are accepted together, as a threshold does. scikit-learn defines both in the same way.

Up to `similarity.EXACT` vectors each pair's score is kept and sorted. Beyond that, pairs are counted in the cells of
the coarse grid (2^-22 in cosine), so memory does not depend on the number of pairs.

AUROC and AUPR on bootstrap draws (`reid_draws`): pairs are counted once, by score cell and by the clusters of the two
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
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyptrace.core.arrays import Floats, Ints
from polyptrace.evaluate.similarity import (
    COARSE,
    COARSE_CELLS,
    FINE,
    Labels,
    Vectors,
    coarse_cells,
    full_precision,
    label_codes,
    on_grid,
    row_blocks,
    steps_per_unit,
    unit_vectors,
)

#: Bins of the similarity histograms, from -1 to 1.
EDGES = np.linspace(-1.0, 1.0, 101)


@dataclass(frozen=True)
class PairCounts:
    """Number of same-polyp and different-polyp pairs at each score (U,), highest score first."""

    score: Floats
    same: Ints
    different: Ints


@dataclass(frozen=True)
class ReID:
    """AUROC, AUPR, and the counts by score from which curves and histograms are computed."""

    auroc: float
    aupr: float
    counts: PairCounts
    unlabelled: int
    zero_vectors: int

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
        same = np.histogram(self.counts.score, EDGES, weights=self.counts.same)[0]
        different = np.histogram(self.counts.score, EDGES, weights=self.counts.different)[0]
        return same.astype(np.int64), different.astype(np.int64)

    def _rates(self) -> tuple[Floats, Floats]:
        true, false = self.counts.same.cumsum(), self.counts.different.cumsum()
        return false / max(self.different_pairs, 1), true / max(self.same_pairs, 1)


def reid(vectors: Vectors, polyp: Labels, *, device: str | torch.device = "cpu") -> ReID:
    """AUROC and AUPR, fractions in [0, 1], of (N, D) vectors and their polyps (N,)."""
    unit, codes, _, zero_vectors = sorted_by_polyp(vectors, polyp, device)
    counts = count_pairs(unit, codes)
    auroc, aupr = areas(counts.same, counts.different)
    return ReID(float(auroc), float(aupr), counts, len(vectors) - len(codes), zero_vectors)


def sorted_by_polyp(vectors: Vectors, polyp: Labels, device: str | torch.device) -> tuple[Tensor, Ints, Ints, int]:
    """Unit vectors of the labelled rows in the order of their polyps, polyp codes, rows, and zero vectors in all."""
    unit, zero_vectors = unit_vectors(vectors, device)
    codes = label_codes(polyp, len(unit))
    known = np.flatnonzero(codes >= 0)
    rows = known[np.argsort(codes[known], kind="stable")]
    return unit[torch.as_tensor(rows, device=unit.device)], codes[rows], rows, zero_vectors


def areas(same: NDArray[Any], different: NDArray[Any]) -> tuple[Floats, Floats]:
    """(AUROC, average precision) of (weighted) counts (..., U) by score, highest first.

    AUROC is NaN if either kind of pair is missing, average precision if there is no same-polyp pair.
    """
    same, different = same.astype(np.float64), different.astype(np.float64)
    true, false = same.cumsum(axis=-1), different.cumsum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        negatives = false[..., -1:] if same.shape[-1] else np.zeros((*same.shape[:-1], 1))
        beaten = (same * (negatives - false + different / 2)).sum(axis=-1)
        auroc = beaten / (same.sum(axis=-1) * different.sum(axis=-1))
        precision = np.where(same > 0, true / (true + false), 0.0)
        aupr = (same * precision).sum(axis=-1) / same.sum(axis=-1)
    return auroc, aupr


def count_pairs(unit: Tensor, polyp: Ints) -> PairCounts:
    """Counts over unit vectors (N, D) that are sorted by polyp code (N,)."""
    assert (np.diff(polyp) >= 0).all()
    if unit.dtype == torch.float64:
        return _exact_counts(unit, polyp)
    same = torch.zeros(COARSE_CELLS, dtype=torch.int64, device=unit.device)
    different = torch.zeros(COARSE_CELLS + 1, dtype=torch.int64, device=unit.device)  # the last cell is ignored
    for block in pair_blocks(unit, polyp):
        cells = coarse_cells(block.cosine)
        near = cells[:, : block.near]
        _add_counts(same, near[block.same])
        near.masked_fill_(~block.different, COARSE_CELLS)
        _add_counts(different, cells)
    different = different[:-1]
    filled = torch.nonzero(same + different).flatten().flip(0)
    return PairCounts(
        score=(filled.cpu().numpy() - 2**22) / COARSE,
        same=same[filled].cpu().numpy(),
        different=different[filled].cpu().numpy(),
    )


@dataclass(frozen=True)
class PairBlock:
    """Rows first..last against columns first..N. Each pair of the dataset is in exactly one block.

    Columns from `near` on belong to other polyps and pair with every row. Before `near`, the masks mark the pairs of
    the same polyp and of different polyps; pairs that are counted elsewhere are in neither mask.
    """

    first: int
    last: int
    cosine: Tensor  # (Q, N - first)
    near: int
    same: Tensor  # (Q, near)
    different: Tensor  # (Q, near)


def pair_blocks(unit: Tensor, polyp: Ints) -> Iterator[PairBlock]:
    """The upper triangle of the similarity matrix in blocks of bounded size."""
    code = torch.as_tensor(polyp, device=unit.device)
    with full_precision():
        for a, b in row_blocks(len(unit), len(unit), unit.device):
            near = int(np.searchsorted(polyp, polyp[b - 1], side="right")) - a
            column = torch.arange(near, device=unit.device)
            later = column > column[: b - a, None]
            alike = code[a:b, None] == code[a : a + near]
            yield PairBlock(a, b, unit[a:b] @ unit[a:].T, near, later & alike, later & ~alike)


def count_cells(cells: Tensor, size: int) -> Tensor:
    """How often each of 0..size-1 occurs."""
    if cells.device.type == "cpu":  # NumPy counts int32 without a conversion to int64
        return torch.from_numpy(np.bincount(cells.reshape(-1).numpy(), minlength=size))
    return torch.bincount(cells.reshape(-1), minlength=size)


def _add_counts(counts: Tensor, cells: Tensor) -> None:
    """Adds the cells to the counts in place. A few cells are added without a pass over all counts."""
    if cells.numel() < len(counts) // 16:
        cell, number = torch.unique(cells, return_counts=True)
        counts[cell.long()] += number
    else:
        counts += count_cells(cells, len(counts))


def _exact_counts(unit: Tensor, polyp: Ints) -> PairCounts:
    """Counts at each distinct score of the fine grid."""
    same, different = [np.empty(0)], [np.empty(0)]
    for block in pair_blocks(unit, polyp):
        steps = on_grid(block.cosine)
        near = steps[:, : block.near]
        same.append(near[block.same].cpu().numpy())
        different += [near[block.different].cpu().numpy(), steps[:, block.near :].reshape(-1).cpu().numpy()]
    positive, positive_count = np.unique(np.concatenate(same), return_counts=True)
    negative, negative_count = np.unique(np.concatenate(different), return_counts=True)
    score = np.union1d(positive, negative)[::-1]
    ascending = score[::-1]
    counts = np.zeros((2, len(score)), dtype=np.int64)
    counts[0, np.searchsorted(ascending, positive)] = positive_count
    counts[1, np.searchsorted(ascending, negative)] = negative_count
    return PairCounts(score=score / FINE, same=counts[0, ::-1].copy(), different=counts[1, ::-1].copy())


def _thinned(false: Floats, true: Floats, points: int) -> Ints:
    """Thresholds spread evenly along both axes of a curve, including the first and the last."""
    if len(false) < points:
        return np.arange(len(false))
    steps = np.linspace(0.0, 1.0, points // 2)
    last = len(false) - 1
    along = [np.minimum(np.searchsorted(axis, steps), last) for axis in (false, true)]
    return np.unique(np.concatenate([[0], *along, [last]]))[-points + 1 :]


#: Distinct same-polyp scores up to which cells are exact.
THRESHOLDS = 1023
#: Maximum number of entries in a table of counts.
ENTRIES = 2**25


@dataclass(frozen=True)
class _Counts:
    """Pairs by cell, lowest score first: inside clusters (C, K); between them by pair (C(C-1)/2, K) or side (C, K)."""

    within: Floats
    by_pair: Floats | None = None
    by_side: Floats | None = None

    def weighted(self, weights: Floats) -> Floats:
        """Weight of each cell (R, K) for draws (R, C)."""
        total: Floats = weights @ self.within
        if self.by_pair is not None:
            one, other = np.triu_indices(weights.shape[1], k=1)
            for a in range(0, len(weights), 256):
                part = weights[a : a + 256]
                total[a : a + 256] += (part[:, one] * part[:, other]) @ self.by_pair
        if self.by_side is not None:
            linear = self.by_side.sum(axis=0) / 2 + (weights - 1) @ self.by_side
            rising = np.maximum.accumulate(np.maximum(linear[:, ::-1].cumsum(axis=1), 0.0), axis=1)
            total += np.diff(rising, axis=1, prepend=0.0)[:, ::-1]
        return total


def reid_draws(
    vectors: Vectors,
    polyp: Labels,
    cluster: Ints,
    weights: Ints,
    result: ReID,
    *,
    device: str | torch.device = "cpu",
) -> tuple[Floats, Floats]:
    """(AUROC, AUPR) on each bootstrap draw (R,).

    `cluster` (N,) has values 0..C-1, `weights` (R, C) are the counts of `draw_counts`, `result` is that of `reid`.
    """
    unit, codes, rows, _ = sorted_by_polyp(vectors, polyp, device)
    counts, clusters = result.counts, weights.shape[1]
    entries = ENTRIES if unit.dtype == torch.float64 else ENTRIES // 8  # the table is traversed once per block
    most = max(32, min(THRESHOLDS, (entries // (2 * clusters) - 1) // 2))
    edges = _edges(counts, steps_per_unit(unit.dtype), most)
    cells = len(edges) + 1
    layout = _Layout(clusters, cells, by_pair=clusters**2 * cells <= entries)
    same, different = _tables(unit, codes, cluster[rows], edges, layout)
    every = np.concatenate([np.ones((1, clusters)), weights])  # the first row is the data themselves
    drawn = areas(same.weighted(every)[:, ::-1], different.weighted(every)[:, ::-1])
    exact = areas(counts.same, counts.different)
    auroc, aupr = (d[1:] + (e - d[0]) for d, e in zip(drawn, exact, strict=True))
    return auroc, aupr


def _edges(counts: PairCounts, steps: float, most: int) -> Floats:
    """Cell boundaries in grid steps, ascending: one cell per threshold and one per gap between thresholds."""
    index = np.flatnonzero(counts.same)
    if len(index) > most:
        recalled = counts.same[index].cumsum()
        even, dense = np.linspace(1, recalled[-1], most // 2 + 1), np.geomspace(1, recalled[-1], most // 2)
        index = index[np.unique(np.searchsorted(recalled, np.concatenate([even, dense])))]
    threshold = np.round(counts.score[index][::-1] * steps)
    return np.stack([threshold - 0.5, threshold + 0.5], axis=1).reshape(-1)


@dataclass(frozen=True)
class _Layout:
    """Index of a pair in the table: inside a cluster; between clusters, by pair or by side; the last is ignored."""

    clusters: int
    cells: int
    by_pair: bool

    @property
    def inner(self) -> int:
        return self.clusters * self.cells

    @property
    def size(self) -> int:
        return self.inner + (self.clusters if self.by_pair else 1) * self.inner + 1

    def add(self, table: Tensor, cell: Tensor, row: Tensor, column: Tensor, selected: Tensor | None) -> None:
        """Counts the selected pairs of a block: cells (Q, n) of pairs of clusters `row` (Q, 1) and `column` (n,)."""
        ignored = self.size - 1
        inside = row == column
        pair = row * self.clusters + column if self.by_pair else row
        index = torch.where(inside, row, pair + self.clusters) * self.cells + cell
        if selected is not None:
            index[:, : selected.shape[1]].masked_fill_(~selected, ignored)
        table += count_cells(index, self.size)
        if not self.by_pair:
            index = (column + self.clusters) * self.cells + cell
            index.masked_fill_(inside, ignored)
            if selected is not None:
                index[:, : selected.shape[1]].masked_fill_(~selected, ignored)
            table += count_cells(index, self.size)

    def counts(self, table: Tensor) -> _Counts:
        """The table as arrays; both orders of two clusters are summed."""
        values = table.cpu().numpy().astype(np.float64)
        within = values[: self.inner].reshape(self.clusters, self.cells)
        between = values[self.inner : -1]
        if not between.any():
            return _Counts(within)
        if not self.by_pair:
            return _Counts(within, by_side=between.reshape(self.clusters, self.cells))
        square = between.reshape(self.clusters, self.clusters, self.cells)
        one, other = np.triu_indices(self.clusters, k=1)
        return _Counts(within, by_pair=square[one, other] + square[other, one])


def _tables(unit: Tensor, polyp: Ints, cluster: Ints, edges: Floats, layout: _Layout) -> tuple[_Counts, _Counts]:
    """Counts of the same-polyp pairs and of the different-polyp pairs."""
    code = torch.as_tensor(cluster, device=unit.device, dtype=torch.int32)
    ends = torch.as_tensor(edges, device=unit.device)
    steps = torch.arange(0 if unit.dtype == torch.float64 else COARSE_CELLS, device=unit.device).double() - 2**22
    lookup = torch.searchsorted(ends, steps, out_int32=True)  # of the coarse grid
    same, different = torch.zeros(2, layout.size, dtype=torch.int64, device=unit.device)
    for block in pair_blocks(unit, polyp):
        if unit.dtype == torch.float64:
            cell = torch.searchsorted(ends, on_grid(block.cosine), out_int32=True)
        else:
            cell = lookup.index_select(0, coarse_cells(block.cosine).reshape(-1)).view(block.cosine.shape)
        row, column = code[block.first : block.last, None], code[block.first :]
        layout.add(same, cell[:, : block.near], row, column[: block.near], block.same)
        layout.add(different, cell, row, column, block.different)
    return layout.counts(same), layout.counts(different)
