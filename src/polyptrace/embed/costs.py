"""What the encoder of some vectors costs: parameters and operations of one tracklet at the size it works at."""

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
        return _columns(used_cost(encoder.name, encoder.preprocess.size), 0)
    if not isinstance(encoder, TrackletEncoder | FrameEncoder):
        return {}
    with torch.device("meta"):  # shapes alone: nothing is computed
        twin = type(encoder)(**encoder.settings).eval()
        frames = torch.empty(1, COST_LENGTH, 3, encoder.preprocess.size, encoder.preprocess.size)
    unused = sum(p.numel() for p in twin.projector.parameters()) if isinstance(twin, TrackletEncoder) else 0
    return _columns(cost(twin, lambda: twin(frames)), unused)


def _columns(counted: Cost, unused: int) -> dict[str, Any]:
    operations = {"paper_macs": float(counted.paper_macs), "flops": float(counted.flops)}
    return {"params": counted.params - unused, "flops": operations}
