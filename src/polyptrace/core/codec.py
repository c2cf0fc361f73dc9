"""JPEG and PNG, decoded and encoded.

torchcodec decodes images, with Exif rotation and Adobe colours; torchvision replaces it where torchcodec is not
installed. Both use libjpeg-turbo and return the same pixels.
"""

import importlib
from collections.abc import Sequence
from typing import Any

import torch
from PIL import ExifTags, Image
from torch import Tensor

try:
    _decoders: Any = importlib.import_module("torchcodec.decoders")
    _encoders: Any = importlib.import_module("torchcodec.encoders")
    _LIBRARY = "torchcodec"
except (ImportError, OSError, RuntimeError):
    _decoders, _encoders = None, None
    _io: Any = importlib.import_module("torchvision.io")
    _LIBRARY = "torchvision"

#: The decoder in use, for provenance.
JPEG_DECODER = f"libjpeg-turbo ({_LIBRARY})"


def decode_image(content: bytes | bytearray) -> Tensor:
    """A JPEG or PNG as uint8 RGB (3, H, W); a damaged one raises RuntimeError or ValueError."""
    picture: Tensor
    data = _as_tensor(content)  # torchcodec would convert bytes with warnings disabled, which is not thread-safe
    if _decoders is not None:
        picture = _decoders.decode_image(data, mode="RGB")
    else:
        picture = _io.decode_image(data, mode=_io.ImageReadMode.RGB, apply_exif_orientation=True)
        if picture.dtype == torch.uint16:  # of a PNG; rounded to 8 bits as torchcodec does
            picture = ((picture.int() + 128) // 257).byte()
    return picture


def decode_jpegs(contents: Sequence[bytes | bytearray], device: torch.device) -> list[Tensor]:
    """Several JPEGs as uint8 RGB (3, H, W) on a GPU, decoded by nvJPEG."""
    pictures: list[Tensor]
    tensors = [_as_tensor(content) for content in contents]
    if _decoders is not None:
        pictures = _decoders.decode_jpeg(tensors, device=device)
    else:
        pictures = _io.decode_jpeg(tensors, mode=_io.ImageReadMode.RGB, device=device)
    return pictures


def orientation(picture: Image.Image) -> int:
    """How Exif data turn an image for display: 1 if not at all, 5 to 8 if width and height are exchanged."""
    return int(picture.getexif().get(ExifTags.Base.Orientation, 1))


def encode_jpeg(picture: Tensor, quality: int = 90) -> bytes:
    """A uint8 image (3, H, W) as JPEG."""
    if _decoders is not None:
        data = _encoders.JpegEncoder(picture).to_tensor(quality=quality)
    else:
        data = _io.encode_jpeg(picture, quality=quality)
    content: bytes = data.cpu().numpy().tobytes()
    return content


def _as_tensor(content: bytes | bytearray) -> Tensor:
    """The bytes as a tensor; a bytearray is not copied. torch requires writable memory."""
    if not content:
        return torch.empty(0, dtype=torch.uint8)
    return torch.frombuffer(content if isinstance(content, bytearray) else bytearray(content), dtype=torch.uint8)
