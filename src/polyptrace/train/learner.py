"""The network that the loop trains: stored crops in, vectors for the loss out, normalisation included."""

from collections.abc import Callable

from torch import Tensor, nn

from polyptrace.encoders import Normalise, OwnEncoder, scatter_features


class Learner(nn.Module):
    """An encoder with its preprocessing (and augmentation) in front and its projector behind, compiled as one."""

    def __init__(self, encoder: OwnEncoder, augment: Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.encoder = encoder
        self.augment = augment
        self.normalise = Normalise(encoder.preprocess)

    def forward(
        self, crops: Tensor, shape: tuple[int, int], frame_index: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Projected tokens (B, 1 + L, P) of the crops (n, S, S, 3) uint8 of all real frames.

        shape: (B, L). If frames are missing, frame_index (n,) is the index of each crop among B * L frames, and mask
        (B, L) is True where there is a frame; otherwise n = B * L.
        """
        pixels = self.normalise.frames(crops)  # (n, 3, S, S)
        if self.augment is not None:
            pixels = self.augment(pixels)
        features = self.encoder.frame_features(self.normalise(pixels))  # (n, F)
        if frame_index is None or mask is None:
            features = features.reshape(*shape, -1)  # (B, L, F)
        else:
            features = scatter_features(features, frame_index, mask)
        return self.encoder.project(self.encoder.tokens_of_features(features, mask))
