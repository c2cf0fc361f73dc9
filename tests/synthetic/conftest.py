"""A small procedure that has everything, drawn once."""

from dataclasses import replace

import pytest

from polyptrace.synthetic import PRESETS, Preset
from polyptrace.synthetic.procedure import Procedure, draw_procedure


@pytest.fixture(scope="session")
def preset() -> Preset:
    """The smallest preset, with exact boxes."""
    tiny = PRESETS["tiny"]
    return replace(tiny, difficulty=replace(tiny.difficulty, box_jitter=0.0))


@pytest.fixture(scope="session")
def procedure(preset: Preset) -> Procedure:
    """A procedure with four polyps."""
    return draw_procedure(3, 1, "train", 4, preset)
