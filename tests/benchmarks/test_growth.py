"""python -m benchmarks growth."""

from pathlib import Path

import pytest

from benchmarks.growth import STAGES


@pytest.mark.parametrize("name", STAGES)
def test_every_stage_runs_on_its_smallest_input(name: str, tmp_path: Path) -> None:
    stage = STAGES[name]
    stage.work(stage.sizes(stage.largest)[0], tmp_path)()
