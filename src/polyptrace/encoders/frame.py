"""The single-frame encoder of SFE: ResNet -> Linear, ReLU, Linear; a tracklet's vector is the mean over its frames.

vectors = FrameEncoder("resnet50", weights="imagenet")(frames, mask)  # (B, L, 3, H, W), (B, L) -> (B, 128)
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from polyptrace.encoders.backbone import create_backbone, feature_width
from polyptrace.encoders.preprocess import RELEASE, Preprocess
from polyptrace.encoders.tracklet import features_of_real_frames


class FrameEncoder(nn.Module):
    """Vectors of tracklets as means over frames; the embedding is the head's output, as published."""

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
        """Vectors (B, D) of frames (B, L, 3, H, W)."""
        return self.tokens(frames, mask)[:, 0]

    def tokens(self, frames: Tensor, mask: Tensor | None = None) -> Tensor:
        """The mean over frames first, then each frame's own vector: (B, 1 + L, D)."""
        return self.tokens_of_features(features_of_real_frames(self.frame_features, frames, mask), mask)

    def frame_features(self, frames: Tensor) -> Tensor:
        """Head outputs (n, D) of frames (n, 3, H, W), each on its own."""
        features: Tensor = self.head(self.backbone(frames))
        return features

    def aggregate(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Vectors (B, D): means of head outputs (B, L, D) over the real frames."""
        return self.tokens_of_features(features, mask)[:, 0]

    def tokens_of_features(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """The mean over real frames first, then the head outputs (B, L, D) as they are: (B, 1 + L, D)."""
        if mask is None:
            return torch.cat([features.mean(dim=1, keepdim=True), features], dim=1)
        weight = mask / mask.sum(dim=1, keepdim=True).clamp(min=1)  # (B, L)
        mean = torch.einsum("bl,bld->bd", weight.to(features.dtype), features * mask[..., None])
        return torch.cat([mean[:, None], features], dim=1)

    def project(self, tokens: Tensor) -> Tensor:
        """What the loss sees: the vectors themselves."""
        return tokens
