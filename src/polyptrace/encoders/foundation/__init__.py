"""The twelve frozen foundation models of the comparison, as tracklet encoders."""

from polyptrace.encoders.foundation.catalogue import FOUNDATION_MODELS, FoundationModel
from polyptrace.encoders.foundation.encoder import FoundationEncoder, FrameModelEncoder, VideoModelEncoder
from polyptrace.encoders.foundation.hub import cached_weights
from polyptrace.encoders.foundation.loading import costs, load_foundation, published_cost, used_cost
from polyptrace.encoders.foundation.pooling import choices

__all__ = [
    "FOUNDATION_MODELS",
    "FoundationEncoder",
    "FoundationModel",
    "FrameModelEncoder",
    "VideoModelEncoder",
    "cached_weights",
    "choices",
    "costs",
    "load_foundation",
    "published_cost",
    "used_cost",
]
