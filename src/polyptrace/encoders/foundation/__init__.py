"""The twelve frozen foundation models of the comparison, as tracklet encoders."""

from polyptrace.encoders.foundation.foundation_encoder import FoundationEncoder
from polyptrace.encoders.foundation.loading import FOUNDATION_MODELS, load_foundation

__all__ = ["FOUNDATION_MODELS", "FoundationEncoder", "load_foundation"]
