import pytest
from typer.testing import CliRunner

from polyptrace.cli import build
from polyptrace.synthetic import PRESETS


@pytest.mark.parametrize("word", ["--contact-sheet", "--every-frame", "--box-dropout", *PRESETS])
def test_the_help_names(word: str) -> None:
    result = CliRunner().invoke(build("synth"), ["synth", "--help"])
    assert word in result.output
