"""Commands in the process of the test."""

import pytest

from polyptrace.cli import main


def call(*words: object) -> int:
    """Runs a command; returns its exit code."""
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    return int(end.value.code or 0)
