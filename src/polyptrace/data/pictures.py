"""Pictures: decoded once each, by the fastest decoder for where they lie.

A file is a JPEG or PNG, a member of an archive (`frames.tar.gz::000-001_7.jpg`), or a video (its frame is the row's
frame index). Archives and videos are read in one pass, in order.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from polyptrace.core import codec
from polyptrace.core.codec import ALL, Need
from polyptrace.core.errors import UserError
from polyptrace.data import archives, videos

Content = bytes | bytearray
VIDEO_SUFFIXES = (".mp4", ".mov", ".mkv", ".avi", ".m4v", ".webm", ".mpg", ".mpeg")
ARCHIVE_MARK = "::"
JPEG, JPEG_PIXELS, JPEG_END = b"\xff\xd8", b"\xff\xda", b"\xff\xd9"  # how one begins, its pixels, and how it ends
VIDEO_ENDS = "the video ends before this frame -> is it complete?"


class Wanted(NamedTuple):
    """A picture that is to be read."""

    file: str
    frame: int
    need: Need = ALL
    size: tuple[int, int] = (0, 0)  # width and height that it is said to have; without them it is not made smaller


class PictureError(Exception):
    """A picture that is missing or cannot be decoded; says what to do."""


def is_video(file: str) -> bool:
    """Whether a row's file is a video rather than a picture."""
    return file.lower().endswith(VIDEO_SUFFIXES)


def container(file: str) -> str:
    """What has to be opened once to read a file: an archive or a video; "" for a picture of its own."""
    return file if is_video(file) else file.partition(ARCHIVE_MARK)[0] if ARCHIVE_MARK in file else ""


def inside(root: Path, file: str) -> Path:
    """The path of a file below `root`; a name that would leave it is refused."""
    if not file or file.startswith("/") or ".." in file.split("/") or "\0" in file:
        raise UserError(f"{file!r}: leaves its folder -> picture names are relative paths below {root}")
    return root / file


def read_pictures(
    root: Path,
    wanted: list[Wanted],
    device: torch.device | None = None,
    go_on: Callable[[], None] = lambda: None,
) -> Iterator[tuple[Wanted, Tensor | PictureError]]:
    """Each wanted picture as uint8 RGB (3, H, W), or what went wrong; `need` then says by what it may be smaller.

    All of them lie in one container, or each is a picture file of its own; of those a device, if one is given, decodes
    the JPEGs together and keeps them. `go_on` is called at every picture, also at those that are passed over on the
    way through a container: what it raises stops.
    """
    holder = container(wanted[0].file)
    if not holder:
        contents: Iterable[Content | PictureError]
        contents = (_read(inside(root, picture.file)) for picture in wanted)  # one by one: decoded from the cache
        together: dict[int, Tensor] = {}
        if device:
            contents = list(contents)
            together = _decode_together(contents, device)
        for place, (picture, content) in enumerate(zip(wanted, contents, strict=True)):
            go_on()
            yield (picture, together[place]) if place in together else _decoded(content, picture)
    elif is_video(holder):
        by_frame = {picture.frame: picture for picture in wanted}
        for frame, decoded in videos.frames(inside(root, holder), sorted(by_frame), go_on):
            yield by_frame.pop(frame), decoded
        for picture in by_frame.values():
            yield picture, PictureError(VIDEO_ENDS)
    else:
        by_member: dict[str, list[Wanted]] = {}  # one picture may be several frames
        for picture in wanted:
            by_member.setdefault(picture.file.partition(ARCHIVE_MARK)[2], []).append(picture)
        for member, content in archives.pictures(inside(root, holder), set(by_member), go_on):
            for picture in by_member.pop(member):
                yield _decoded(content, picture)
        for picture in chain.from_iterable(by_member.values()):
            yield picture, PictureError("picture is not in its archive -> is the archive complete?")


def _read(path: Path) -> Content | PictureError:
    try:
        with path.open("rb", buffering=0) as file:
            content = bytearray(os.fstat(file.fileno()).st_size)
            return content if file.readinto(content) == len(content) else path.read_bytes()
    except FileNotFoundError:
        return PictureError("picture is missing -> restore it, or leave its rows out with --skip-bad")
    except OSError as error:
        return PictureError(f"picture cannot be read ({error}) -> restore it, or use --skip-bad")


def _decode_together(contents: list[Content | PictureError], device: torch.device) -> dict[int, Tensor]:
    """The JPEGs by their places, decoded by nvJPEG; none where one of them is broken, and each has to be tried."""
    jpegs = {
        place: content
        for place, content in enumerate(contents)
        if not isinstance(content, PictureError) and content[:2] == JPEG and _ends(content)
    }
    try:
        return dict(zip(jpegs, codec.decode_jpegs(list(jpegs.values()), device), strict=True)) if jpegs else {}
    except RuntimeError:
        if device.type == "cuda":  # pictures before the broken one may still be written to memory that is free again
            torch.cuda.synchronize(device)
        return {}


def _decoded(content: Content | PictureError, wanted: Wanted) -> tuple[Wanted, Tensor | PictureError]:
    if isinstance(content, PictureError):
        return wanted, content
    if wanted.need.shrink > 1 and codec.plain_size(content) != wanted.size:
        wanted = wanted._replace(need=ALL)  # half of a picture of twice its size would pass for the picture
    try:
        return wanted, decode(content, wanted.need)
    except PictureError as error:
        return wanted, error


def decode(content: Content, need: Need = ALL) -> Tensor:
    """What is needed of a JPEG or PNG, as uint8 RGB (3, H, W)."""
    if content[:2] == JPEG and not _ends(content):
        raise PictureError("picture is truncated (no JPEG end marker) -> restore it, or use --skip-bad")
    try:
        picture = codec.decode(content, need)
    except (RuntimeError, ValueError, MemoryError) as error:
        reason = str(error).partition("\n")[0]
        raise PictureError(f"picture cannot be decoded ({reason}) -> restore it, or use --skip-bad") from None
    if picture.ndim != 3:
        raise PictureError(
            f"picture holds {len(picture)} pictures, one after the other -> restore it, or use --skip-bad"
        )
    return picture


def _ends(content: Content) -> bool:
    """libjpeg fills what a truncated file lacks with grey and only warns: look for the end marker ourselves.

    Pixels never look like one; a small picture in the header has one too, but before the pixels begin. Some devices
    write more after it.
    """
    return JPEG_END in content[-64:] or content.rfind(JPEG_END) > content.rfind(JPEG_PIXELS)
