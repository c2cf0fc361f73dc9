"""The tracklet encoder: frames -> backbone -> linear -> learnable token + transformer -> the token's output.

encoder = TrackletEncoder("resnet50", weights="imagenet")
vectors = encoder(frames, mask)  # (B, L, 3, H, W), (B, L) -> (B, D)

No position code: the vector does not depend on the order of the frames. The projector is for training alone.
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor, nn

from polyptrace.config import Encoder as EncoderSettings
from polyptrace.encoders.backbone import create_backbone, feature_width
from polyptrace.encoders.preprocess import RELEASE, Preprocess


class TrackletEncoder(nn.Module):
    """Vectors of tracklets with any number of frames; see the module for the parts.

    Frames are normalised as `preprocess` says. In a mask True is a real frame; other frames never reach the
    backbone, so that they change neither vectors nor batch statistics.
    """

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
        """The encoder that the [encoder] section describes, for frames of `size` pixels."""
        return cls(**asdict(settings), size=size, name=name)

    def forward(self, frames: Tensor, mask: Tensor | None = None) -> Tensor:
        """Vectors (B, D) of frames (B, L, 3, H, W): the learnable token's output, before the projector."""
        return self.tokens(frames, mask)[:, 0]

    def tokens(self, frames: Tensor, mask: Tensor | None = None) -> Tensor:
        """Outputs (B, 1 + L, D): the learnable token's first, then one per frame, zero where there is none."""
        return self.tokens_of_features(features_of_real_frames(self.frame_features, frames, mask), mask)

    def frame_features(self, frames: Tensor) -> Tensor:
        """Backbone features (n, F) of frames (n, 3, H, W), each on its own."""
        features: Tensor = self.backbone(frames)
        return features

    def aggregate(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Vectors (B, D) of backbone features (B, L, F)."""
        return self.tokens_of_features(features, mask)[:, 0]

    def tokens_of_features(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Outputs (B, 1 + L, D) of backbone features (B, L, F), zero where there is no frame."""
        frames = self.feature_norm(self.adapter(features))  # (B, L, D)
        token = self.token.to(frames.dtype).expand(len(frames), 1, -1)
        tokens: Tensor = torch.cat([token, frames], dim=1)  # (B, T, D)
        real = None if mask is None else torch.cat([mask.new_ones(len(mask), 1), mask], dim=1)  # (B, T)
        for layer in self.layers:
            tokens = layer(tokens, src_key_padding_mask=None if real is None else ~real)
        tokens = self.output_norm(tokens)
        return tokens if real is None else tokens * real[..., None]

    def project(self, tokens: Tensor) -> Tensor:
        """What the loss sees: (…, D) -> (…, projection)."""
        projected: Tensor = self.projector(tokens)
        return projected


def features_of_real_frames(frame_features: Callable[[Tensor], Tensor], frames: Tensor, mask: Tensor | None) -> Tensor:
    """Features (B, L, F) of frames (B, L, 3, H, W), zero where the mask (B, L) has no frame."""
    if mask is None:
        return frame_features(frames.flatten(0, 1)).reshape(*frames.shape[:2], -1)
    return scatter_features(frame_features(frames[mask]), mask.flatten().nonzero()[:, 0], mask)


def scatter_features(features: Tensor, place: Tensor, mask: Tensor) -> Tensor:
    """Features (n, F) put at their `place` (n,) among the B * L frames of the mask: (B, L, F), zero elsewhere."""
    empty = features.new_zeros(mask.numel(), features.shape[-1])
    return empty.index_copy(0, place, features).reshape(*mask.shape, -1)
