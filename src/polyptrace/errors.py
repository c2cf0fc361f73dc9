"""The one exception for what a user can put right."""


class UserError(Exception):
    """Says what is wrong, where, and what to do; the command line prints it without a traceback."""
