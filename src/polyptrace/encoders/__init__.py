"""Frames to vectors: our tracklet encoder, the single-frame encoder, foundation models, and their checkpoints."""

from polyptrace.encoders.authors import load_authors_checkpoint
from polyptrace.encoders.backbone import create_backbone, fill_network
from polyptrace.encoders.checkpoints import OwnEncoder, from_pretrained, save_encoder, weights_hash
from polyptrace.encoders.colour_grid import ColourGrid
from polyptrace.encoders.frame import FrameEncoder
from polyptrace.encoders.loading import load_encoder
from polyptrace.encoders.preprocess import CropPreparation, Preprocess, check_crop_size, prepare_crops
from polyptrace.encoders.tracklet import TrackletEncoder, scatter_features

__all__ = [
    "ColourGrid",
    "CropPreparation",
    "FrameEncoder",
    "OwnEncoder",
    "Preprocess",
    "TrackletEncoder",
    "check_crop_size",
    "create_backbone",
    "fill_network",
    "from_pretrained",
    "load_authors_checkpoint",
    "load_encoder",
    "prepare_crops",
    "save_encoder",
    "scatter_features",
    "weights_hash",
]
