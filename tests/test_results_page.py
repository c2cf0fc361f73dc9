"""The commands of docs/results: every one can be typed, with the datasets under the names that the page gives them."""

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from polyptrace.cli import main
from polyptrace.config import Config, Crops, Encoder, Train, read_config

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


STORED = "polyptrace compare --out docs/results/protocol2 --table-only"


@pytest.mark.parametrize("line", [line for line in LINES if line.split()[1] in ("compare", "ablate") if line != STORED])
def test_a_command_of_the_page_can_be_typed(
    line: str, desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(desk)
    with pytest.raises(SystemExit) as end:
        main([*shlex.split(line)[1:], "--dry-run"])
    if "--table-only" in line:  # it is understood, and finds that nothing was run here
        assert "with results, so there is no table" in capsys.readouterr().err
    else:
        assert end.value.code == 0


def test_the_stored_rows_give_the_tables_of_the_page(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert STORED in LINES
    monkeypatch.chdir(desk)
    with pytest.raises(SystemExit) as end:
        main(shlex.split(STORED)[1:])
    assert end.value.code == 0
    folder = desk / "docs/results/protocol2"
    for table in (folder / "tables").iterdir():
        assert (folder / "report" / table.name).read_text("utf-8") == table.read_text("utf-8")
    ours = next(row for row in (PAGE / "README.md").read_text("utf-8").splitlines() if row.startswith("| Ours |"))
    assert "**47.9** [45.2–50.7]" in ours
    assert "| **47.90** [45.2–50.7] |" in (folder / "report/table1.md").read_text("utf-8")


def test_the_protocol_differs_from_the_paper_in_crops_backbone_weights_and_length() -> None:
    assert read_config(PAGE / "protocol.toml") == Config(
        crops=Crops(size=112), encoder=Encoder(weights="resnet50.safetensors"), train=Train(frames=1_800_000)
    )
