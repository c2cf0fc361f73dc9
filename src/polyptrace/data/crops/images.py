"""Images of boxes, each decoded once, wherever they are stored: in image files, tar archives or videos.

A box's file is a JPEG or PNG, a member of an archive (`frames.tar.gz::000-001_7.jpg`), or a video, in which the box's
frame index selects the frame. Archives and videos are read in one pass, in order.

Nothing of an archive is extracted to disk, so it cannot write anywhere. Links, devices and names that point outside are
refused nevertheless: no published dataset contains them.
"""

import gzip
import hashlib
import json
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from polyptrace.core import codec
from polyptrace.core.arrays import Strings
from polyptrace.core.errors import UserError
from polyptrace.data.crops.field import field_mask
from polyptrace.data.crops.videos import FramePosition, is_video, read_frames

ARCHIVE_MARK = "::"
JPEG_START, JPEG_SCAN, JPEG_END = b"\xff\xd8", b"\xff\xda", b"\xff\xd9"
EXIF = b"Exif\0\0"
VIDEO_ENDS = "the video ends before this frame -> check that the file is complete"
LARGEST = 256 * 2**20  # bytes of one member; no image or annotation file is larger
_BUFFER = 2**20


#: Why an image cannot be read, and what to do.
Problem = str


def container(file: str) -> str:
    """The archive or video that a file is read from; "" for an image file."""
    return file if is_video(file) else file.partition(ARCHIVE_MARK)[0] if ARCHIVE_MARK in file else ""


def files_hash(files: Iterable[str], root: Path) -> str:
    """Identifies image files, archives and videos by name, size and time of change, so that a new one is noticed."""
    digest = hashlib.sha256()
    for name in sorted({container(file) or file for file in files}):
        digest.update(_state(root, name))
    return digest.hexdigest()


def file_states(files: Strings, root: Path) -> NDArray[np.uint64]:
    """A number for each image (n,) that changes if its file, archive or video is replaced; never 0."""
    names = [container(file) or file for file in files]
    states = {
        name: int.from_bytes(hashlib.sha256(_state(root, name)).digest()[:8], "little") | 1
        for name in dict.fromkeys(names)
    }
    return np.array([states[name] for name in names], np.uint64)


def _state(root: Path, name: str) -> bytes:
    try:
        status = (root / name).stat()
        return json.dumps([name, status.st_size, status.st_mtime_ns]).encode()
    except (OSError, ValueError):  # missing files are reported when they are read
        return json.dumps([name]).encode()


def path_below(root: Path, file: str) -> Path:
    """The path of a file below `root`; a name that points outside is refused."""
    if not file:
        raise UserError(f"{root}: a box names no image -> give every box a file, relative to this folder")
    if file.startswith("/") or ".." in file.split("/") or "\0" in file:
        raise UserError(f"{file!r}: leaves its folder -> image names are relative paths below {root}")
    return root / file


def read_images(
    root: Path,
    images: list[tuple[str, int]],
    on_image: Callable[[FramePosition | None], None] = lambda _: None,
    fields: Path | None = None,
    start: FramePosition | None = None,
    device: torch.device | None = None,
) -> Iterator[tuple[str, int, Tensor | Problem]]:
    """Reads images (file, frame) that are all in one container, or all image files: uint8 RGB (3, H, W), or a problem.

    `on_image` is called at every image before it is yielded, and at those that are skipped inside an archive or video;
    an exception that it raises stops reading. In a video it receives the frame's position. If `fields` is given, images
    of a video are black outside of the endoscope's field, which is stored in this folder. Decoding of a video begins at
    the frame `start`. With a `device`, JPEG files are decoded together on that GPU.
    """
    shared = container(images[0][0])
    if not shared:
        contents = [_read_content(path_below(root, file)) for file, _ in images]
        decoded = _decode_together(contents, device) if device else {}
        for index, ((file, frame), content) in enumerate(zip(images, contents, strict=True)):
            on_image(None)
            yield file, frame, decoded[index] if index in decoded else decode_complete(content)
    elif is_video(shared):
        video = path_below(root, shared)
        missing = {frame: file for file, frame in images}
        field = field_mask(video, fields) if fields else None
        for position, picture in read_frames(video, sorted(missing), on_image, field, start):
            yield missing.pop(position.frame), position.frame, picture
        for frame, file in missing.items():
            yield file, frame, VIDEO_ENDS
    else:
        frames: dict[str, list[int]] = {}  # several frames may use the same image
        for file, frame in images:
            frames.setdefault(file, []).append(frame)
        members = {file.partition(ARCHIVE_MARK)[2]: file for file in frames}
        for member, stored in _archive_files(path_below(root, shared), members.__contains__):
            on_image(None)
            if stored is not None:
                file, result = members.pop(member), decode_complete(stored)
                yield from ((file, frame, result) for frame in frames[file])
            if not members:
                break
        problem = "image is not in its archive -> check that the archive is complete"
        yield from ((file, frame, problem) for file in members.values() for frame in frames[file])


def _decode_together(contents: list[bytes | Problem], device: torch.device) -> dict[int, Tensor]:
    """The JPEGs by index; empty if nvJPEG refuses one of them, so that each is decoded separately.

    Those that Exif data turn are left out, because nvJPEG ignores this.
    """
    jpegs = {
        index: content
        for index, content in enumerate(contents)
        if isinstance(content, bytes) and content[:2] == JPEG_START and not is_truncated(content)
        if not _is_turned(content)
    }
    try:
        return dict(zip(jpegs, codec.decode_jpegs(list(jpegs.values()), device), strict=True)) if jpegs else {}
    except RuntimeError:
        if device.type == "cuda":  # nvJPEG may still be writing earlier images to memory that is now free
            torch.cuda.synchronize(device)
        return {}


def _is_turned(content: bytes) -> bool:
    if content.find(EXIF, 0, content.find(JPEG_SCAN)) < 0:
        return False
    try:
        return codec.orientation(Image.open(BytesIO(content))) != 1
    except (OSError, ValueError, SyntaxError):  # damaged Exif data
        return True


def _read_content(path: Path) -> bytes | Problem:
    """The bytes of an image file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return "image is missing -> restore it, or exclude its rows with --skip-bad"
    except OSError as error:
        return f"image cannot be read ({error}) -> restore it, or use --skip-bad"


def decode_complete(content: bytes | Problem) -> Tensor | Problem:
    """A JPEG or PNG as uint8 RGB (3, H, W); an error if it is truncated or damaged."""
    if isinstance(content, Problem):
        return content
    if is_truncated(content):
        return "image is truncated (no JPEG end marker) -> restore it, or use --skip-bad"
    try:
        picture = codec.decode_image(content)
    except (RuntimeError, ValueError, MemoryError) as error:
        reason = str(error).partition("\n")[0]
        return f"image cannot be decoded ({reason}) -> restore it, or use --skip-bad"
    if picture.ndim != 3:
        return f"file holds {len(picture)} images -> replace it by one image, or use --skip-bad"
    return picture


def is_truncated(content: bytes) -> bool:
    """Whether a JPEG lacks its end marker; libjpeg fills the missing part with grey and only warns.

    Entropy-coded data never contains the marker. A thumbnail in the header does, but before the scan starts. Some
    devices append data after the marker.
    """
    if content[:2] != JPEG_START or JPEG_END in content[-64:]:
        return False
    return content.rfind(JPEG_END) <= content.rfind(JPEG_SCAN)


def read_all(path: Path, ending: str) -> Iterator[tuple[str, bytes]]:
    """Yields (member, content) of every file with this ending, in the archive's order."""
    for name, content in _archive_files(path, lambda name: name.lower().endswith(ending)):
        if content is not None:
            yield name, content


def first_file(path: Path) -> str:
    """Name of an archive's first file, which shows the folder of its files; "" if it has none."""
    return next((name for name, _ in _archive_files(path, lambda _: False)), "")


def _archive_files(path: Path, requested: Callable[[str], bool]) -> Iterator[tuple[str, bytes | None]]:
    """Names of all files, with the content of the requested ones; only regular files and folders are accepted."""
    try:
        with _stream(path) as stream, tarfile.open(fileobj=stream, mode="r|", bufsize=_BUFFER) as archive:
            entries: Any = archive
            for entry in archive:
                name = _checked_name(entry, path)
                if entry.isreg():
                    yield name, _content(archive, entry, path) if requested(name) else None
                entries.members.clear()  # tarfile would keep every entry in memory
            if stream.tell() < archive.offset + tarfile.BLOCKSIZE:
                raise tarfile.ReadError("it ends early")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file -> check the path") from None
    except (tarfile.TarError, EOFError, OSError, zlib.error, ValueError, OverflowError) as error:
        raise UserError(f"{path}: damaged or not a tar archive ({error}) -> download it again") from None


def _stream(path: Path) -> IO[bytes] | gzip.GzipFile:
    """The archive's bytes, decompressed; unlike tarfile's own stream, gzip detects a truncated file."""
    with path.open("rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
    return gzip.GzipFile(path) if compressed else path.open("rb")


def _checked_name(entry: tarfile.TarInfo, path: Path) -> str:
    if not (entry.isreg() or entry.isdir()):
        kind = "a link" if entry.issym() or entry.islnk() else "a device"
        raise UserError(f"{path}: member {entry.name!r} is {kind}, not a file -> refused; download the archive again")
    parts = PurePosixPath(entry.name).parts
    if entry.name.startswith("/") or ".." in parts or "\\" in entry.name:
        raise UserError(f"{path}: member {entry.name!r} leaves the archive -> refused; download the archive again")
    return str(PurePosixPath(entry.name))


def _content(archive: tarfile.TarFile, entry: tarfile.TarInfo, path: Path) -> bytes:
    if entry.size > LARGEST:
        raise UserError(f"{path}: member {entry.name!r} has {entry.size:,} bytes -> too large for an image; refused")
    file = archive.extractfile(entry)
    assert file is not None  # a regular file
    return file.read()
