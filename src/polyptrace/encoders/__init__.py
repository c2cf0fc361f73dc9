"""From frames to vectors: our encoders, frozen backbones and foundation models, and their weights."""

from polyptrace.encoders.encoder import BaseEncoder, ColourGrid, FrameEncoder, FrozenBackbone, TrackletEncoder
from polyptrace.encoders.encoder_folder import load_encoder, save_encoder
from polyptrace.encoders.preprocess import Preprocess, prepare_crops

__all__ = [
    "BaseEncoder",
    "ColourGrid",
    "FrameEncoder",
    "FrozenBackbone",
    "Preprocess",
    "TrackletEncoder",
    "load_encoder",
    "prepare_crops",
    "save_encoder",
]
