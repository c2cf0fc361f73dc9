"""Cosine similarities, masked sums and repeated tracklets: what all losses share.

`mask` is True where a vector is real; what is stored elsewhere has no influence, and its gradient is zero, never NaN.
`ignore` is True for a pair that is neither positive nor negative.
"""

import torch
from torch import Tensor
from torch.nn import functional


def unit_vectors(vectors: Tensor, mask: Tensor | None = None) -> Tensor:
    """Vectors (..., D) scaled to length 1; zeros where `mask` (...) is False.

    Half precision is converted to float32, because at temperature 0.07 a similarity reaches 14.3 and e^14.3 overflows
    float16. float64 stays float64.
    """
    if vectors.dtype in (torch.float16, torch.bfloat16):
        vectors = vectors.float()
    if mask is not None:
        vectors = vectors.masked_fill(~mask.unsqueeze(-1), 0.0)
    return functional.normalize(vectors, dim=-1)


def similarities(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    """s(a, b) = cos(a, b) / temperature of all pairs of unit vectors, outside autocast: (P, D), (Q, D) -> (P, Q)."""
    with torch.autocast(a.device.type, enabled=False):
        return a @ b.T / temperature


def log_sum_exp(logits: Tensor, mask: Tensor) -> Tensor:
    """log Σ exp over the last dimension where `mask` is True: (..., P), (..., P) -> (...); -inf if it nowhere is."""
    empty = ~mask.any(-1, keepdim=True)
    logits = logits.masked_fill(~mask, -torch.inf).masked_fill(empty, 0.0)
    return torch.logsumexp(logits, -1).masked_fill(empty.squeeze(-1), -torch.inf)


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """The mean of the values where `mask` is True: a scalar; 0 if it nowhere is."""
    return values.masked_fill(~mask, 0.0).sum() / mask.sum().clamp(min=1)


def repeated_members(anchor: Tensor, bag: Tensor) -> Tensor:
    """`ignore` (M, K, M) for `noise_aware`, from the indices of the tracklets: anchor (M,), bag (M, K).

    A tracklet may occur twice in a batch and must not be its own negative: True at (i, k, j) if anchor j is the same
    tracklet as member k of bag i, or as anchor i.
    """
    same_member = bag[:, :, None] == anchor  # (M, K, M)
    same_anchor = anchor[:, None] == anchor  # (M, M)
    return same_member | same_anchor[:, None, :]


def repeated_tracklets(tracklet: Tensor) -> Tensor:
    """`ignore` (B, B) for the losses of `contrastive`, from the indices (B,) of the tracklets: repeats of one."""
    same = tracklet[:, None] == tracklet
    return same & ~torch.eye(len(tracklet), dtype=torch.bool, device=tracklet.device)
