"""What the loop trains: stored crops in, what the loss sees out; normalisation is inside, and compiled along."""

import torch
from torch import Tensor, nn

from polyptrace.encoders import OwnEncoder, scatter_features
from polyptrace.train.augment import augment


class Learner(nn.Module):
    """An encoder with its preprocessing in front and its projector behind."""

    def __init__(self, encoder: OwnEncoder, augmented: bool = False) -> None:
        super().__init__()
        self.encoder = encoder
        self.augmented = augmented
        mean, std = torch.tensor(encoder.preprocess.mean), torch.tensor(encoder.preprocess.std)
        self.register_buffer("scale", (1 / (255 * std))[:, None, None], persistent=False)
        self.register_buffer("shift", (-mean / std)[:, None, None], persistent=False)

    def forward(
        self, crops: Tensor, shape: tuple[int, int], place: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Projected tokens (B, 1 + L, P) of the real frames' crops (n, S, S, 3) uint8.

        shape: (B, L). Where frames are missing, place (n,) says where in B * L each crop stands and mask (B, L) is
        True there; without them n = B * L.
        """
        assert isinstance(self.scale, Tensor)
        assert isinstance(self.shift, Tensor)
        frames = crops.permute(0, 3, 1, 2).to(self.scale.dtype)  # (n, 3, S, S), channels last in memory
        if self.augmented:
            frames = augment(frames)
        features = self.encoder.frame_features(torch.addcmul(self.shift, frames, self.scale))  # (n, F)
        if place is None or mask is None:
            features = features.reshape(*shape, -1)  # (B, L, F)
        else:
            features = scatter_features(features, place, mask)
        return self.encoder.project(self.encoder.tokens_of_features(features, mask))
