"""What the encoder of some vectors costs: parameters and operations of one tracklet at the size it works at."""

from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import nn

from polyptrace.encoders import FrameEncoder, TrackletEncoder
from polyptrace.encoders.cost import Cost, cost
from polyptrace.encoders.foundation import FoundationEncoder, used_cost
from polyptrace.encoders.foundation.loading import COST_LENGTH


def cost_columns(encoder: nn.Module) -> dict[str, Any]:
    """Parameters and operations, under the names that results have for them; {} for an encoder of another kind."""
    if isinstance(encoder, FoundationEncoder):
        counted = used_cost(encoder.name, encoder.preprocess.size)
    elif isinstance(encoder, TrackletEncoder | FrameEncoder):
        counted = _own_cost(isinstance(encoder, FrameEncoder), tuple(encoder.settings.items()))
    else:
        return {}
    operations = {"paper_macs": float(counted.paper_macs), "flops": float(counted.flops)}
    return {"params": counted.params, "flops": operations}


@cache
def _own_cost(of_frames: bool, settings: tuple[tuple[str, Any], ...]) -> Cost:
    """The cost of one of our encoders, without the projector, which gives no vector."""
    with torch.device("meta"):  # shapes alone: nothing is computed
        encoder = (FrameEncoder if of_frames else TrackletEncoder)(**dict(settings)).eval()
        frames = torch.empty(1, COST_LENGTH, 3, encoder.preprocess.size, encoder.preprocess.size)
    counted = cost(encoder, lambda: encoder(frames))
    unused = sum(p.numel() for p in encoder.projector.parameters()) if isinstance(encoder, TrackletEncoder) else 0
    return replace(counted, params=counted.params - unused)
