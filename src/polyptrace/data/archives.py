"""Files out of tar archives as downloaded, in one pass and without unpacking them.

Nothing is ever written to disk, so an archive cannot place a file anywhere; links, devices and names that leave the
archive are refused all the same, since no published dataset has them.
"""

import gzip
import tarfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from polyptrace.core.errors import UserError

ENDINGS = (".tar.gz", ".tgz", ".tar")
LARGEST = 256 * 2**20  # bytes of one member: more is no picture and no annotation
_BUFFER = 2**20


def pictures(
    path: Path, members: Collection[str], go_on: Callable[[], None] = lambda: None
) -> Iterator[tuple[str, bytes]]:
    """Yields (member, its bytes) for the wanted members, in the archive's order; members it lacks do not come.

    The pass ends with the last wanted member. `go_on` is called at every member, wanted or not: what it raises stops.
    """
    wanted = set(members)
    for name, content in _files(path, wanted.__contains__) if wanted else ():
        go_on()
        if content is not None:
            yield name, content
            wanted.remove(name)
        if not wanted:
            return


def files(path: Path, ending: str) -> Iterator[tuple[str, bytes]]:
    """Yields (member, its bytes) for every file with this ending, in the archive's order."""
    for name, content in _files(path, lambda name: name.lower().endswith(ending)):
        if content is not None:
            yield name, content


def first_file(path: Path) -> str:
    """The name of an archive's first file, to see in which folder its files are; "" if there is none."""
    return next((name for name, _ in _files(path, lambda _: False)), "")


def _files(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes | None]]:
    """Names of all files, with the bytes of the wanted ones; what is neither file nor folder is refused."""
    try:
        with _stream(path) as stream, tarfile.open(fileobj=stream, mode="r|", bufsize=_BUFFER) as archive:
            remembered: Any = archive
            for entry in archive:
                name = _plain(entry, path)
                if entry.isreg():
                    yield name, _content(archive, entry, path) if wanted(name) else None
                remembered.members.clear()  # or the pass would hold every entry in memory
            if stream.tell() < archive.offset + tarfile.BLOCKSIZE:
                raise tarfile.ReadError("it ends early")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file -> check the path") from None
    except (tarfile.TarError, EOFError, OSError, zlib.error, ValueError, OverflowError) as error:
        raise UserError(f"{path}: damaged or not a tar archive ({error}) -> download it again") from None


@contextmanager
def _stream(path: Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """The archive's bytes; unlike tarfile's own stream, gzip notices when a file ends early."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not packed:
            yield file
            return
        with gzip.GzipFile(fileobj=file) as unpacked:
            yield unpacked


def _plain(entry: tarfile.TarInfo, path: Path) -> str:
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
