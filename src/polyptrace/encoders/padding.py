"""Tracklets of different lengths in one batch: a mask (B, L) is True where a frame is valid, False in the padding.

Frames in the padding never reach a backbone, so they change neither vectors nor batch statistics.
"""

from collections.abc import Callable

import torch
from torch import Tensor


def features_of_valid_frames(frame_features: Callable[[Tensor], Tensor], frames: Tensor, mask: Tensor | None) -> Tensor:
    """Features (B, L, F) of frames (B, L, 3, H, W), zero in the padding."""
    if mask is None:
        return frame_features(frames.flatten(0, 1)).reshape(*frames.shape[:2], -1)
    return scatter_features(frame_features(frames[mask]), mask.flatten().nonzero()[:, 0], mask)


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
