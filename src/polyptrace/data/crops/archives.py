"""Files out of tar archives as downloaded, in one pass and without unpacking them.

Nothing is extracted to disk, so an archive cannot write anywhere. Links, devices and names that point outside the
archive are refused nevertheless: no published dataset contains them.
"""

import gzip
import tarfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from polyptrace.core.errors import UserError

LARGEST = 256 * 2**20  # bytes of one member; no picture or annotation file is larger
_BUFFER = 2**20


def read_members(
    path: Path, members: Collection[str], check_cancelled: Callable[[], None] = lambda: None
) -> Iterator[tuple[str, bytes]]:
    """Yields (member, content) of the requested members in the archive's order; missing members are not yielded.

    Reading stops after the last requested member. `check_cancelled` is called at every member, requested or not; an
    exception that it raises stops reading.
    """
    remaining = set(members)
    for name, content in _files(path, remaining.__contains__) if remaining else ():
        check_cancelled()
        if content is not None:
            yield name, content
            remaining.remove(name)
        if not remaining:
            return


def read_all(path: Path, ending: str) -> Iterator[tuple[str, bytes]]:
    """Yields (member, content) of every file with this ending, in the archive's order."""
    for name, content in _files(path, lambda name: name.lower().endswith(ending)):
        if content is not None:
            yield name, content


def first_file(path: Path) -> str:
    """Name of an archive's first file, which shows the folder of its files; "" if it has none."""
    return next((name for name, _ in _files(path, lambda _: False)), "")


def _files(path: Path, requested: Callable[[str], bool]) -> Iterator[tuple[str, bytes | None]]:
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


@contextmanager
def _stream(path: Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """The archive's bytes, decompressed; unlike tarfile's own stream, gzip detects a truncated file."""
    with path.open("rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not compressed:
            yield file
            return
        with gzip.GzipFile(fileobj=file) as decompressed:
            yield decompressed


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
        raise UserError(f"{path}: member {entry.name!r} has {entry.size:,} bytes -> too large for a picture; refused")
    file = archive.extractfile(entry)
    assert file is not None  # a regular file
    content = file.read()
    if len(content) != entry.size:
        raise UserError(f"{path}: ends inside member {entry.name!r} -> download it again")
    return content
