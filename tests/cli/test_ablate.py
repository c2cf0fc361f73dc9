"""`polyptrace ablate`: variants of our method, and a sweep over datasets."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from polyptrace.cli.ablate import point_order
from polyptrace.config import read_config
from polyptrace.core.files import write_json
from polyptrace.evaluate import Results
from polyptrace.train import read_environment
from tests.command import SMALL_ENCODER, call

SETTINGS = f"""
{SMALL_ENCODER}[train]
frames = 480
threads = 1
loggers = []
[evaluate]
bootstrap = 20
"""


@pytest.fixture(scope="module")
def folder(make_dataset: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ablate")
    make_dataset(folder / "train", [[2, 2], [2, 3]])
    make_dataset(folder / "test", [[2, 2], [3]], seed=1)
    make_dataset(folder / "other", [[3, 4]], seed=2, name="other")
    (folder / "settings.toml").write_text(SETTINGS)
    return folder


def common(folder: Path) -> list[str]:
    return ["--config", f"{folder}/settings.toml", "--tasks", "retrieval", "--seeds", "1", "--out", f"{folder}/out"]


def test_variants_differ_in_their_settings_only_and_are_in_blocks_with_ours(folder: Path) -> None:
    data = ["--data", f"{folder}/train", "--eval", f"{folder}/test"]
    assert call("ablate", *data, *common(folder), "--variants", "level,multi-positive") == 0
    runs = {path.parts[-4]: read_config(path) for path in (folder / "out").glob("*/*/seed0/run/config.toml")}
    assert set(runs) == {"frame", "frame-across-tracklets", "tracklet", "multi-positive", "ours"}
    assert (runs["frame"].loss.tracklet_weight, runs["tracklet"].loss.frame_weight) == (0, 0)
    assert not runs["frame-across-tracklets"].loss.within_tracklet
    assert runs["multi-positive"].loss.name == "multi-positive"
    assert len({str(config.optimiser) for config in runs.values()}) == 1
    assert (folder / "out/rows/ours/seed0/results/results.json").exists()

    table = (folder / "out/ablations/table2.md").read_text()
    assert table.count("| Ours |") == 2
    assert table.index("Level of the loss") < table.index("| Frames only | ✓ | ✓ | ✓ | ✗ |") < table.index("*Loss*")
    differences = (folder / "out/ablations/differences.md").read_text()
    assert "Ours minus each other" in differences
    names = (
        "| Frames only |",
        "| Tracklets only |",
        "| Multi-positive on the same bags, temperature 0.07 |",
        "| Ours |",
    )
    assert [name in differences for name in names] == [True, True, True, False]
    (folder / "out/ablations/table2.md").unlink()
    assert call("ablate", "--out", f"{folder}/out", "--variants", "level", "--table-only") == 0
    assert (folder / "out/ablations/table2.md").read_text().count("| Ours |") == 1


def test_a_sweep_compares_ours_multi_positive_and_tpc_on_pooled_test_datasets(folder: Path) -> None:
    points = [f"often={folder}/train:{folder}/test:{folder}/other", f"0.25={folder}/other:{folder}/test"]
    assert call("ablate", *common(folder), *(word for point in points for word in ("--sweep", point))) == 0
    results = {path.parts[-4:-2]: Results.load(path) for path in (folder / "out/sweep").glob("*/*/seed0/results")}
    assert set(results) == {(point, row) for point in ("often", "0.25") for row in ("multi-positive", "tpc", "ours")}
    procedures = {key: row.tasks["retrieval"].counts["videos"] for key, row in results.items()}
    assert set(procedures.values()) == {2, 3}
    assert all(count == (3 if point == "often" else 2) for (point, _), count in procedures.items())
    start = read_environment(folder / "out/sweep/0.25/starts/sfe/seed0/run")  # TPC's SFE, trained on the point's data
    assert start.data is not None
    assert start.data.path == f"{folder}/other"

    table = (folder / "out/ablations/sweep-retrieval-map.md").read_text()
    assert table.index("0.25") < table.index("often")
    rows = [line for line in table.splitlines() if line.startswith(("| Multi", "| TPC", "| Ours"))]
    assert [line.count("[") for line in rows] == [2, 2, 2]  # values with their intervals


@pytest.mark.parametrize("point", ["0.5=here", "0.5=here:", "=here:there", "0.5=:there", "0.5=here:there:"])
def test_a_sweep_without_training_or_test_data_is_refused(
    point: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("ablate", *common(folder), "--sweep", point) == 2
    assert "not NAME=TRAIN:EVAL" in capsys.readouterr().err


def test_rates_without_that_of_our_method_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tried = {"tried": {"0.001": 0.5}, "rate": 0.001, "at_the_end": False}
    write_json(folder / "rates.json", {"criterion": "retrieval mAP", "rows": {"tpc": tried}})
    words = ["--data", f"{folder}/train", "--eval", f"{folder}/test", "--rates", f"{folder}/rates.json"]
    assert call("ablate", *words, *common(folder), "--dry-run") == 2
    assert "rates.json: has no learning rate of nearest -> " in capsys.readouterr().err


def test_tables_are_written_from_rows_that_were_collected_in_another_folder(folder: Path, tmp_path: Path) -> None:
    """Only results and row.json are copied, the original folders are not accessible, and one row failed before."""
    words = ["--data", f"{folder}/moved-train", "--eval", f"{folder}/moved-test", *common(folder)[:-2]]
    for name in ("train", "test"):
        shutil.copytree(folder / name, folder / f"moved-{name}")
    for machine, rows in (("a", "frame"), ("b", "ours")):
        out = folder / machine
        assert call("ablate", *words, "--variants", "level", "--only", rows, "--out", f"{out}") == 0
        for record in out.rglob("seed0/row.json"):
            position = tmp_path / "all" / record.parent.relative_to(out)
            shutil.copytree(record.parent / "results", position / "results")
            shutil.copy(record, position)
            (position / "error.txt").write_text("of an earlier attempt on another machine\n")
        shutil.rmtree(out)
    for name in ("train", "test"):
        shutil.rmtree(folder / f"moved-{name}")
    assert call("ablate", "--out", f"{tmp_path}/all", "--variants", "level", "--table-only") == 0
    assert "| Frames only | ✓ | ✓ | ✓ | ✗ |" in (tmp_path / "all/ablations/table2.md").read_text()
    assert call("compare", "--out", f"{tmp_path}/all", "--table-only") == 0
    assert "| Ours |" in (tmp_path / "all/report/table1.md").read_text()


def test_points_that_are_numbers_come_by_size() -> None:
    assert sorted(["0.75", "often", "0", "10", "0.25"], key=point_order) == ["0", "0.25", "0.75", "10", "often"]
