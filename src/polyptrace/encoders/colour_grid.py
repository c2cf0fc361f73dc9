"""The colour grid: 8 x 8 mean colours of each crop, mean over frames; what colour alone gives, without learning.

vectors = ColourGrid()(frames, mask)  # (B, L, 3, H, W), (B, L) -> (B, 192)
"""

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from polyptrace.encoders.preprocess import RELEASE, Preprocess

SIDE = 8


class ColourGrid(nn.Module):
    """Vectors of 8 x 8 x 3 colours, centred as every encoder's input is, so that cosines differ."""

    name = "colour-grid"
    width = SIDE * SIDE * 3

    def __init__(self) -> None:
        super().__init__()
        self.preprocess: Preprocess = replace(RELEASE, size=4 * SIDE)

    def forward(self, frames: Tensor, mask: Tensor | None = None) -> Tensor:
        """Vectors (B, D) of frames (B, L, 3, H, W)."""
        features = self.frame_features(frames.flatten(0, 1)).view(*frames.shape[:2], self.width)
        return self.aggregate(features, mask)

    def frame_features(self, frames: Tensor) -> Tensor:
        """Grids (n, D) of frames (n, 3, H, W), each on its own."""
        return functional.adaptive_avg_pool2d(frames, SIDE).flatten(1)

    def aggregate(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Means (B, D) of grids (B, L, D) over the real frames."""
        if mask is None:
            return features.mean(dim=1)
        real = torch.where(mask[..., None], features, 0.0)
        return real.sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp(min=1).to(features.dtype)
