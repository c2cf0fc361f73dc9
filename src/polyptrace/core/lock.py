"""Which process owns an output: the lock of an output folder, and the owner's tag in the names of temporary files.

The operating system releases a lock when its process ends, so a killed process never blocks the next one. The lock file
only names the holder. On a file system without locks, the named process is looked up instead.
"""

import errno
import fcntl
import hashlib
import os
import platform
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from polyptrace.core.errors import UserError

#: A tag in a file name: hash of the host's name, process id, and start of the process (ids are used again).
TAG = re.compile(r"\.([0-9a-f]{8})-(\d+)-(\d+)\.")
UNWRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)

_held: set[Path] = set()  # lock files of this process, which the operating system would let it lock again


class InUseError(UserError):
    """Another process writes to the same output."""


@contextmanager
def lock(out: Path) -> Iterator[None]:
    """Holds the lock file `.NAME.lock` beside an output; an error that names the holder if it is held already."""
    resolved = out.resolve()
    path = resolved.with_name(f".{resolved.name}.lock")
    if path in _held:
        raise _in_use(out, _holder())  # opening and closing the file would release the lock
    descriptor = _acquire(out, path)
    _held.add(path)
    try:
        yield
    finally:
        _held.remove(path)
        if descriptor is not None:
            if _is_at(path, descriptor):  # not moved away with its folder
                path.unlink(missing_ok=True)
            os.close(descriptor)


def _acquire(out: Path, path: Path) -> int | None:
    """The descriptor of the locked file. None where no file can be created: there, the first write is an error."""
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            if error.errno not in UNWRITABLE:
                raise
            _refuse_running(out, path)
            return None
        try:
            _lock_file(descriptor, out, path)
            if _is_at(path, descriptor):  # not removed by its last holder
                os.truncate(descriptor, 0)
                os.write(descriptor, f"{_holder()}\n.{owner_tag()}.\n".encode())
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether an open file is still the one at this path."""
    return path.exists() and os.path.samestat(path.stat(), os.fstat(descriptor))


def _lock_file(descriptor: int, out: Path, path: Path) -> None:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # not inherited by forked workers, unlike flock
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise _in_use(out, _read(path)) from None
        _refuse_running(out, path)  # the file system has no locks


def _refuse_running(out: Path, path: Path) -> None:
    """Raises an error if the process that a lock file names is running on this host."""
    content = _read(path)
    tag = TAG.search(content)
    if tag and tag[1] == _host() and not owner_ended(content):
        raise _in_use(out, content)


def _holder() -> str:
    return f"process {os.getpid()} on {platform.node()}, since {time.strftime('%Y-%m-%d %H:%M:%S%z')}"


def _read(path: Path) -> str:
    """The content of a lock file: its holder, and in the second line the holder's tag; empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _in_use(out: Path, content: str) -> InUseError:
    holder = content.partition("\n")[0] or "another process"
    return InUseError(f"{out}: in use by {holder} -> wait until it has ended or stop it, or use another output")


def owner_tag() -> str:
    """Identifies this process in the name of a temporary file."""
    state = _process_state(os.getpid())
    return f"{_host()}-{os.getpid()}-{state[1] if state else 0}"


def owner_ended(name: str) -> bool:
    """Whether the process whose tag is in a file name has ended; False if that is unknown, as for other hosts."""
    tag = TAG.search(name)
    if not tag or tag[1] != _host():
        return False
    try:
        os.kill(int(tag[2]), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:  # it runs, as another user
        pass
    state = _process_state(int(tag[2]))
    return state is not None and (state[0] in "ZX" or state[1] != int(tag[3]))


def _host() -> str:
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def _process_state(pid: int) -> tuple[str, int] | None:
    """State (Z: zombie) and start of a process, in clock ticks since the host's; None if unknown."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return fields[0], int(fields[19])
    except (OSError, ValueError, IndexError):
        return None
