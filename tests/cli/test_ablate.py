"""`polyptrace ablate`: variants of our method, and a sweep over datasets."""

from collections.abc import Callable
from pathlib import Path

import pytest

from polyptrace.cli.ablate import point_order
from polyptrace.config import read_config
from tests.command import call

SMALL = """
[encoder]
backbone = "test_resnet"
weights = "none"
width = 16
layers = 1
heads = 2
feed_forward = 16
projection = 8
[train]
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
    (folder / "settings.toml").write_text(SMALL)
    return folder


def common(folder: Path) -> list[str]:
    return ["--config", f"{folder}/settings.toml", "--tasks", "retrieval", "--seeds", "1", "--out", f"{folder}/out"]


def test_variants_differ_in_their_settings_only_and_are_in_blocks_with_ours(folder: Path) -> None:
    data = ["--data", f"{folder}/train", "--eval", f"{folder}/test"]
    assert call("ablate", *data, *common(folder), "--variants", "level,multi-positive") == 0
    runs = {path.parts[-4]: read_config(path) for path in (folder / "out").glob("*/*/seed0/run/config.toml")}
    assert set(runs) == {"frame", "tracklet", "multi-positive", "ours"}
    assert (runs["frame"].loss.tracklet_weight, runs["tracklet"].loss.frame_weight) == (0, 0)
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


def test_a_sweep_compares_the_losses_on_each_pair_of_datasets(folder: Path) -> None:
    assert call("ablate", *common(folder), "--sweep", f"0.25={folder}/train:{folder}/test") == 0
    table = (folder / "out/ablations/sweep-retrieval-map.md").read_text()
    assert "0.25" in table
    rows = [line for line in table.splitlines() if line.startswith(("| Multi", "| Equation 1", "| Ours"))]
    assert [line.count("[") for line in rows] == [1, 1, 1]  # each a figure with its interval
    assert call("ablate", *common(folder), "--sweep", "0.5=here") == 2


def test_points_that_are_numbers_come_by_size() -> None:
    assert sorted(["0.75", "often", "0", "10", "0.25"], key=point_order) == ["0", "0.25", "0.75", "10", "often"]
