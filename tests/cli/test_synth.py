import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from polyptrace.cli import build
from polyptrace.core.console import output
from polyptrace.synthetic import PRESETS


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are not wrapped, whatever the width of the console that an earlier test imported."""
    monkeypatch.setattr(output, "width", 160)


def test_synth_prints_statistics_of_an_existing_folder(tiny: Path) -> None:
    result = CliRunner().invoke(build("synth"), ["synth", str(tiny), "--preset", "tiny", "--stats"])
    assert result.exit_code == 0, result.output
    for words in ("track length", "bag purity at c = 0.5", "REAL-Colon"):
        assert words in result.output
    precision = re.search(r"colour-grid mAP, test split +([0-9.]+)", result.output)
    assert precision
    assert 20 < float(precision[1]) < 95  # with three polyps chance is about 40; colour alone must not solve it


def test_synth_prints_picture_statistics_compared_with_real_ones(tiny: Path) -> None:
    arguments = ["synth", str(tiny), "--preset", "tiny", "--real", str(tiny / "images")]
    result = CliRunner().invoke(build("synth"), arguments)
    assert result.exit_code == 0, result.output
    assert result.output.count("yes") == 10


@pytest.mark.parametrize("word", ["--contact-sheet", "--every-frame", "--box-dropout", *PRESETS])
def test_the_help_names(word: str) -> None:
    result = CliRunner().invoke(build("synth"), ["synth", "--help"])
    assert word in result.output
