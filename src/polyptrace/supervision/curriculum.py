"""The curriculum: the temperature τ of the ranks as a function of training progress c in [0, 1].

    τ(c) = τ_min + (1 - cos πc)/2 · (τ_max - τ_min)

It is a function without state: the temperature of any epoch is known without running the others.
"""

import math
from typing import Literal, overload

from torch import Tensor


@overload
def temperature(c: float, low: float = 0.3, high: float = 12.0) -> float: ...
@overload
def temperature(c: float, low: float, high: Tensor) -> Tensor: ...
def temperature(c: float, low: float = 0.3, high: float | Tensor = 12.0) -> float | Tensor:
    """τ at progress c: one number, or (N,) if `high` is given for each tracklet."""
    if not 0 <= c <= 1:
        raise ValueError(f"progress {c} is not in [0, 1]")
    return low + (1 - math.cos(math.pi * c)) / 2 * (high - low)


def epoch_progress(epoch: int, epochs: int, convention: Literal["paper", "release"] = "paper") -> float:
    """c of an epoch in 0..epochs-1.

    paper: epoch / (epochs - 1), which is 1 in the last epoch (0 if there is only one); release: epoch / epochs.
    """
    if not 0 <= epoch < epochs:
        raise ValueError(f"epoch {epoch} is not in 0..{epochs - 1}")
    if convention == "release":
        return epoch / epochs
    return epoch / max(epochs - 1, 1)


def temperature_at(
    epoch: int,
    epochs: int,
    low: float = 0.3,
    high: float | Tensor = 12.0,
    curriculum: Literal["cosine", "fixed"] = "cosine",
    convention: Literal["paper", "release"] = "paper",
) -> float | Tensor:
    """τ of an epoch: on the cosine, or `high` in every epoch if it is fixed."""
    if curriculum == "fixed":
        return high
    return temperature(epoch_progress(epoch, epochs, convention), low, high)
