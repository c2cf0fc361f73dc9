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
    for name in sorted(set(re.findall(r"\b(?:dev|data)/[\w.-]+", " ".join(LINES)))):
        make_dataset(folder / name, [[4, 3], [5, 4]], name=name)
    for seed in range(3):
        (folder / f"compared/rows/ours/seed{seed}/run").mkdir(parents=True)
    return folder


#: The commands that write the tables of the page from stored rows: the folder of the rows, and that of the tables.
STORED = {
    "polyptrace compare --out docs/results/protocol2 --table-only": ("protocol2", "report"),
    "polyptrace compare --out docs/results/one-cycle --table-only": ("one-cycle", "report"),
    "polyptrace compare --out docs/results/views-by-polyp --table-only": ("views-by-polyp", "report"),
    "polyptrace ablate --out docs/results/ablations --variants table2,loss --table-only": ("ablations", "ablations"),
}


@pytest.mark.parametrize(
    "line", [line for line in LINES if line.split()[1] in ("compare", "ablate") if line not in STORED]
)
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


@pytest.mark.parametrize("line", STORED)
def test_the_stored_rows_give_the_tables_of_the_page(line: str, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert line in LINES
    monkeypatch.chdir(desk)
    with pytest.raises(SystemExit) as end:
        main(shlex.split(line)[1:])
    assert end.value.code == 0
    rows, written = STORED[line]
    folder = desk / "docs/results" / rows
    copies = sorted((folder / "tables").iterdir())
    assert copies
    for table in copies:
        assert (folder / written / table.name).read_text("utf-8") == table.read_text("utf-8")


@pytest.mark.parametrize(
    ("on_the_page", "table", "in_the_table"),
    [
        ("**47.4** [44.8–50.2]", "protocol2/tables/table1.md", "**47.44** [44.8–50.2]"),
        ("**49.6** [46.8–52.6]", "one-cycle/tables/table1.md", "**49.57** [46.8–52.6]"),
        ("**45.9** [42.2–50.0]", "ablations/tables/table2.md", "**45.92** [42.2–50.0]"),
        ("38.9 [35.9–42.1]", "ablations/tables/sweep-retrieval-map.md", "38.92 [35.9–42.1]"),
    ],
)
def test_the_page_shows_the_map_of_ours_from_its_tables(on_the_page: str, table: str, in_the_table: str) -> None:
    ours = [row for row in (PAGE / "README.md").read_text("utf-8").splitlines() if row.startswith("| Ours |")]
    assert any(on_the_page in row for row in ours)
    assert in_the_table in (PAGE / table).read_text("utf-8")


def test_the_protocol_differs_from_the_paper_in_crops_backbone_weights_and_length() -> None:
    assert read_config(PAGE / "protocol.toml") == Config(
        crops=Crops(size=112), encoder=Encoder(weights="resnet50.safetensors"), train=Train(frames=1_800_000)
    )
