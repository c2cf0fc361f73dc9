"""JPEG and PNG, in and out: JPEGs come in through simplejpeg, the rest goes through torchcodec, else torchvision.

All of them hold libjpeg-turbo and give the same pixels; simplejpeg takes a twentieth less time for a crop. It gets
plain JPEGs only: the others know how to turn a picture as its Exif says, and what Adobe's colours are. What it refuses
they take, or say what is wrong. torchvision has deprecated its own since 0.29; older installations have nothing else.

Of a plain JPEG only the rows that are needed are decoded. It is read from the top, and its height is a number in its
header: with a smaller one there, decoding ends earlier, and the rows above are the same.
"""

import importlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
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
#: Markers of a JPEG's header: pixels begin; Exif or the like; Adobe's; three kinds of frame, the last in many scans.
PIXELS, EXIF, ADOBE, BASELINE, EXTENDED, PROGRESSIVE = 0xDA, 0xE1, 0xEE, 0xC0, 0xC1, 0xC2
ROWS_BELOW = 8  # the colours of the last row are mixed with those of the next, which may be four rows high


class Need(NamedTuple):
    """What is needed of a picture. With less than all of it, a plain JPEG is decoded faster; others are as they are."""

    shrink: int = 1  #: it may be smaller: by 2, 4 or 8
    rows: int = 0  #: so many from the top, those below may be black; 0: all


ALL = Need()


class _Header(NamedTuple):
    """What the header of a plain JPEG says, and where its height is written."""

    width: int
    height: int
    height_at: int
    from_the_top: bool  # one scan holds all colours of a row before the next row begins


def decode(content: bytes | bytearray, need: Need = ALL) -> Tensor:
    """A JPEG or PNG as uint8 RGB (3, H, W); a RuntimeError or ValueError says what is wrong with it."""
    if _simplejpeg is not None and (header := _plain_header(content)):
        with suppress(ValueError):
            return _decode_plain(content, header, need)
    picture: Tensor
    data = _as_tensor(content)  # of bytes torchcodec would make it with warnings off, which threads must not do
    if _decoders is None:
        picture = _io.decode_image(data, mode=_io.ImageReadMode.RGB)
    elif content[:3] == JPEG:
        picture = _decoders.decode_jpeg(data, mode="RGB")
    else:
        picture = _decoders.decode_image(data, mode="RGB")
    return picture


def plain_size(content: bytes | bytearray) -> tuple[int, int] | None:
    """Width and height that the header of a JPEG says which can be decoded smaller; None of all other pictures."""
    header = _plain_header(content) if _simplejpeg is not None else None
    return (header.width, header.height) if header else None


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


def _decode_plain(content: bytes | bytearray, header: _Header, need: Need) -> Tensor:
    end = need.rows + ROWS_BELOW * need.shrink
    if need.rows and end < header.height and header.from_the_top:
        content = bytearray(content)
        content[header.height_at : header.height_at + 2] = end.to_bytes(2, "big")
    else:
        end = header.height
    height, width, rows = (-(-side // need.shrink) for side in (header.height, header.width, end))
    pixels = np.empty((height, width, 3), np.uint8)
    pixels[rows:] = 0
    _simplejpeg.decode_jpeg(
        content,
        "RGB",
        min_height=rows,
        min_width=width,
        buffer=pixels[:rows],
        strict=end == header.height,  # or it complains about the codes that are left
    )
    return torch.from_numpy(pixels).permute(2, 0, 1)


def _plain_header(content: bytes | bytearray) -> _Header | None:
    """The header of a JPEG that is grey or in colours as usual, and has neither Exif nor Adobe's marker."""
    places = _segments(content)
    frame = next((places[kind] for kind in (BASELINE, EXTENDED, PROGRESSIVE) if kind in places), 0)
    colours = content[frame + 9 : frame + 10]
    if PIXELS not in places or EXIF in places or ADOBE in places or not frame or colours not in (b"\1", b"\3"):
        return None
    height, width = (int.from_bytes(content[at : at + 2], "big") for at in (frame + 5, frame + 7))
    of_scan = content[places[PIXELS] + 4 : places[PIXELS] + 5]
    return _Header(width, height, frame + 5, PROGRESSIVE not in places and of_scan == colours)


def _segments(content: bytes | bytearray) -> dict[int, int]:
    """Where the parts of a JPEG's header begin, by their markers, down to where the pixels begin."""
    places: dict[int, int] = {}
    place = 2 if content[:3] == JPEG else len(content)
    while place + 4 <= len(content) and content[place] == 0xFF and PIXELS not in places:
        places[content[place + 1]] = place
        place += 2 + int.from_bytes(content[place + 2 : place + 4], "big")
    return places


def _as_tensor(content: bytes | bytearray) -> Tensor:
    """The bytes as a tensor, of a bytearray over the same memory: torch takes no memory that cannot be written to."""
    if not content:
        return torch.empty(0, dtype=torch.uint8)
    return torch.frombuffer(content if isinstance(content, bytearray) else bytearray(content), dtype=torch.uint8)
