"""From stored crops to an encoder's input: resized to its size, normalised with its mean and standard deviation.

    frames = prepare_crops(crops, encoder.preprocess)  # (B, L, S, S, 3) uint8 -> (B, L, 3, H, W) float32

Crops are never enlarged unless the caller allows it: an enlarged crop costs as much as a real one and shows less, which
would put the encoder at a disadvantage that nobody notices.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from polyptrace.core.arrays import Pixels
from polyptrace.core.errors import UserError, warn
from polyptrace.data.crops.resize import resize_frames

#: Pixels of crops, RGB, as torch or NumPy.
CropArray = Tensor | Pixels


@dataclass(frozen=True)
class Preprocess:
    """An encoder's input: square frames of `size` pixels, RGB in [0, 1], normalised as (value - mean) / std.

    A `flexible` encoder takes crops that are smaller than `size` at their own size.
    """

    size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    flexible: bool = False


#: The transform that the published comparison used for every model, and that of our own encoders.
RELEASE = Preprocess(232, (0.45, 0.45, 0.45), (0.225, 0.225, 0.225))

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def choose_preprocess(own: Preprocess, choice: str) -> Preprocess:
    """`own` (that of the pretrained weights), `imagenet` (its size, ImageNet's normalisation) or `release`."""
    match choice:
        case "own":
            return own
        case "imagenet":
            return replace(own, mean=IMAGENET_MEAN, std=IMAGENET_STD)
        case "release":
            return replace(RELEASE, flexible=own.flexible)
        case _:
            raise UserError(f"--embed.preprocess: {choice!r} is unknown -> give own, imagenet or release")


class Normalise(nn.Module):
    """Pixels in [0, 255] to (value / 255 - mean) / std; the constants stay on the device, so nothing is copied."""

    scale: Tensor
    shift: Tensor

    def __init__(self, preprocess: Preprocess) -> None:
        super().__init__()
        scale = torch.tensor([1 / (255 * s) for s in preprocess.std])
        shift = torch.tensor([-m / s for m, s in zip(preprocess.mean, preprocess.std, strict=True)])
        self.register_buffer("scale", scale[:, None, None], persistent=False)
        self.register_buffer("shift", shift[:, None, None], persistent=False)

    def frames(self, crops: Tensor) -> Tensor:
        """Crops (n, H, W, 3) uint8 as float pixels (n, 3, H, W), with channels last in memory."""
        return crops.permute(0, 3, 1, 2).to(self.scale.dtype)

    def forward(self, pixels: Tensor) -> Tensor:
        """Normalised frames (n, 3, H, W) of float pixels (n, 3, H, W)."""
        return torch.addcmul(self.shift, pixels, self.scale)


class CropPreparation(nn.Module):
    """`prepare_crops` as a module that can be compiled and captured in a CUDA graph."""

    def __init__(self, preprocess: Preprocess, *, enlarge: bool = False) -> None:
        super().__init__()
        self.preprocess, self.enlarge = preprocess, enlarge
        self.normalise = Normalise(preprocess)

    def forward(self, crops: Tensor) -> Tensor:
        """Floats (…, 3, H, W) of crops (…, S, S, 3) uint8; crops that are not square are stretched."""
        side = input_size(max(crops.shape[-3:-1]), self.preprocess, enlarge=self.enlarge)
        pixels = resize_frames(self.normalise.frames(crops.flatten(0, -4)), side)  # (n, 3, H, W)
        frames: Tensor = self.normalise(pixels)
        return frames.reshape(*crops.shape[:-3], 3, side, side)


def prepare_crops(crops: Tensor, preprocess: Preprocess) -> Tensor:
    """Crops (B, L, S, S, 3) uint8 as normalised floats (B, L, 3, H, W) on the same device."""
    if crops.dtype != torch.uint8 or crops.ndim < 4 or crops.shape[-1] != 3:
        raise UserError(f"crops: {crops.dtype} of shape {tuple(crops.shape)} -> give uint8 of shape (…, H, W, 3)")
    return CropPreparation(preprocess).to(crops.device)(crops)


def as_frames(frames: Tensor, preprocess: Preprocess) -> Tensor:
    """The input of an encoder as prepared floats: uint8 crops (B, L, S, S, 3) are prepared, floats are kept.

    Floats must be prepared already. A warning is given if all of them are in [0, 1], because pixels that were scaled
    but not normalised give wrong vectors. It is not an error, because prepared values of bright pixels lie there too.
    """
    if frames.dtype == torch.uint8:
        return prepare_crops(frames, preprocess)
    if not frames.is_floating_point():
        raise UserError(f"frames: {frames.dtype} -> give uint8 crops (B, L, S, S, 3), or floats from prepare_crops")
    if _looks_unnormalised(frames):
        warn("frames: all in [0, 1], probably not normalised -> give uint8 crops, or floats from prepare_crops")
    return frames


def input_size(stored: int, preprocess: Preprocess, *, enlarge: bool = False) -> int:
    """The side at which an encoder takes crops of `stored` pixels; an error if they would have to be enlarged."""
    if stored < preprocess.size and not enlarge:
        if preprocess.flexible:
            return stored
        raise UserError(
            f"crops: {stored} pixels, but the encoder takes {preprocess.size} -> cut them with --crops.size"
            f" {preprocess.size}, or allow enlarged crops with --embed.enlarge true"
        )
    return preprocess.size


def _looks_unnormalised(frames: Tensor) -> bool:
    if torch.compiler.is_compiling() or frames.is_meta or not frames.numel():
        return False
    low, high = frames.aminmax()
    return bool((low >= 0) & (high <= 1) & (low < high))
