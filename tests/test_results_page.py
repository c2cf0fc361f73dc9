"""The commands of docs/results: every one can be typed, with the datasets under the names that the page gives them."""

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polyptrace.cli import main
from polyptrace.config import Config, Crops, Encoder, Train, read_config
from polyptrace.core.files import write_json
from polyptrace.methods import METHODS

PAGE = Path(__file__).parents[1] / "docs" / "results"
LINES = [line for line in (PAGE / "README.md").read_text("utf-8").splitlines() if line.startswith("polyptrace ")]


@pytest.fixture(scope="module")
def desk(make_dataset: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the page's commands find what they name."""
    folder = tmp_path_factory.mktemp("desk")
    shutil.copytree(PAGE, folder / "docs" / "results")
    one = make_dataset(folder / "one", [[4, 3], [5, 4]])
    for name in sorted(set(re.findall(r"\b(?:dev|data)/[\w.-]+", " ".join(LINES)))):
        shutil.copytree(one, folder / name)
    for seed in range(3):
        (folder / f"compared/rows/ours/seed{seed}/run").mkdir(parents=True)
    return folder


@pytest.mark.parametrize("line", [line for line in LINES if line.split()[1] in ("compare", "ablate")])
def test_a_command_of_the_page_can_be_typed(
    line: str, desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(desk)
    rates = Path("search/rates.json")
    rates.unlink(missing_ok=True)
    if "--search-lr" not in line:  # else it is this command that finds them
        write_json(rates, {"criterion": "retrieval mAP", "rows": {name: row(3e-5) for name in METHODS}})
    with pytest.raises(SystemExit) as end:
        main([*shlex.split(line)[1:], "--dry-run"])
    if "--table-only" in line:  # it is understood, and finds that nothing was run here
        assert "with results, so there is no table" in capsys.readouterr().err
    else:
        assert end.value.code == 0


def row(rate: float) -> dict[str, Any]:
    return {"tried": {f"{rate:g}": 0.5}, "rate": rate, "at_the_end": False}


def test_the_protocol_differs_from_the_paper_in_crops_backbone_weights_and_length() -> None:
    assert read_config(PAGE / "protocol.toml") == Config(
        crops=Crops(size=112), encoder=Encoder(weights="resnet50.safetensors"), train=Train(frames=600_000)
    )
