"""Exceptions and warnings that are meant for the user."""

import inspect
import os
import sysconfig
import traceback
import warnings
from pathlib import Path

_INSTALLED = (Path(__file__).parents[1], *map(sysconfig.get_path, ("stdlib", "purelib", "platlib")))
#: How the file names of code begin that is not the user's: this package, the standard library, installed packages.
_LIBRARIES = ("<", *(f"{folder}{os.sep}" for folder in _INSTALLED))


class UserError(Exception):
    """An error that the user can fix. The message says what is wrong, where, and what to do.

    The command line prints it without a traceback and exits with code 2.
    """


class PolyptraceWarning(UserWarning):
    """A warning for the user. The command line prints these and no other library's warnings."""


def warn(message: str) -> None:
    """Warns the user, at the line outside of this package that called it."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "polyptrace":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, PolyptraceWarning, stacklevel=level)


def failure_text(error: BaseException) -> str:
    """The type and the message of an exception, and the last line of the user's code that led to it."""
    lines = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith(_LIBRARIES)]
    text = f"{type(error).__name__}: {error}".removesuffix(": ")
    return f"{text}, at {lines[-1].filename}, line {lines[-1].lineno}" if lines else text
