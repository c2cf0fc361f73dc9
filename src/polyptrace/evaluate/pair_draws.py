"""AUROC and AUPR on a thousand bootstrap draws without a thousand passes over the pairs.

Pairs are counted once, by score cell and by the clusters of the two tracklets; a draw then only weighs the counts
(`significance` says how). Cells end at the same-polyp scores: with up to `THRESHOLDS` distinct ones nothing is
lost; with more, cells end at some of them, evenly spread over recall and more densely at its start, and what that
changes in the figures is taken off the draws again.

With few clusters the counts of all pairs of clusters are kept, and the weights c_u c_v are exact. With many, their
linear part, c_u + c_v - 1, stands for the product: what it leaves out, (c_u - 1)(c_v - 1), averages out over the
C²/2 pairs of clusters and is of the order 1/√C of the rest.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyptrace.evaluate.pairs import PairCounts, areas, count_cells, pair_blocks
from polyptrace.evaluate.similarity import COARSE_CELLS, coarse_cells, on_grid, steps_per_unit

#: Distinct same-polyp scores up to which cells lose nothing.
THRESHOLDS = 1023
#: Numbers in a table of counts.
ENTRIES = 2**25


@dataclass(frozen=True)
class _Counts:
    """Pairs by cell, lowest score first: inside clusters (C, K); between them by pair (C(C-1)/2, K) or side (C, K)."""

    within: NDArray[np.float64]
    by_pair: NDArray[np.float64] | None = None
    by_side: NDArray[np.float64] | None = None

    def weighed(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weight in each cell (R, K) for draws (R, C)."""
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


def pair_draws(
    unit: Tensor,
    polyp: NDArray[np.int64],
    cluster: NDArray[np.int64],
    weights: NDArray[np.int64],
    counts: PairCounts,
    full: bool | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(AUROC, AUPR) on each draw (R,), for unit vectors (N, D) sorted by polyp, with clusters 0..C-1 (N,).

    `weights` (R, C) are the counts of `draw_counts`; `full` forces or forbids counts for all pairs of clusters.
    """
    clusters = weights.shape[1]
    entries = ENTRIES if unit.dtype == torch.float64 else ENTRIES // 8  # a table is gone through once per block
    most = max(32, min(THRESHOLDS, (entries // (2 * clusters) - 1) // 2))
    edges = _edges(counts, steps_per_unit(unit.dtype), most)
    cells = len(edges) + 1
    full = clusters**2 * cells <= entries if full is None else full
    same, different = _tables(unit, polyp, cluster, edges, _Layout(clusters, cells, full))
    every = np.concatenate([np.ones((1, clusters)), weights])  # first the data themselves
    drawn = areas(same.weighed(every)[:, ::-1], different.weighed(every)[:, ::-1])
    exact = areas(counts.same, counts.different)
    auroc, aupr = (d[1:] + (e - d[0]) for d, e in zip(drawn, exact, strict=True))
    return auroc, aupr


def _edges(counts: PairCounts, steps: float, most: int) -> NDArray[np.float64]:
    """Ends of the cells in grid steps, ascending: each threshold is a cell of its own, and so is each gap between."""
    at = np.flatnonzero(counts.same)
    if len(at) > most:
        recalled = counts.same[at].cumsum()
        even, dense = np.linspace(1, recalled[-1], most // 2 + 1), np.geomspace(1, recalled[-1], most // 2)
        at = at[np.unique(np.searchsorted(recalled, np.concatenate([even, dense])))]
    threshold = np.round(counts.score[at][::-1] * steps)
    return np.stack([threshold - 0.5, threshold + 0.5], axis=1).reshape(-1)


@dataclass(frozen=True)
class _Layout:
    """Where a pair is counted: inside a cluster; between clusters, by pair of them or by side; nowhere."""

    clusters: int
    cells: int
    full: bool

    @property
    def inner(self) -> int:
        return self.clusters * self.cells

    @property
    def size(self) -> int:
        return self.inner + (self.clusters if self.full else 1) * self.inner + 1

    def add(self, table: Tensor, cell: Tensor, row: Tensor, column: Tensor, chosen: Tensor | None) -> None:
        """Counts the chosen pairs of a block: cells (Q, n) of pairs of clusters `row` (Q, 1) and `column` (n,)."""
        nowhere = self.size - 1
        inside = row == column
        pair = row * self.clusters + column if self.full else row
        index = torch.where(inside, row, pair + self.clusters) * self.cells + cell
        if chosen is not None:
            index[:, : chosen.shape[1]].masked_fill_(~chosen, nowhere)
        table += count_cells(index, self.size)
        if not self.full:
            index = (column + self.clusters) * self.cells + cell
            index.masked_fill_(inside, nowhere)
            if chosen is not None:
                index[:, : chosen.shape[1]].masked_fill_(~chosen, nowhere)
            table += count_cells(index, self.size)

    def counts(self, table: Tensor) -> _Counts:
        """The table as arrays, both orders of two clusters together."""
        values = table.cpu().numpy().astype(np.float64)
        within = values[: self.inner].reshape(self.clusters, self.cells)
        between = values[self.inner : -1]
        if not between.any():
            return _Counts(within)
        if not self.full:
            return _Counts(within, by_side=between.reshape(self.clusters, self.cells))
        square = between.reshape(self.clusters, self.clusters, self.cells)
        one, other = np.triu_indices(self.clusters, k=1)
        return _Counts(within, by_pair=square[one, other] + square[other, one])


def _tables(
    unit: Tensor, polyp: NDArray[np.int64], cluster: NDArray[np.int64], edges: NDArray[np.float64], layout: _Layout
) -> tuple[_Counts, _Counts]:
    """Counts of the same-polyp and of the different-polyp pairs."""
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
