"""Exceptions and warnings that are meant for the user."""

import inspect
import warnings


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
