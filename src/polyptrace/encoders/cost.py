"""What an encoder costs: parameters, the paper's FLOPs column, and true FLOPs, counted on the built model.

    with torch.device("meta"):  # shapes only, nothing is computed
        encoder, frames = TrackletEncoder("resnet50"), torch.empty(1, 8, 3, 224, 224)
    whole = cost(encoder, lambda: encoder(frames))

The paper's column counts multiply-accumulates of convolutions and linear layers, plus 4 operations per output element
of torch's own normalisation layers. Matrix products inside attention and layers that are not called as modules are left
out. True FLOPs count every matrix product, including attention, and a multiply-accumulate as 2.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from polyptrace.encoders.encoder import FrozenBackbone, OwnEncoder, plain_attention
from polyptrace.encoders.foundation import FoundationEncoder
from polyptrace.encoders.foundation.loading import find_model

#: The side in pixels and the frames of the tracklet for which costs are counted, as in the paper.
COST_SIZE, COST_LENGTH = 224, 8

#: Counted by exact type: with derived classes, SurgeNet would have 31.1 G, and the paper says 31.0.
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
    """The cost of `run`, which calls `module`; on the meta device nothing is computed."""
    paper_macs = 0

    def count(layer: nn.Module, _inputs: object, output: Tensor) -> None:
        nonlocal paper_macs
        paper_macs += _paper_macs(layer, output)

    hooks = [layer.register_forward_hook(count) for layer in module.modules() if not list(layer.children())]
    try:
        # plain layers and kernels consist of matrix products that are counted on every device
        with torch.no_grad(), plain_attention(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as flops:
            run()
    finally:
        for hook in hooks:
            hook.remove()
    params = sum(parameter.numel() for parameter in module.parameters())
    return Cost(params, paper_macs, flops.get_total_flops())


def encoder_cost(encoder: nn.Module, size: int) -> Cost | None:
    """The cost of an encoder for one tracklet of `size` pixels, without parts that do not contribute to the vector.

    None for encoders without learned parameters or of an unknown kind.
    """
    match encoder:
        case FoundationEncoder():
            return foundation_cost(encoder.name, size)
        case OwnEncoder() | FrozenBackbone():
            # built on the CPU: timm's RegNet calls torch.unique, which older versions of torch do not have on meta
            empty = type(encoder)(**encoder.settings, weights="none").eval().to("meta")
            frames = torch.empty(1, COST_LENGTH, 3, size, size, device="meta")
            whole = cost(empty, lambda: empty(frames))
            projector = encoder.projector.parameters() if isinstance(encoder, OwnEncoder) else ()
            return replace(whole, params=whole.params - sum(weight.numel() for weight in projector))
        case _:
            return None


def foundation_cost(name: str, size: int = COST_SIZE, length: int = COST_LENGTH) -> Cost:
    """The cost of a foundation model's encoder for one tracklet, without the parts that are not used."""
    architecture = find_model(name).architecture
    with torch.device("meta"):
        backbone = architecture.build(size).eval()
        frames = _tracklet(size, length, architecture.clip_length)
    return cost(backbone, lambda: architecture.tokens(backbone, frames))


def published_cost(name: str) -> Cost:
    """The cost that the paper's columns give: the whole published model, including parts that are not used."""
    architecture = find_model(name).architecture
    with torch.device("meta"):
        whole, run = architecture.published(COST_SIZE)
        frames = _tracklet(COST_SIZE, COST_LENGTH, architecture.clip_length)
    return cost(whole.eval(), lambda: run(frames))


def _tracklet(size: int, length: int, clip_length: int | None) -> Tensor:
    return torch.empty(length, 3, size, size) if clip_length is None else torch.empty(1, length, 3, size, size)


def _paper_macs(layer: nn.Module, output: Tensor) -> int:
    if isinstance(layer, nn.Linear):
        return output.numel() * layer.in_features
    if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return output.numel() * math.prod(layer.weight.shape[1:])
    if type(layer) in NORMALISATIONS:
        return PER_NORMALISED_ELEMENT * output.numel()
    return 0
