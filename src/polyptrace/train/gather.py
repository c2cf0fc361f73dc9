"""Gathers the vectors of all processes with gradients, so that every process computes the loss of the whole batch.

Each process then has the gradient of the loss with respect to all vectors and keeps the part of its own vectors. The
gradient of a weight is the sum over the processes. If gradients are averaged over processes, multiply the loss by their
number.
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
        begin = distributed.get_rank() * ctx.length
        return gradient[begin : begin + ctx.length]


def gather(part: Tensor) -> Tensor:
    """The parts (B / processes, …) of all processes in order of rank: (B, …); with one process, the part itself."""
    if not distributed.is_available() or not distributed.is_initialized() or distributed.get_world_size() == 1:
        return part
    whole: Tensor = _Gather.apply(part)
    return whole
