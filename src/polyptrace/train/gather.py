"""Gathers what processes computed, with gradients: every process sees all vectors of the batch.

Each process then computes the part of the loss that its own anchors have; the parts add up to the loss of one process
with the whole batch. Backward, the gradient of a vector is the sum of what all processes want of it.
"""

from typing import Any

import torch
from torch import Tensor, distributed


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor) -> Tensor:
        ctx.length = len(part)
        parts = [torch.empty_like(part) for _ in range(distributed.get_world_size())]
        distributed.all_gather(parts, part.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        gradient = gradient.contiguous()
        distributed.all_reduce(gradient)
        begin = distributed.get_rank() * ctx.length
        return gradient[begin : begin + ctx.length]


def gather(part: Tensor) -> Tensor:
    """The parts (B / processes, …) of all processes in their order: (B, …); alone, the part itself."""
    if not distributed.is_available() or not distributed.is_initialized() or distributed.get_world_size() == 1:
        return part
    whole: Tensor = _Gather.apply(part)
    return whole
