"""Sums and means over a part of a tensor, whose gradients stay zero, never NaN, where the part is empty."""

import torch
from torch import Tensor


def log_sum_exp(logits: Tensor, keep: Tensor) -> Tensor:
    """log Σ exp over the last dimension of what `keep` holds: (..., P), (..., P) -> (...); -inf of nothing."""
    nothing = ~keep.any(-1, keepdim=True)
    logits = logits.masked_fill(~keep, -torch.inf).masked_fill(nothing, 0.0)
    return torch.logsumexp(logits, -1).masked_fill(nothing.squeeze(-1), -torch.inf)


def mean_over(values: Tensor, keep: Tensor, total: Tensor) -> Tensor:
    """Σ of the values that `keep` holds over `total`, which is their number in all processes; 0 of nothing."""
    return values.masked_fill(~keep, 0.0).sum() / total.clamp(min=1)
