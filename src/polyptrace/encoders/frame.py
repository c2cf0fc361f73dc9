"""Encoders of single frames: the vector of a tracklet is the mean over its frames. SFE's encoder and two baselines.

vectors = FrameEncoder("resnet50", weights="imagenet")(frames, mask)  # (B, L, 3, H, W), (B, L) -> (B, 128)
vectors = FrozenBackbone("resnet50", "resnet50.safetensors")(frames, mask)  # -> (B, 2048)
vectors = ColourGrid()(frames, mask)  # -> (B, 192)
"""

from dataclasses import replace
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from polyptrace.encoders.backbones import backbone_preprocess, create_backbone, feature_width
from polyptrace.encoders.encoder import FrameByFrame, OwnEncoder, mean_of_frames
from polyptrace.encoders.preprocess import RELEASE

#: The name of a frozen backbone is this prefix and a timm model.
FROZEN = "frozen:"

#: Side of the colour grid, in cells.
SIDE = 8


class FrameEncoder(OwnEncoder):
    """Backbone -> Linear, ReLU, Linear; the vector is the head's output, as published."""

    def __init__(
        self,
        backbone: str = "resnet50",
        weights: str | None = "none",
        projection: int = 128,
        size: int = RELEASE.size,
        name: str = "frame",
    ) -> None:
        super().__init__()
        self.settings = {"backbone": backbone, "projection": projection, "size": size, "name": name}
        self.name, self.width = name, projection
        self.preprocess = replace(RELEASE, size=size)
        self.backbone = create_backbone(backbone, weights, size)
        hidden = feature_width(self.backbone)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, projection))

    def frame_features(self, frames: Tensor) -> Tensor:
        """Head outputs (n, D) of single frames (n, 3, H, W)."""
        features: Tensor = self.head(self.backbone(frames))
        return features

    def tokens_of_features(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """The mean over valid frames first, then the head outputs (B, L, D) unchanged: (B, 1 + L, D)."""
        return torch.cat([mean_of_frames(features, mask)[:, None], features], dim=1)

    def project(self, tokens: Tensor) -> Tensor:
        """The input of the loss: the vectors themselves."""
        return tokens


class FrozenBackbone(FrameByFrame):
    """A pretrained timm backbone as a baseline: the vector of a tracklet is the mean of its frames' features.

    `weights` is `imagenet` (from the hub), `none`, or a file. `preprocess` is `own` (size and normalisation of the
    pretrained weights), `imagenet` (that size, ImageNet's normalisation) or `release` (232 pixels, 0.45, 0.225).
    Convolutional networks take smaller crops at their own size.
    """

    def __init__(self, backbone: str, weights: str | Path = "imagenet", preprocess: str = "own") -> None:
        super().__init__()
        self.settings = {"backbone": backbone, "preprocess": preprocess}
        self.name = FROZEN + backbone
        self.preprocess = backbone_preprocess(backbone, preprocess)
        network = create_backbone(backbone, str(weights), self.preprocess.size, option="--weights")
        self.backbone = network.requires_grad_(requires_grad=False).eval()
        self.width = feature_width(network)

    def train(self, mode: bool = True) -> Self:
        """Leaves the backbone in evaluation mode, because it is frozen."""
        super().train(mode)
        self.backbone.eval()
        return self


class ColourGrid(FrameByFrame):
    """8 x 8 mean colours of each crop, normalised as the input of our encoders: a baseline that learns nothing."""

    name = "colour-grid"
    width = SIDE * SIDE * 3
    preprocess = replace(RELEASE, size=4 * SIDE)

    def frame_features(self, frames: Tensor) -> Tensor:
        """Grids (n, D) of single frames (n, 3, H, W)."""
        return functional.adaptive_avg_pool2d(frames, SIDE).flatten(1)
