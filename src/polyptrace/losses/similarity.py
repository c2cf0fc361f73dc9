"""Cosine similarities in full precision.

At temperature 0.07 a similarity reaches 14.3 and e^14.3 overflows half precision: half inputs are worked in float32,
under autocast too. float64 stays float64.
"""

import torch
from torch import Tensor
from torch.nn import functional


def unit(vectors: Tensor, real: Tensor | None = None) -> Tensor:
    """The vectors (..., D) at length 1, in float32 or wider; zeros where `real` (...) is False."""
    if vectors.dtype in (torch.float16, torch.bfloat16):
        vectors = vectors.float()
    if real is not None:
        vectors = vectors.masked_fill(~real.unsqueeze(-1), 0.0)
    return functional.normalize(vectors, dim=-1)


def similarities(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    """s(a, b) = cos(a, b) / temperature of every two unit vectors: (P, D), (Q, D) -> (P, Q)."""
    with torch.autocast(a.device.type, enabled=False):
        return a @ b.T / temperature
