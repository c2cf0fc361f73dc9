"""JPEG and PNG, decoded and encoded.

simplejpeg decodes plain JPEGs (grey or YCbCr, without Exif or Adobe markers), the fastest way and optionally at a half,
a quarter or an eighth of the size. torchcodec decodes everything else, including Exif rotation and Adobe colours;
torchvision replaces it where torchcodec is not installed. All of them use libjpeg-turbo and return the same pixels.
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

#: The decoder in use, for provenance.
JPEG_DECODER = f"libjpeg-turbo ({_LIBRARY if _simplejpeg is None else 'simplejpeg'})"

JPEG_START = b"\xff\xd8\xff"
#: Segment markers of a JPEG: start of scan, Exif, Adobe, and the baseline, extended and progressive frame headers.
SCAN, EXIF, ADOBE, FRAMES = 0xDA, 0xE1, 0xEE, (0xC0, 0xC1, 0xC2)


def decode(content: bytes | bytearray, shrink: int = 1) -> Tensor:
    """A JPEG or PNG as uint8 RGB (3, H, W); a damaged one raises RuntimeError or ValueError.

    With `shrink` 2, 4 or 8 a plain JPEG (see `plain_size`) is decoded that many times smaller; sides are rounded up.
    """
    if size := plain_size(content):
        with suppress(ValueError):  # torchcodec decodes it, or reports what is wrong
            width, height = (-(-side // shrink) for side in size)
            pixels = _simplejpeg.decode_jpeg(content, "RGB", min_height=height, min_width=width)
            return torch.from_numpy(pixels).permute(2, 0, 1)
    picture: Tensor
    data = _as_tensor(content)  # torchcodec would convert bytes with warnings disabled, which is not thread-safe
    if _decoders is None:
        picture = _io.decode_image(data, mode=_io.ImageReadMode.RGB)
    elif content[:3] == JPEG_START:
        picture = _decoders.decode_jpeg(data, mode="RGB")
    else:
        picture = _decoders.decode_image(data, mode="RGB")
    return picture


def plain_size(content: bytes | bytearray) -> tuple[int, int] | None:
    """Width and height of a plain JPEG, which can be decoded smaller; None for every other image."""
    segments = _segments(content) if _simplejpeg is not None else {}
    frame = next((segments[marker] for marker in FRAMES if marker in segments), 0)
    components = content[frame + 9 : frame + 10]
    if SCAN not in segments or EXIF in segments or ADOBE in segments or not frame or components not in (b"\1", b"\3"):
        return None
    return int.from_bytes(content[frame + 7 : frame + 9], "big"), int.from_bytes(content[frame + 5 : frame + 7], "big")


def decode_jpegs(contents: Sequence[bytes | bytearray], device: torch.device) -> list[Tensor]:
    """Several JPEGs as uint8 RGB (3, H, W) on a GPU, decoded by nvJPEG."""
    pictures: list[Tensor]
    tensors = [_as_tensor(content) for content in contents]
    if _decoders is not None:
        pictures = _decoders.decode_jpeg(tensors, device=device)
    else:
        pictures = _io.decode_jpeg(tensors, mode=_io.ImageReadMode.RGB, device=device)
    return pictures


def encode_jpeg(picture: Tensor, quality: int = 90) -> bytes:
    """A uint8 image (3, H, W) as JPEG."""
    if _decoders is not None:
        data = _encoders.JpegEncoder(picture).to_tensor(quality=quality)
    else:
        data = _io.encode_jpeg(picture, quality=quality)
    content: bytes = data.cpu().numpy().tobytes()
    return content


def _segments(content: bytes | bytearray) -> dict[int, int]:
    """Offset of each segment of a JPEG's header by its marker, up to the start of scan."""
    offsets: dict[int, int] = {}
    offset = 2 if content[:3] == JPEG_START else len(content)
    while offset + 4 <= len(content) and content[offset] == 0xFF and SCAN not in offsets:
        offsets[content[offset + 1]] = offset
        offset += 2 + int.from_bytes(content[offset + 2 : offset + 4], "big")
    return offsets


def _as_tensor(content: bytes | bytearray) -> Tensor:
    """The bytes as a tensor; a bytearray is not copied. torch requires writable memory."""
    if not content:
        return torch.empty(0, dtype=torch.uint8)
    return torch.frombuffer(content if isinstance(content, bytearray) else bytearray(content), dtype=torch.uint8)
