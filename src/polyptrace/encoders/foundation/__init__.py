"""The twelve frozen foundation models of the comparison, as tracklet encoders."""

from polyptrace.encoders.foundation.catalogue import FOUNDATION_MODELS, FoundationModel
from polyptrace.encoders.foundation.encoder import (
    FoundationEncoder,
    FrameModelEncoder,
    VideoModelEncoder,
    pooling_choices,
)
from polyptrace.encoders.foundation.hub import cached_weights, is_hub_id
from polyptrace.encoders.foundation.loading import find_model, load_foundation

__all__ = [
    "FOUNDATION_MODELS",
    "FoundationEncoder",
    "FoundationModel",
    "FrameModelEncoder",
    "VideoModelEncoder",
    "cached_weights",
    "find_model",
    "is_hub_id",
    "load_foundation",
    "pooling_choices",
]
