"""The tracklet encoder: frames -> backbone -> linear -> learnable token + transformer -> the token's output.

encoder = TrackletEncoder("resnet50", weights="imagenet")
vectors = encoder(frames, mask)  # (B, L, 3, H, W), (B, L) -> (B, D), the learnable token's output

There is no position code, so the vector does not depend on the order of the frames. The projector is used in training
only.
"""

from dataclasses import asdict, replace

import torch
from torch import Tensor, nn

from polyptrace.config import Encoder as EncoderSettings
from polyptrace.encoders.backbones import create_backbone, feature_width
from polyptrace.encoders.encoder import OwnEncoder
from polyptrace.encoders.preprocess import RELEASE


class TrackletEncoder(OwnEncoder):
    """Vectors of tracklets with any number of frames; see the module for the parts."""

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
        settings = {key: value for key, value in locals().items() if key not in ("self", "weights", "__class__")}
        super().__init__()
        self.settings, self.name, self.width = settings, name, width
        self.preprocess = replace(RELEASE, size=size)
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
