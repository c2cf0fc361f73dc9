"""Commands in the process of the test, and settings for them."""

import pytest

from polyptrace.cli import main

#: Settings of an encoder that trains in seconds.
SMALL_ENCODER = """
[encoder]
backbone = "test_resnet"
weights = "none"
width = 16
layers = 1
heads = 2
feed_forward = 16
projection = 8
"""


def call(*words: object) -> int:
    """Runs a command; returns its exit code."""
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    return int(end.value.code or 0)
