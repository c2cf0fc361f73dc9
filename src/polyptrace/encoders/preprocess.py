"""From stored uint8 crops to the floats an encoder wants: its size, its mean, its standard deviation.

    prepared = prepare_crops(crops, encoder.preprocess)  # (B, L, S, S, 3) uint8 -> (B, L, 3, H, W)

A crop is made smaller where the encoder wants less, never larger unless the caller says so: an enlarged crop
costs as much as a real one and shows less, which would be unfair to the encoder without anyone noticing.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from polyptrace.core.errors import UserError


@dataclass(frozen=True)
class Preprocess:
    """What an encoder's input looks like: square frames of `size` pixels, (value - mean) / std per channel.

    Mean and standard deviation are those of red, green and blue in [0, 1].
    """

    size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


#: The one transform that the published comparison gave to every model; also that of our own encoders.
RELEASE = Preprocess(232, (0.45, 0.45, 0.45), (0.225, 0.225, 0.225))

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def prepare_crops(
    crops: Tensor, preprocess: Preprocess, *, enlarge: bool = False, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Crops (B, L, S, S, 3) uint8 as normalised floats (B, L, 3, H, W) on the same device.

    Made smaller by antialiased bilinear resizing, as `prepare` does it; larger only with `enlarge`.
    """
    prepared: Tensor = CropPreparation(preprocess, enlarge=enlarge).to(crops.device)(crops)
    return prepared.to(dtype)


class CropPreparation(nn.Module):
    """`prepare_crops` with its numbers kept on the device: nothing to copy, so that it can be compiled and captured."""

    def __init__(self, preprocess: Preprocess, *, enlarge: bool = False) -> None:
        super().__init__()
        self.preprocess, self.enlarge = preprocess, enlarge
        scale = torch.tensor([1 / (255 * s) for s in preprocess.std])
        shift = torch.tensor([-m / s for m, s in zip(preprocess.mean, preprocess.std, strict=True)])
        self.register_buffer("scale", scale[:, None, None], persistent=False)
        self.register_buffer("shift", shift[:, None, None], persistent=False)

    def forward(self, crops: Tensor) -> Tensor:
        """Floats (…, 3, H, W) of crops (…, S, S, 3) uint8."""
        check_crop_size(crops.shape[-2], self.preprocess, enlarge=self.enlarge)
        assert isinstance(self.scale, Tensor)
        assert isinstance(self.shift, Tensor)
        leading, side = crops.shape[:-3], self.preprocess.size
        frames = crops.flatten(0, -4).permute(0, 3, 1, 2).to(torch.float32)  # (n, 3, S, S), channels last in memory
        if frames.shape[-2:] != (side, side):
            frames = functional.interpolate(frames, size=(side, side), mode="bilinear", antialias=True)
        return torch.addcmul(self.shift, frames, self.scale).reshape(*leading, 3, side, side)


def check_crop_size(stored: int, preprocess: Preprocess, *, enlarge: bool = False) -> None:
    """Raises if crops of `stored` pixels would have to be enlarged and `enlarge` does not allow it."""
    if stored < preprocess.size and not enlarge:
        raise UserError(
            f"crops: stored at {stored} pixels, but the encoder takes {preprocess.size}"
            f" -> run `polyptrace prepare` with --crops.size {preprocess.size},"
            " or allow enlarged crops with --embed.enlarge true"
        )
