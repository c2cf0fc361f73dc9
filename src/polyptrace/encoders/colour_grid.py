"""The colour grid: 8 x 8 mean colours of each crop, averaged over frames. A baseline that learns nothing.

vectors = ColourGrid()(frames, mask)  # (B, L, 3, H, W), (B, L) -> (B, 192)
"""

from dataclasses import replace

from torch import Tensor, nn
from torch.nn import functional

from polyptrace.encoders.padding import features_of_valid_frames, mean_of_frames
from polyptrace.encoders.preprocess import RELEASE, Preprocess, as_frames

SIDE = 8


class ColourGrid(nn.Module):
    """Vectors of 8 x 8 x 3 colours, normalised as the input of our encoders, so that cosines differ."""

    name = "colour-grid"
    width = SIDE * SIDE * 3

    def __init__(self) -> None:
        super().__init__()
        self.preprocess: Preprocess = replace(RELEASE, size=4 * SIDE)

    def forward(self, frames: Tensor, mask: Tensor | None = None) -> Tensor:
        """Vectors (B, D) of prepared frames (B, L, 3, H, W) or of uint8 crops (B, L, S, S, 3)."""
        frames = as_frames(frames, self.preprocess)
        return self.aggregate(features_of_valid_frames(self.frame_features, frames, mask), mask)

    def frame_features(self, frames: Tensor) -> Tensor:
        """Grids (n, D) of single frames (n, 3, H, W)."""
        return functional.adaptive_avg_pool2d(frames, SIDE).flatten(1)

    def aggregate(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Means (B, D) of grids (B, L, D) over the valid frames."""
        return mean_of_frames(features, mask)
