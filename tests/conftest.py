"""Fixtures that every folder of tests shares."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of facts, oracles and real clips beside the repository; tests that need it skip without it."""
    folder = Path(__file__).parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("needs the shared folder (oracles, real clips) beside the repository")
    return folder
