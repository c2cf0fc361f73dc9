"""Pictures of boxes, each decoded once, wherever they are stored.

A box's file is a JPEG or PNG, a member of an archive (`frames.tar.gz::000-001_7.jpg`), or a video, in which the box's
frame index selects the frame. Archives and videos are read in one pass, in order.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from polyptrace.core import codec
from polyptrace.core.errors import UserError
from polyptrace.data.crops.archives import read_members
from polyptrace.data.crops.field import field_mask
from polyptrace.data.crops.videos import read_frames

VIDEO_SUFFIXES = (".mp4", ".mov", ".mkv", ".avi", ".m4v", ".webm", ".mpg", ".mpeg")
ARCHIVE_MARK = "::"
JPEG_START, JPEG_SCAN, JPEG_END = b"\xff\xd8", b"\xff\xda", b"\xff\xd9"
VIDEO_ENDS = "the video ends before this frame -> check that the file is complete"


class PictureRequest(NamedTuple):
    """A picture to read. `shrink` 2, 4 or 8 allows decoding it smaller; `size` is its stated (width, height)."""

    file: str
    frame: int
    shrink: int = 1
    size: tuple[int, int] = (0, 0)


class PictureError(Exception):
    """A picture is missing or cannot be decoded; the message says what to do."""


#: A request, as it was met, and its picture: uint8 RGB (3, H, W), or what went wrong.
PictureResult = tuple[PictureRequest, Tensor | PictureError]


def is_video(file: str) -> bool:
    """Whether a box's file is a video rather than a picture."""
    return file.lower().endswith(VIDEO_SUFFIXES)


def container(file: str) -> str:
    """The archive or video that a file is read from; "" for a picture file."""
    return file if is_video(file) else file.partition(ARCHIVE_MARK)[0] if ARCHIVE_MARK in file else ""


def files_hash(files: Iterable[str], root: Path) -> str:
    """Identifies picture files, archives and videos by name, size and time of change, so that a new one is noticed."""
    digest = hashlib.sha256()
    for name in sorted({container(file) or file for file in files}):
        try:
            status = (root / name).stat()
            digest.update(json.dumps([name, status.st_size, status.st_mtime_ns]).encode())
        except (OSError, ValueError):  # missing files are reported when they are read
            digest.update(json.dumps([name]).encode())
    return digest.hexdigest()


def path_below(root: Path, file: str) -> Path:
    """The path of a file below `root`; a name that points outside is refused."""
    if not file or file.startswith("/") or ".." in file.split("/") or "\0" in file:
        raise UserError(f"{file!r}: leaves its folder -> picture names are relative paths below {root}")
    return root / file


def read_pictures(
    root: Path,
    requests: list[PictureRequest],
    check_cancelled: Callable[[], None] = lambda: None,
    border: str = "keep",
) -> Iterator[PictureResult]:
    """Reads pictures that are all in one container, or all picture files.

    The `shrink` of a returned request is the factor that was applied. `check_cancelled` is called at every picture,
    including those that are skipped inside a container; an exception that it raises stops reading. With the `border`
    "blank", pictures of a video are black outside of the endoscope's field.
    """
    shared = container(requests[0].file)
    if not shared:
        for request in requests:
            check_cancelled()
            yield decode_request(read_content(path_below(root, request.file)), request)
    elif is_video(shared):
        by_frame = {request.frame: request for request in requests}
        video = path_below(root, shared)
        field = field_mask(video) if border == "blank" else None
        for frame, picture in read_frames(video, sorted(by_frame), check_cancelled, field):
            yield by_frame.pop(frame)._replace(shrink=1), picture
        for request in by_frame.values():
            yield request, PictureError(VIDEO_ENDS)
    else:
        by_member: dict[str, list[PictureRequest]] = {}  # several frames may use the same picture
        for request in requests:
            by_member.setdefault(request.file.partition(ARCHIVE_MARK)[2], []).append(request)
        for member, content in read_members(path_below(root, shared), set(by_member), check_cancelled):
            for request in by_member.pop(member):
                yield decode_request(content, request)
        for request in chain.from_iterable(by_member.values()):
            yield request, PictureError("picture is not in its archive -> check that the archive is complete")


def read_content(path: Path) -> bytes | PictureError:
    """The bytes of a picture file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return PictureError("picture is missing -> restore it, or exclude its rows with --skip-bad")
    except OSError as error:
        return PictureError(f"picture cannot be read ({error}) -> restore it, or use --skip-bad")


def decode_request(content: bytes | PictureError, request: PictureRequest) -> PictureResult:
    """Decodes a picture as requested."""
    if isinstance(content, PictureError):
        return request, content
    if request.shrink > 1 and codec.plain_size(content) != request.size:
        request = request._replace(shrink=1)  # half of a picture of twice the stated size would pass the size check
    try:
        return request, decode_picture(content, request.shrink)
    except PictureError as error:
        return request, error


def decode_picture(content: bytes, shrink: int = 1) -> Tensor:
    """A JPEG or PNG as uint8 RGB (3, H, W); raises PictureError."""
    if is_truncated(content):
        raise PictureError("picture is truncated (no JPEG end marker) -> restore it, or use --skip-bad")
    try:
        picture = codec.decode(content, shrink)
    except (RuntimeError, ValueError, MemoryError) as error:
        reason = str(error).partition("\n")[0]
        raise PictureError(f"picture cannot be decoded ({reason}) -> restore it, or use --skip-bad") from None
    if picture.ndim != 3:
        raise PictureError(f"file holds {len(picture)} pictures -> replace it by one picture, or use --skip-bad")
    return picture


def is_truncated(content: bytes) -> bool:
    """Whether a JPEG lacks its end marker; libjpeg fills the missing part with grey and only warns.

    Entropy-coded data never contains the marker. A thumbnail in the header does, but before the scan starts. Some
    devices append data after the marker.
    """
    if content[:2] != JPEG_START or JPEG_END in content[-64:]:
        return False
    return content.rfind(JPEG_END) <= content.rfind(JPEG_SCAN)
