"""Every unordered pair of tracklets, counted by score: what ROC, PR, their areas and the histograms are made of.

Up to `EXACT` vectors each pair's score is kept and sorted. Beyond, pairs are counted in the cells of the coarse grid
(2^-22 in cosine), in bounded memory whatever the number of pairs; see `similarity`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyptrace.evaluate.similarity import (
    COARSE,
    COARSE_CELLS,
    FINE,
    coarse_cells,
    full_precision,
    on_grid,
    row_blocks,
)


@dataclass(frozen=True)
class PairCounts:
    """Pairs of the same and of different polyps at each score (U,), highest score first."""

    score: NDArray[np.float64]
    same: NDArray[np.int64]
    different: NDArray[np.int64]


def areas(same: NDArray[Any], different: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(AUROC, average precision) of (weighted) counts (..., U) by score, highest first.

    AUROC: the chance that a same-polyp pair scores higher than another, ties half; NaN if either kind is missing.
    Average precision: Σ (recall step) x precision, tied pairs accepted together; NaN without a same-polyp pair.
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


def count_pairs(unit: Tensor, polyp: NDArray[np.int64]) -> PairCounts:
    """Counts over unit vectors (N, D) that are sorted by polyp code (N,)."""
    assert (np.diff(polyp) >= 0).all()
    if unit.dtype == torch.float64:
        return _sorted_counts(unit, polyp)
    same = torch.zeros(COARSE_CELLS, dtype=torch.int64, device=unit.device)
    different = torch.zeros(COARSE_CELLS + 1, dtype=torch.int64, device=unit.device)  # the last: not counted
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
    """Rows first..last against columns first..N; each pair of the dataset is in one block, once.

    Columns from `near` on are of other polyps and pair with every row. Before it, the masks tell the pairs of the same
    polyp and of different ones; pairs with themselves, and those that are counted elsewhere, are in neither.
    """

    first: int
    last: int
    cosine: Tensor  # (Q, N - first)
    near: int
    same: Tensor  # (Q, near)
    different: Tensor  # (Q, near)


def pair_blocks(unit: Tensor, polyp: NDArray[np.int64]) -> Iterator[PairBlock]:
    """The upper triangle of the similarity matrix in bounded pieces."""
    code = torch.as_tensor(polyp, device=unit.device)
    with full_precision():
        for a, b in row_blocks(len(unit), len(unit), unit.device):
            near = int(np.searchsorted(polyp, polyp[b - 1], side="right")) - a
            place = torch.arange(near, device=unit.device)
            later = place > place[: b - a, None]
            alike = code[a:b, None] == code[a : a + near]
            yield PairBlock(a, b, unit[a:b] @ unit[a:].T, near, later & alike, later & ~alike)


def count_cells(cells: Tensor, size: int) -> Tensor:
    """How often each of 0..size-1 occurs."""
    if cells.device.type == "cpu":  # numpy counts int32 without a copy of twice the size
        return torch.from_numpy(np.bincount(cells.reshape(-1).numpy(), minlength=size))
    return torch.bincount(cells.reshape(-1), minlength=size)


def _add_counts(counts: Tensor, cells: Tensor) -> None:
    """Adds the cells to the counts; few of them without a pass over all counts."""
    if cells.numel() < len(counts) // 16:
        cell, number = torch.unique(cells, return_counts=True)
        counts[cell.long()] += number
    else:
        counts += count_cells(cells, len(counts))


def _sorted_counts(unit: Tensor, polyp: NDArray[np.int64]) -> PairCounts:
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
