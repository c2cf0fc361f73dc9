"""Exceptions and warnings that are meant for the user."""


class UserError(Exception):
    """An error that the user can fix. The message says what is wrong, where, and what to do.

    The command line prints it without a traceback and exits with code 2.
    """


class PolyptraceWarning(UserWarning):
    """A warning for the user. The command line prints these and no other library's warnings."""
