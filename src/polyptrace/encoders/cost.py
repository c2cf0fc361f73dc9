"""What an encoder costs: parameters, the paper's FLOPs column, and true FLOPs, counted on the built model.

    with torch.device("meta"):  # shapes alone: nothing is computed, any size fits
        encoder, frames = TrackletEncoder("resnet50"), torch.empty(1, 8, 3, 224, 224)
    counted = cost(encoder, lambda: encoder(frames))

The paper's column counts multiply-accumulates of convolutions and linear layers, plus 4 operations per element that
one of torch's own normalisation layers gives; the products inside attention are left out, and so are layers that are
not called as modules. True FLOPs count every matrix product, attention included, a multiply-accumulate as 2.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

#: Counted by exact type: with the classes that networks derive from them SurgeNet is 31.1, and the paper says 31.0.
NORMALISATIONS = (nn.LayerNorm, nn.GroupNorm, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)

#: Operations per normalised element: subtract, divide, scale, shift.
PER_NORMALISED_ELEMENT = 4


@dataclass(frozen=True)
class Cost:
    """Parameters, the paper's count of operations, and true floating point operations."""

    params: int
    paper_macs: int
    flops: int


def cost(module: nn.Module, run: Callable[[], object]) -> Cost:
    """What `run`, which calls `module` in any way, costs; on the meta device nothing is computed."""
    counted = [0]

    def count(layer: nn.Module, _inputs: object, output: Tensor) -> None:
        counted[0] += _paper_macs(layer, output)

    hooks = [layer.register_forward_hook(count) for layer in module.modules() if not list(layer.children())]
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # it fuses whole layers, which no counter sees
    try:
        # the plain attention kernel is made of products that the counter knows on every device
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as flops:
            run()
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
        for hook in hooks:
            hook.remove()
    params = sum(parameter.numel() for parameter in module.parameters())
    return Cost(params, counted[0], flops.get_total_flops())


def _paper_macs(layer: nn.Module, output: Tensor) -> int:
    if isinstance(layer, nn.Linear):
        return output.numel() * layer.in_features
    if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return output.numel() * math.prod(layer.weight.shape[1:])
    if type(layer) in NORMALISATIONS:
        return PER_NORMALISED_ELEMENT * output.numel()
    return 0
