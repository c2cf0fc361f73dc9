"""Unit vectors, label codes, and cosine scores in blocks, so that no N x N array is needed.

Scores are rounded to a grid, so that two scores that differ by less than the rounding error of the arithmetic are
equal: copies of a vector tie exactly, in every block. Up to `EXACT` vectors the arithmetic is float64 and the grid
2^-40; beyond that, float32 and about 2^-22 (2.4e-7).

A zero vector has cosine 0 with every vector. A vector with NaN or infinity is an error that names its row.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from polyptrace.core.arrays import Ints
from polyptrace.core.errors import UserError

#: Scores are float64 up to this many vectors.
EXACT = 4096
#: Grid steps per unit of cosine. A little below 2^22, so that a cosine of 1 + 1e-6 stays inside.
FINE = float(2**40)
COARSE = float(2**22 - 8)
#: Cells of the coarse grid: integers from -2^22 to 2^22.
CELLS = 2**23 + 1
#: Scores in a block, by type of device.
BLOCK = {"cpu": 2**23, "cuda": 2**26}

Vectors = Tensor | NDArray[np.floating]
Labels = ArrayLike | Sequence[object]


def finite_rows(vectors: Vectors, device: str | torch.device, dtype: torch.dtype, first: int = 0) -> Tensor:
    """Vectors (n, D) as a tensor; one with NaN or infinity is an error that names its row, counted from `first`."""
    given = vectors.detach() if isinstance(vectors, Tensor) else np.require(vectors, requirements="W")  # torch warns
    rows = torch.as_tensor(given).to(device=device, dtype=dtype)
    broken = torch.nonzero(~torch.isfinite(rows).all(dim=1))
    if len(broken):
        raise UserError(f"vectors: row {first + int(broken[0])} contains NaN or infinity -> embed it again")
    return rows


def unit_rows(vectors: Vectors, device: str | torch.device = "cpu") -> tuple[Tensor, int]:
    """Vectors of length 1 (N, D), float64 up to `EXACT` rows and float32 beyond, and the number of zero vectors."""
    given = vectors if isinstance(vectors, Tensor) else np.asarray(vectors)
    if given.ndim != 2:
        raise UserError(f"vectors: shape {tuple(given.shape)} is not (N, D) -> give one vector per row")
    exact = len(given) <= EXACT
    unit = torch.empty(given.shape, dtype=torch.float64 if exact else torch.float32, device=device)
    zeros = 0
    for start in range(0, len(given), 16384):
        rows = finite_rows(given[start : start + 16384], device, torch.float64, start)
        largest = rows.abs().amax(dim=1, keepdim=True) if rows.shape[1] else rows.new_zeros(len(rows), 1)
        zeros += int((largest == 0).sum())
        rows = rows / torch.where(largest == 0, 1.0, largest)
        length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        unit[start : start + 16384] = rows / torch.where(length == 0, 1.0, length)
    return unit, zeros


def label_codes(labels: Labels, count: int, name: str = "polyp") -> Ints:
    """Labels as 0, 1, ... in sorted order; -1 where a label is unknown ("", None or NaN)."""
    values = labels.cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if values.shape != (count,):
        raise UserError(f"{name}: shape {values.shape} -> give one label for each of the {count} vectors")
    if values.dtype.kind == "O":
        values = np.array(["" if v is None or v != v else str(v) for v in values.tolist()], dtype=str)
    kind = values.dtype.kind
    known = ~np.isnan(values) if kind == "f" else values != "" if kind in "US" else np.ones(count, dtype=bool)
    codes = np.full(count, -1, dtype=np.int64)
    codes[known] = np.unique(values[known], return_inverse=True)[1].reshape(-1)
    return codes


def on_grid(cosines: Tensor) -> Tensor:
    """Cosines as integer numbers of grid steps, in place and in the same float type."""
    return cosines.mul_(steps_per_unit(cosines.dtype)).round_()


def steps_per_unit(dtype: torch.dtype) -> float:
    """Grid steps in a cosine of 1."""
    return FINE if dtype == torch.float64 else COARSE


def score_blocks(unit: Tensor, *, upper: bool = False) -> Iterator[tuple[int, int, Tensor]]:
    """(start, stop, scores) of blocks of rows of unit vectors (N, D): cosines (Q, N) with all rows, in grid steps.

    With `upper`, the scores (Q, N - start) are those with the rows from `start` on.
    """
    count = len(unit)
    height = max(1, BLOCK[unit.device.type] // max(count, 1))
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")  # float32 products in float32, even if training has enabled TF32
    try:
        for start in range(0, count, height):
            stop = min(start + height, count)
            yield start, stop, on_grid(unit[start:stop] @ unit[start if upper else 0 :].T)
    finally:
        torch.set_float32_matmul_precision(before)
