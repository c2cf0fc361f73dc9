"""From frames to vectors: our encoders, frozen backbones and foundation models, and their weights."""

from polyptrace.encoders.backbones import FROZEN, FrozenBackbone, create_backbone
from polyptrace.encoders.card import OwnEncoder, model_card
from polyptrace.encoders.checkpoints import (
    encoder_config,
    load_authors_checkpoint,
    load_encoder,
    save_encoder,
    training_record,
)
from polyptrace.encoders.colour_grid import ColourGrid
from polyptrace.encoders.frame import FrameEncoder
from polyptrace.encoders.padding import scatter_features
from polyptrace.encoders.preprocess import CropPreparation, Normalise, Preprocess, input_size, prepare_crops
from polyptrace.encoders.record import TrainingRecord
from polyptrace.encoders.tracklet import TrackletEncoder
from polyptrace.encoders.weights import DEFAULT, fill_network, fingerprint, weights_hash

__all__ = [
    "DEFAULT",
    "FROZEN",
    "ColourGrid",
    "CropPreparation",
    "FrameEncoder",
    "FrozenBackbone",
    "Normalise",
    "OwnEncoder",
    "Preprocess",
    "TrackletEncoder",
    "TrainingRecord",
    "create_backbone",
    "encoder_config",
    "fill_network",
    "fingerprint",
    "input_size",
    "load_authors_checkpoint",
    "load_encoder",
    "model_card",
    "prepare_crops",
    "save_encoder",
    "scatter_features",
    "training_record",
    "weights_hash",
]
