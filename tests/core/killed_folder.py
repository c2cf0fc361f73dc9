"""Runs code and kills this process with SIGKILL before or after its n-th change of a folder's name or content.

    python killed_folder.py N before|after exchange|renames CODE...

`renames` stands for a system without renameat2. Prints nothing; the exit code is 0 if there are fewer than N changes.
"""

import os
import pathlib
import shutil
import signal
import sys
from collections.abc import Callable
from typing import Any

from polyptrace.core import files

number, moment, way, code = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
count = 0


def aimed(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        global count
        count += 1
        aim = count == number
        if aim and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*arguments, **named)
        if aim:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return call


def half_removed(folder: Any, ignore_errors: bool = False) -> None:  # noqa: ARG001
    """Removes one file at a time, so that a kill leaves the rest."""
    for path in sorted(pathlib.Path(folder).rglob("*"), reverse=True):
        aimed(os.rmdir if path.is_dir() else os.unlink)(path)
    if pathlib.Path(folder).exists():
        pathlib.Path(folder).rmdir()


pathlib.Path.rename = aimed(pathlib.Path.rename)  # type: ignore[method-assign]
files._exchange = aimed(files._exchange) if way == "exchange" else lambda *_: False
shutil.rmtree = half_removed  # type: ignore[assignment]
exec(code)
