"""JPEG and PNG, in and out: JPEGs come in through simplejpeg, the rest goes through torchcodec, else torchvision.

All of them hold libjpeg-turbo and give the same pixels; simplejpeg takes a twentieth less time for a crop. It gets
plain JPEGs only: the others know how to turn a picture as its Exif says, and what Adobe's colours are. What it refuses
they take, or say what is wrong. torchvision has deprecated its own since 0.29; older installations have nothing else.
"""

import importlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

try:
    _decoders: Any = importlib.import_module("torchcodec.decoders")
    _encoders: Any = importlib.import_module("torchcodec.encoders")
    _LIBRARY = "torchcodec"
except (ImportError, OSError, RuntimeError):
    _decoders, _encoders = None, None
    _io: Any = importlib.import_module("torchvision.io")
    _LIBRARY = "torchvision"
try:
    _simplejpeg: Any = importlib.import_module("simplejpeg")
except (ImportError, OSError):
    _simplejpeg = None

#: What decodes, for provenance.
JPEG_DECODER = f"libjpeg-turbo ({_LIBRARY if _simplejpeg is None else 'simplejpeg'})"
PNG_DECODER = f"libpng ({_LIBRARY})"

JPEG = b"\xff\xd8\xff"  # how one begins
#: Markers of a JPEG's header: the pixels begin; Exif or the like; Adobe's; those that tell the number of colours.
PIXELS, EXIF, ADOBE, FRAMES = b"\xda", b"\xe1", b"\xee", (b"\xc0", b"\xc1", b"\xc2")


def decode(content: bytes | bytearray) -> Tensor:
    """A JPEG or PNG as uint8 RGB (3, H, W); a RuntimeError or ValueError says what is wrong with it."""
    if _simplejpeg is not None and _is_plain(content):
        with suppress(ValueError):
            return torch.from_numpy(_simplejpeg.decode_jpeg(content, "RGB")).permute(2, 0, 1)
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


def _is_plain(content: bytes | bytearray) -> bool:
    """Whether a JPEG is grey or in colours as usual, and has neither Exif nor Adobe's marker: a look at its header."""
    if content[:3] != JPEG:
        return False
    place = 2
    while content[place : place + 1] == b"\xff" and (marker := content[place + 1 : place + 2]) != PIXELS:
        if marker in (EXIF, ADOBE) or (marker in FRAMES and content[place + 9 : place + 10] not in (b"\1", b"\3")):
            return False
        place += 2 + int.from_bytes(content[place + 2 : place + 4], "big")
    return content[place + 1 : place + 2] == PIXELS


def _as_tensor(content: bytes | bytearray) -> Tensor:
    """The bytes as a tensor, of a bytearray over the same memory: torch takes no memory that cannot be written to."""
    if not content:
        return torch.empty(0, dtype=torch.uint8)
    return torch.frombuffer(content if isinstance(content, bytearray) else bytearray(content), dtype=torch.uint8)
