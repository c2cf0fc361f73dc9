"""Very many small files, read with as few system calls as there can be: open, read, close."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from polyptrace.core.errors import UserError

LARGEST = 16 * 2**20  # bytes: no annotation of one frame is larger
_FIRST = 2**16


def read_small_files(folder: Path, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Yields (name, bytes) of files in one folder; a file that is no annotation by its size is an error."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        for name in names:
            file = os.open(name, os.O_RDONLY, dir_fd=handle)
            try:
                content = os.read(file, _FIRST)
                if len(content) == _FIRST:
                    content = _all(file, content, folder / name)
            finally:
                os.close(file)
            yield name, content
    except OSError as error:
        raise UserError(f"{folder / name}: cannot be read ({error.strerror}) -> restore it, or take it out") from None
    finally:
        os.close(handle)


def names_in(folder: Path, ending: str | tuple[str, ...]) -> list[str]:
    """Names of the files in a folder that end so, sorted."""
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if entry.name.endswith(ending) and entry.name[0] != ".")


def _all(file: int, content: bytes, path: Path) -> bytes:
    """The bytes of a file that goes on after its first ones."""
    parts = [content]
    while more := os.read(file, 2**20):
        parts.append(more)
        if len(parts) > LARGEST >> 20:
            raise UserError(f"{path}: is larger than {LARGEST >> 20} MiB -> not an annotation of one frame")
    return b"".join(parts)
