"""The one resize of frames: bilinear with antialiasing, as `prepare` resizes crops."""

import torch
from torch import Tensor
from torch.nn import functional

#: Crops that are converted to floats at a time.
CHUNK = 128


def resize_frames(frames: Tensor, size: int) -> Tensor:
    """Frames (n, 3, H, W) as squares (n, 3, size, size), in their own type; not copied if they have that size."""
    if frames.shape[-2:] == (size, size):
        return frames
    return functional.interpolate(frames, size=(size, size), mode="bilinear", antialias=True)


def resize_crops(crops: Tensor, size: int) -> Tensor:
    """uint8 crops (n, H, W, 3) as uint8 squares (n, size, size, 3), rounded to the nearest grey level."""
    if crops.shape[1:3] == (size, size):
        return crops
    return torch.cat([_resized(part, size) for part in crops.split(CHUNK)])


def _resized(crops: Tensor, size: int) -> Tensor:
    frames = resize_frames(crops.permute(0, 3, 1, 2).to(torch.float32), size)
    return frames.round_().clamp_(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()
