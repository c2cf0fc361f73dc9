"""The single-frame encoder of SFE: backbone -> Linear, ReLU, Linear; a tracklet's vector is the mean over its frames.

vectors = FrameEncoder("resnet50", weights="imagenet")(frames, mask)  # (B, L, 3, H, W), (B, L) -> (B, 128)
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from polyptrace.encoders.backbones import create_backbone, feature_width
from polyptrace.encoders.padding import features_of_valid_frames, mean_of_frames
from polyptrace.encoders.preprocess import RELEASE, Preprocess, as_frames
from polyptrace.encoders.record import TrainingRecord


class FrameEncoder(nn.Module):
    """Vectors of tracklets as means over frames; the vector is the head's output, as published."""

    record = TrainingRecord()

    def __init__(
        self,
        backbone: str = "resnet50",
        weights: str | None = "none",
        projection: int = 128,
        size: int = RELEASE.size,
        name: str = "frame",
    ) -> None:
        super().__init__()
        self.settings: dict[str, Any] = {"backbone": backbone, "projection": projection, "size": size, "name": name}
        self.name = name
        self.width = projection
        self.preprocess: Preprocess = replace(RELEASE, size=size)
        self.backbone = create_backbone(backbone, weights, size)
        hidden = feature_width(self.backbone)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, projection))

    def forward(self, frames: Tensor, mask: Tensor | None = None) -> Tensor:
        """Vectors (B, D) of prepared frames (B, L, 3, H, W) or of uint8 crops (B, L, S, S, 3)."""
        return self.tokens(frames, mask)[:, 0]

    def tokens(self, frames: Tensor, mask: Tensor | None = None) -> Tensor:
        """The mean over frames first, then the vector of each frame: (B, 1 + L, D)."""
        frames = as_frames(frames, self.preprocess)
        return self.tokens_of_features(features_of_valid_frames(self.frame_features, frames, mask), mask)

    def frame_features(self, frames: Tensor) -> Tensor:
        """Head outputs (n, D) of single frames (n, 3, H, W)."""
        features: Tensor = self.head(self.backbone(frames))
        return features

    def aggregate(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Vectors (B, D): means of head outputs (B, L, D) over the valid frames."""
        return mean_of_frames(features, mask)

    def tokens_of_features(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """The mean over valid frames first, then the head outputs (B, L, D) unchanged: (B, 1 + L, D)."""
        return torch.cat([mean_of_frames(features, mask)[:, None], features], dim=1)

    def project(self, tokens: Tensor) -> Tensor:
        """The input of the loss: the vectors themselves."""
        return tokens
