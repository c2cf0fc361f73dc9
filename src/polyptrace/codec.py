"""JPEG and PNG, in and out, through libjpeg-turbo: torchcodec's where it is installed, else torchvision's.

torchvision has deprecated its own since 0.29; older installations have nothing else. Both give the same pixels.
"""

import importlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

try:
    _decoders: Any = importlib.import_module("torchcodec.decoders")
    _encoders: Any = importlib.import_module("torchcodec.encoders")
    DECODER = "libjpeg-turbo (torchcodec)"
except (ImportError, OSError, RuntimeError):
    _decoders, _encoders = None, None
    _io: Any = importlib.import_module("torchvision.io")
    DECODER = "libjpeg-turbo (torchvision)"

JPEG = b"\xff\xd8\xff"  # how one begins


def decode(content: bytes | bytearray) -> Tensor:
    """A JPEG or PNG as uint8 RGB (3, H, W); a RuntimeError or ValueError says what is wrong with it."""
    picture: Tensor
    data = _as_tensor(content)  # of bytes torchcodec would make it with warnings off, which threads must not do
    if _decoders is None:
        picture = _io.decode_image(data, mode=_io.ImageReadMode.RGB)
    elif content[:3] == JPEG:
        picture = _decoders.decode_jpeg(data, mode="RGB")
    else:
        picture = _decoders.decode_image(data, mode="RGB")
    return picture


def decode_jpegs(contents: Sequence[bytes | bytearray], device: torch.device) -> list[Tensor]:
    """Several JPEGs as uint8 RGB (3, H, W) on a GPU, by nvJPEG."""
    pictures: list[Tensor]
    tensors = [_as_tensor(content) for content in contents]
    if _decoders is not None:
        pictures = _decoders.decode_jpeg(tensors, device=device)
    else:
        pictures = _io.decode_jpeg(tensors, mode=_io.ImageReadMode.RGB, device=device)
    return pictures


def encode_jpeg(picture: Tensor, quality: int = 90) -> bytes:
    """A uint8 picture (3, H, W) as JPEG."""
    if _decoders is not None:
        data = _encoders.JpegEncoder(picture).to_tensor(quality=quality)
    else:
        data = _io.encode_jpeg(picture, quality=quality)
    content: bytes = data.cpu().numpy().tobytes()
    return content


def _as_tensor(content: bytes | bytearray) -> Tensor:
    """The bytes as a tensor, of a bytearray over the same memory: torch takes no memory that cannot be written to."""
    if not content:
        return torch.empty(0, dtype=torch.uint8)
    return torch.frombuffer(content if isinstance(content, bytearray) else bytearray(content), dtype=torch.uint8)
