"""What our encoders have in common: the path from frames to vectors, padding, and the record of the training.

Tracklets of different lengths share a batch: a mask (B, L) is True where a frame is valid, False in the padding. Frames
in the padding never reach a backbone, so they change neither vectors nor batch statistics.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from polyptrace.encoders.preprocess import Preprocess, as_frames


@dataclass(frozen=True)
class TrainingRecord:
    """How an encoder was trained and what it reaches; empty fields are not known."""

    method: str = ""
    data: str = ""  # name of the dataset
    generated: bool | None = None  # whether its images were rendered, not recorded
    counts: dict[str, int] = field(default_factory=dict)  # videos, tracks, tracklets and crops of the dataset
    labels: str = ""  # polyp labels that training used
    steps: int = 0
    frames: int = 0  # frames seen
    seed: int | None = None
    init_from: str = ""  # encoder of the initial weights
    init_frames: int = 0  # frames that it had seen
    settings: dict[str, Any] = field(default_factory=dict)  # all settings of the training
    licence: str = "unknown"  # of the weights, as an identifier of the hub
    results: dict[str, str | float] = field(default_factory=dict)  # metric: value, with its confidence interval

    @property
    def total_frames(self) -> int:
        """Frames seen in this training and in those of the initial weights."""
        return self.frames + self.init_frames


class FrameByFrame(nn.Module):
    """An encoder whose backbone takes single frames; by default, the vector of a tracklet is the mean over its frames.

    Called with prepared frames (B, L, 3, H, W) or uint8 crops (B, L, S, S, 3), and an optional mask (B, L) that is True
    for valid frames, it gives vectors (B, D).
    """

    name: str
    width: int  # of a vector (D)
    preprocess: Preprocess

    def forward(self, frames: Tensor, mask: Tensor | None = None) -> Tensor:
        """Vectors (B, D) of prepared frames (B, L, 3, H, W) or of uint8 crops (B, L, S, S, 3)."""
        return self.aggregate(self.features(frames, mask), mask)

    def features(self, frames: Tensor, mask: Tensor | None) -> Tensor:
        """Features (B, L, F) of frames (B, L, 3, H, W) or of uint8 crops (B, L, S, S, 3), zero in the padding."""
        frames = as_frames(frames, self.preprocess)
        if mask is None:
            return self.frame_features(frames.flatten(0, 1)).reshape(*frames.shape[:2], -1)
        return scatter_features(self.frame_features(frames[mask]), mask.flatten().nonzero()[:, 0], mask)

    def frame_features(self, frames: Tensor) -> Tensor:
        """Features (n, F) of single frames (n, 3, H, W)."""
        assert isinstance(self.backbone, nn.Module)
        features: Tensor = self.backbone(frames)
        return features

    def aggregate(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Vectors (B, D) of features (B, L, F)."""
        return mean_of_frames(features, mask)


class OwnEncoder(FrameByFrame, ABC):
    """An encoder that this package trains; it gives a token for the tracklet and one for each frame."""

    record = TrainingRecord()
    settings: dict[str, Any]  # arguments of its class, except for the weights
    backbone: nn.Module

    def tokens(self, frames: Tensor, mask: Tensor | None = None) -> Tensor:
        """Outputs (B, 1 + L, D): that of the tracklet first, then one per frame, zero in the padding."""
        return self.tokens_of_features(self.features(frames, mask), mask)

    def aggregate(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Vectors (B, D) of features (B, L, F): the outputs of the tracklets."""
        return self.tokens_of_features(features, mask)[:, 0]

    @abstractmethod
    def tokens_of_features(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Outputs (B, 1 + L, D) of features (B, L, F)."""

    @abstractmethod
    def project(self, tokens: Tensor) -> Tensor:
        """The input of the loss: (…, D) -> (…, projection)."""


def scatter_features(features: Tensor, index: Tensor, mask: Tensor) -> Tensor:
    """Features (n, F) at positions `index` (n,) of the B * L frames of the mask: (B, L, F), zero elsewhere."""
    empty = features.new_zeros(mask.numel(), features.shape[-1])
    return empty.index_copy(0, index, features).reshape(*mask.shape, -1)


def mean_of_frames(features: Tensor, mask: Tensor | None) -> Tensor:
    """Means (B, F) of features (B, L, F) over the valid frames; zero for a tracklet without one."""
    if mask is None:
        return features.mean(dim=1)
    valid = torch.where(mask[..., None], features, 0.0)
    return valid.sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp(min=1).to(features.dtype)
