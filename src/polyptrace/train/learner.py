"""What the loop trains: stored crops in, what the loss sees out; normalisation is inside, and compiled along."""

from torch import Tensor, nn

from polyptrace.encoders import Normalise, OwnEncoder, scatter_features
from polyptrace.train.augment import augment


class Learner(nn.Module):
    """An encoder with its preprocessing in front and its projector behind."""

    def __init__(self, encoder: OwnEncoder, augmented: bool = False) -> None:
        super().__init__()
        self.encoder = encoder
        self.augmented = augmented
        self.normalise = Normalise(encoder.preprocess)

    def forward(
        self, crops: Tensor, shape: tuple[int, int], place: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Projected tokens (B, 1 + L, P) of the real frames' crops (n, S, S, 3) uint8.

        shape: (B, L). Where frames are missing, place (n,) says where in B * L each crop stands and mask (B, L) is
        True there; without them n = B * L.
        """
        pixels = self.normalise.frames(crops)  # (n, 3, S, S)
        if self.augmented:
            pixels = augment(pixels)
        features = self.encoder.frame_features(self.normalise(pixels))  # (n, F)
        if place is None or mask is None:
            features = features.reshape(*shape, -1)  # (B, L, F)
        else:
            features = scatter_features(features, place, mask)
        return self.encoder.project(self.encoder.tokens_of_features(features, mask))
