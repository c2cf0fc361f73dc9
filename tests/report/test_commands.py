"""`polyptrace report` and `polyptrace figures` from the command line."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polyptrace.core.files import write_json
from polyptrace.data import Dataset
from polyptrace.data.dataset import save_tracklets
from polyptrace.encoders import TrackletEncoder, save_encoder
from polyptrace.evaluate import Results
from tests.command import call


def test_report_writes_the_folder_and_says_where(
    unlabelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report"
    assert call("report", unlabelled, "--out", out, "--title", "Ours & <theirs>") == 0
    assert str(out / "report.html") in capsys.readouterr().out.replace("\n", "")
    assert "<h1>Ours &amp; &lt;theirs&gt;</h1>" in (out / "report.html").read_text(encoding="utf-8")


def test_report_of_something_else_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("report", tmp_path, "--out", tmp_path / "out") == 2
    assert "contains no results -> give a folder" in capsys.readouterr().err


def test_an_unknown_method_to_show_is_an_error_before_anything_is_drawn(
    unlabelled: Path, coloured: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--show", "Theirs", "--data", coloured.path)  # the dataset is wrong as well, and checked later
    assert call("report", unlabelled, *words, "--out", tmp_path / "report") == 2
    assert "--show Theirs: no such method -> one of " in capsys.readouterr().err


def test_figures_curriculum_draws_figure_2_with_the_settings_given(coloured: Dataset, tmp_path: Path) -> None:
    arguments = ("figures", "curriculum", "--data", coloured.path, "--points", 3, "--encoder", "colour-grid")
    assert call(*arguments, "--supervision.tau_max", 4, "--out", tmp_path / "out") == 0
    content = json.loads((tmp_path / "out" / "figures.json").read_text(encoding="utf-8"))
    assert list(content["figures"]) == ["curriculum_rank", "curriculum_pure", "curriculum_gradient"]
    assert ">4<" in (tmp_path / "out" / "curriculum_rank.svg").read_text(encoding="utf-8")


def test_figures_bag_shows_the_selected_anchor(coloured: Dataset, tmp_path: Path) -> None:
    arguments = ("figures", "bag", "--data", coloured.path, "--encoder", "colour-grid")
    assert call(*arguments, "--video", "v1", "--frame", 80, "--out", tmp_path / "out") == 0
    content = json.loads((tmp_path / "out" / "figures.json").read_text(encoding="utf-8"))
    assert "procedure v1, frame 84" in content["caption"]
    assert "share of the gradient" in (tmp_path / "out" / "bag.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--video", "v9"), "one of v0, v1, v2"),
        (("--frame", "5"), "--video"),
        (("--supervision.tau_maximum", "5"), "tau-max"),
    ],
)
def test_what_can_be_mistyped_is_one_line_that_helps(
    coloured: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert call("figures", "bag", "--data", coloured.path, "--out", tmp_path / "out", *arguments) == 2
    assert message in capsys.readouterr().err


def test_the_colour_grid_is_shown_beside_results_without_labels(
    unlabelled: Path, coloured: Dataset, tmp_path: Path
) -> None:
    data = tmp_path / "synthetic"
    shutil.copytree(coloured.path, data)
    table = coloured.tracklets
    renamed = replace(table, dataset=np.full(len(table), "synthetic", object), polyp=np.full(len(table), "", object))
    save_tracklets(renamed, data / "tracklets.parquet")
    assert call("embed", "colour-grid", "--data", data, "--out", tmp_path / "vectors") == 0
    colours = ("--embeddings", tmp_path / "vectors", "--name", "Colour grid", "--group", "Baseline")
    assert call("evaluate", "counting", *colours, "--out", tmp_path / "colours") == 0
    assert call("report", unlabelled, tmp_path / "colours", "--data", data, "--out", tmp_path / "report") == 0
    text = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert "is shown for comparison" in text
    assert "Colour grid: " in (tmp_path / "report" / "figures" / "timeline_0.svg").read_text(encoding="utf-8")
    rows = json.loads((tmp_path / "report" / "results.json").read_text(encoding="utf-8"))["rows"]
    assert [row["method"]["name"] for row in rows] == ["Colour grid", "Mine"]


def test_a_dataset_or_run_of_something_else_is_refused(
    results: list[Path],
    run: Path,
    make_dataset: Callable[..., Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = make_dataset(tmp_path / "other", [[2, 2]])
    info = json.loads((other / "dataset.json").read_text(encoding="utf-8"))
    write_json(other / "dataset.json", info | {"hashes": {"tracklets.parquet": "other"}})
    recorded = {"dataset": {"hashes": {"tracklets.parquet": "mine"}}, "model_hash": "mine"}
    replace(Results.load(results[0]), embeddings=[{"info": recorded}]).save(tmp_path / "mine")
    assert call("report", tmp_path / "mine", "--data", other, "--out", tmp_path / "report") == 2
    assert "not the data of these results or runs" in capsys.readouterr().err
    trained = tmp_path / "trained"
    shutil.copytree(run, trained)
    save_encoder(TrackletEncoder("test_resnet", width=16, heads=2, layers=1, size=32), trained / "encoder")
    assert call("report", tmp_path / "mine", "--run", trained, "--out", tmp_path / "report") == 2
    assert "its encoder made none of the results" in capsys.readouterr().err
    weights = trained / "encoder" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert call("report", tmp_path / "mine", "--run", trained, "--out", tmp_path / "report") == 2
    assert "model.safetensors" in capsys.readouterr().err, "a damaged encoder is not an unfinished run"
