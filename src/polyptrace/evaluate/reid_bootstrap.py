"""AUROC and AUPR on many bootstrap draws, from one pass over the pairs.

Pairs are counted once, by score cell and by the clusters of the two tracklets; a draw then only weights the counts
(see `bootstrap`). Cells end at the same-polyp scores. Up to `THRESHOLDS` distinct ones the result is exact; with more,
cells end at a subset of them, spread evenly over recall and more densely at its start, and the resulting offset of the
metrics is subtracted from the draws.

With few clusters the counts of all pairs of clusters are kept and the weights c_u c_v are exact. With many, the linear
part c_u + c_v - 1 replaces the product: the remainder (c_u - 1)(c_v - 1) averages out over the C²/2 pairs of clusters
and is of the order 1/√C of the rest.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyptrace.evaluate.reid import PairCounts, ReID, areas, count_cells, pair_blocks, sorted_by_polyp
from polyptrace.evaluate.similarity import COARSE_CELLS, Labels, Vectors, coarse_cells, on_grid, steps_per_unit

#: Distinct same-polyp scores up to which cells are exact.
THRESHOLDS = 1023
#: Maximum number of entries in a table of counts.
ENTRIES = 2**25


@dataclass(frozen=True)
class _Counts:
    """Pairs by cell, lowest score first: inside clusters (C, K); between them by pair (C(C-1)/2, K) or side (C, K)."""

    within: NDArray[np.float64]
    by_pair: NDArray[np.float64] | None = None
    by_side: NDArray[np.float64] | None = None

    def weighted(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weight of each cell (R, K) for draws (R, C)."""
        total: NDArray[np.float64] = weights @ self.within
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
    cluster: NDArray[np.int64],
    weights: NDArray[np.int64],
    result: ReID,
    *,
    device: str | torch.device = "cpu",
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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


def _edges(counts: PairCounts, steps: float, most: int) -> NDArray[np.float64]:
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


def _tables(
    unit: Tensor, polyp: NDArray[np.int64], cluster: NDArray[np.int64], edges: NDArray[np.float64], layout: _Layout
) -> tuple[_Counts, _Counts]:
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
