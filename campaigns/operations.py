"""Intercepts the operations with which a command changes files, to kill it there or to let the operation fail.

Operations are counted below one folder only, so that the caches of libraries do not matter.
"""

import builtins
import io
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from polyptrace.core import files

#: Called with the number of an operation from 1, its kind, its path and whether it is over.
Action = Callable[[int, str, str, bool], None]

FUNCTIONS = {
    "rename": (os, ("rename", "replace")),
    "exchange": (files, ("_exchange",)),
    "fsync": (os, ("fsync",)),
    "make": (os, ("mkdir",)),
    "remove": (os, ("unlink", "rmdir")),
    "open": (builtins, ("open",)),
    "open ": (io, ("open",)),
}


def intercept(folder: Path, action: Action) -> None:
    """Calls `action` before and after each operation below `folder`, for the rest of this process."""
    lock, count = threading.Lock(), 0

    def wrap(kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any, **named: Any) -> Any:
            nonlocal count
            path = _path(words[0], named)
            if not path.startswith(str(folder)) or (kind == "open" and not _writes(words, named)):
                return function(*words, **named)
            with lock:
                count += 1
                number = count
            action(number, kind, path, False)
            result = function(*words, **named)
            action(number, kind, path, True)
            return result

        return call

    for kind, (module, names) in FUNCTIONS.items():
        for name in names:
            setattr(module, name, wrap(kind.strip(), getattr(module, name)))


def without_exchange() -> None:
    """Lets this process run as on a system that cannot exchange two names."""
    files._exchange = lambda *_: False


def _path(target: Any, named: dict[str, Any]) -> str:
    descriptor = named.get("dir_fd") if isinstance(target, str | bytes | os.PathLike) else target
    if isinstance(descriptor, int):
        try:
            opened = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        except OSError:
            return ""
        return opened if descriptor == target else f"{opened}/{os.fsdecode(target)}"
    return os.path.abspath(os.fsdecode(target))  # noqa: PTH100


def _writes(words: tuple[Any, ...], named: dict[str, Any]) -> bool:
    mode = named.get("mode", words[1] if len(words) > 1 else "r")
    return any(letter in mode for letter in "wax+")
