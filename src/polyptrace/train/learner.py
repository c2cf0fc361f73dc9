"""The network that the loop trains: stored crops in, vectors for the loss out, normalisation included."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from polyptrace.encoders import OwnEncoder, scatter_features


class Learner(nn.Module):
    """An encoder with its preprocessing (and augmentation) in front and its projector behind, compiled as one."""

    def __init__(self, encoder: OwnEncoder, augment: Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.encoder = encoder
        self.augment = augment
        mean, std = torch.tensor(encoder.preprocess.mean), torch.tensor(encoder.preprocess.std)
        self.register_buffer("scale", (1 / (255 * std))[:, None, None], persistent=False)
        self.register_buffer("shift", (-mean / std)[:, None, None], persistent=False)

    def forward(
        self, crops: Tensor, shape: tuple[int, int], place: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Projected tokens (B, 1 + L, P) of the crops (n, S, S, 3) uint8 of all real frames.

        shape: (B, L). If frames are missing, place (n,) is the index of each crop among B * L frames, and mask (B, L)
        is True where there is a frame; otherwise n = B * L.
        """
        assert isinstance(self.scale, Tensor)
        assert isinstance(self.shift, Tensor)
        frames = crops.permute(0, 3, 1, 2).to(self.scale.dtype)  # (n, 3, S, S), channels last in memory
        if self.augment is not None:
            frames = self.augment(frames)
        features = self.encoder.frame_features(torch.addcmul(self.shift, frames, self.scale))  # (n, F)
        if place is None or mask is None:
            features = features.reshape(*shape, -1)  # (B, L, F)
        else:
            features = scatter_features(features, place, mask)
        return self.encoder.project(self.encoder.tokens_of_features(features, mask))
