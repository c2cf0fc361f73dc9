"""Frozen foundation models as tracklet encoders: any number of frames in, one vector per tracklet out."""

from typing import Self

import torch
from torch import Tensor, nn

from polyptrace.encoders.foundation.architecture import Architecture
from polyptrace.encoders.foundation.clips import cut_clips
from polyptrace.encoders.foundation.pooling import Pooling, pool_frames, pool_tokens
from polyptrace.encoders.preprocess import Preprocess

#: Frames that go through a backbone at once, so that memory does not grow with the length of a track.
FRAMES_AT_ONCE = 512


class FoundationEncoder(nn.Module):
    """A frozen backbone and its pooling, in evaluation mode whatever is asked of the module around it.

    Called with frames (B, L, 3, H, W), prepared as `preprocess` says, and an optional mask (B, L), True for real
    frames, an encoder gives (B, D), in float32 for half weights too. Other frames never reach the backbone.
    """

    def __init__(
        self, name: str, architecture: Architecture, backbone: nn.Module, preprocess: Preprocess, pooling: Pooling
    ) -> None:
        super().__init__()
        self.name = name
        self.architecture = architecture
        self.preprocess = preprocess
        self.pooling = pooling
        self.width = architecture.width * len(pooling.tokens)
        self.backbone = backbone.requires_grad_(requires_grad=False).eval()

    def train(self, mode: bool = True) -> Self:
        """Leaves the backbone in evaluation mode: some of them change their positions at random in training."""
        super().train(mode)
        self.backbone.eval()
        return self

    def compile(self, *arguments: object, **options: object) -> None:
        """Compiles the backbone's blocks, in place: they share one graph, so that it takes seconds and not minutes."""
        for block in self.architecture.blocks(self.backbone):
            block.compile(*arguments, **options)

    def _pooled(self, pictures: Tensor) -> Tensor:
        """Vectors (n, D) of frames (n, 3, H, W) or clips (n, F, 3, H, W)."""
        dtype = next(self.backbone.parameters()).dtype
        tokens = self.architecture.tokens(self.backbone, pictures.to(dtype))
        return pool_tokens(tokens, self.pooling, self.architecture.prefix_tokens)

    def _checked(self, frames: Tensor, mask: Tensor | None) -> Tensor:
        """The mask, all True where none is given, after what a caller can get wrong."""
        side = self.preprocess.size
        if frames.shape[-2:] != (side, side):
            raise ValueError(f"{self.name} takes frames of {side} pixels, not {tuple(frames.shape[-2:])}")
        if mask is None:
            return torch.ones(frames.shape[:2], dtype=torch.bool, device=frames.device)
        if not bool(mask.any(dim=1).all()):
            raise ValueError("a tracklet without any real frame has no vector")
        return mask


class FrameModelEncoder(FoundationEncoder):
    """A model of single pictures: each frame goes through it once, and the frames' vectors are joined."""

    def forward(self, frames: Tensor, mask: Tensor | None = None) -> Tensor:
        """Vectors (B, D) of frames (B, L, 3, H, W)."""
        mask = self._checked(frames, mask)
        features = self.frame_features(frames[mask])
        padded = features.new_zeros(*mask.shape, features.shape[-1])
        padded[mask] = features
        return self.aggregate(padded, mask)

    def frame_features(self, frames: Tensor) -> Tensor:
        """Vectors (n, D) of frames (n, 3, H, W), each on its own."""
        return torch.cat([self._pooled(some) for some in frames.split(FRAMES_AT_ONCE)])

    def aggregate(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Vectors (B, D) of the vectors of frames (B, L, D)."""
        mask = torch.ones_like(features[..., 0], dtype=torch.bool) if mask is None else mask
        return pool_frames(features, mask, self.pooling.frames)


class VideoModelEncoder(FoundationEncoder):
    """A model of clips: a tracklet is cut into clips of the model's own length, whose vectors are joined."""

    def forward(self, frames: Tensor, mask: Tensor | None = None) -> Tensor:
        """Vectors (B, D) of frames (B, L, 3, H, W)."""
        assert self.architecture.clip_length is not None
        mask = self._checked(frames, mask)
        groups = list(cut_clips(mask, self.architecture.clip_length))
        most = 1 + max(int(clips.place.max()) for clips in groups)
        vectors = torch.zeros(len(frames), most, self.width, device=frames.device)
        present = torch.zeros(len(frames), most, dtype=torch.bool, device=frames.device)
        for clips in groups:
            at_once = max(1, FRAMES_AT_ONCE // clips.frames.shape[1])
            for tracklet, place, index in zip(
                clips.tracklet.split(at_once), clips.place.split(at_once), clips.frames.split(at_once), strict=True
            ):
                pooled = self._pooled(frames[tracklet[:, None], index])
                vectors = vectors.to(pooled.dtype)
                vectors[tracklet, place] = pooled
                present[tracklet, place] = True
        return pool_frames(vectors, present, self.pooling.frames)
