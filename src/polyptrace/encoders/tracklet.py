"""The tracklet encoder: frames -> backbone -> linear -> learnable token + transformer -> the token's output.

encoder = TrackletEncoder("resnet50", weights="imagenet")
vectors = encoder(frames, mask)  # (B, L, 3, H, W), (B, L) -> (B, D)

There is no position code, so the vector does not depend on the order of the frames. The projector is used in training
only.
"""

from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor, nn

from polyptrace.config import Encoder as EncoderSettings
from polyptrace.encoders.backbones import create_backbone, feature_width
from polyptrace.encoders.padding import features_of_valid_frames
from polyptrace.encoders.preprocess import RELEASE, Preprocess, as_frames
from polyptrace.encoders.record import TrainingRecord


class TrackletEncoder(nn.Module):
    """Vectors of tracklets with any number of frames; see the module for the parts."""

    record = TrainingRecord()

    def __init__(
        self,
        backbone: str = "resnet50",
        weights: str | None = "none",
        width: int = 256,
        layers: int = 3,
        heads: int = 8,
        feed_forward: int = 1024,
        dropout: float = 0.1,
        projector_hidden: int = 256,
        projection: int = 128,
        feature_norm: bool = False,
        output_norm: bool = False,
        size: int = RELEASE.size,
        name: str = "tracklet",
    ) -> None:
        super().__init__()
        self.settings: dict[str, Any] = {
            "backbone": backbone,
            "width": width,
            "layers": layers,
            "heads": heads,
            "feed_forward": feed_forward,
            "dropout": dropout,
            "projector_hidden": projector_hidden,
            "projection": projection,
            "feature_norm": feature_norm,
            "output_norm": output_norm,
            "size": size,
            "name": name,
        }
        self.name = name
        self.width = width
        self.preprocess: Preprocess = replace(RELEASE, size=size)
        self.backbone = create_backbone(backbone, weights, size)
        self.adapter = nn.Linear(feature_width(self.backbone), width)
        self.feature_norm = nn.LayerNorm(width) if feature_norm else nn.Identity()
        self.token = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, feed_forward, dropout, batch_first=True) for _ in range(layers)
        )
        self.output_norm = nn.LayerNorm(width) if output_norm else nn.Identity()
        self.projector = nn.Sequential(
            nn.Linear(width, projector_hidden), nn.ReLU(), nn.Linear(projector_hidden, projection)
        )

    @classmethod
    def from_settings(cls, settings: EncoderSettings, size: int, name: str = "tracklet") -> "TrackletEncoder":
        """The encoder of the [encoder] section, for frames of `size` pixels."""
        return cls(**asdict(settings), size=size, name=name)

    def forward(self, frames: Tensor, mask: Tensor | None = None) -> Tensor:
        """Vectors (B, D) of prepared frames (B, L, 3, H, W) or of uint8 crops (B, L, S, S, 3).

        The vector is the learnable token's output, before the projector. The mask (B, L) is True for valid frames.
        """
        return self.tokens(frames, mask)[:, 0]

    def tokens(self, frames: Tensor, mask: Tensor | None = None) -> Tensor:
        """Outputs (B, 1 + L, D): the learnable token first, then one per frame, zero in the padding."""
        frames = as_frames(frames, self.preprocess)
        return self.tokens_of_features(features_of_valid_frames(self.frame_features, frames, mask), mask)

    def frame_features(self, frames: Tensor) -> Tensor:
        """Backbone features (n, F) of single frames (n, 3, H, W)."""
        features: Tensor = self.backbone(frames)
        return features

    def aggregate(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Vectors (B, D) of backbone features (B, L, F)."""
        return self.tokens_of_features(features, mask)[:, 0]

    def tokens_of_features(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Outputs (B, 1 + L, D) of backbone features (B, L, F), zero in the padding."""
        frames = self.feature_norm(self.adapter(features))  # (B, L, D)
        token = self.token.to(frames.dtype).expand(frames.shape[0], 1, -1)
        tokens: Tensor = torch.cat([token, frames], dim=1)  # (B, T, D)
        valid = None if mask is None else torch.cat([mask.new_ones(mask.shape[0], 1), mask], dim=1)  # (B, T)
        for layer in self.layers:
            tokens = layer(tokens, src_key_padding_mask=None if valid is None else ~valid)
        tokens = self.output_norm(tokens)
        return tokens if valid is None else tokens * valid[..., None]

    def project(self, tokens: Tensor) -> Tensor:
        """The input of the loss: (…, D) -> (…, projection)."""
        projected: Tensor = self.projector(tokens)
        return projected
