"""From frames to vectors: our encoders, frozen backbones and foundation models, and their weights."""

from polyptrace.encoders.checkpoints import load_encoder, save_encoder
from polyptrace.encoders.frame import ColourGrid, FrameEncoder, FrozenBackbone
from polyptrace.encoders.preprocess import Preprocess, prepare_crops
from polyptrace.encoders.tracklet import TrackletEncoder

__all__ = [
    "ColourGrid",
    "FrameEncoder",
    "FrozenBackbone",
    "Preprocess",
    "TrackletEncoder",
    "load_encoder",
    "prepare_crops",
    "save_encoder",
]
