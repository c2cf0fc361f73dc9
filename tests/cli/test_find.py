"""`polyptrace find` as it is typed."""

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polyptrace.core.files import read_json, write_json
from polyptrace.data import Dataset
from polyptrace.embed import Embeddings, embed
from polyptrace.encoders import load_encoder
from tests.command import call


@pytest.fixture(scope="module")
def vectors(coloured: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectors") / "grid"
    actual = embed(load_encoder("colour-grid"), coloured)
    replace(actual, fps=np.full(len(actual), 25.0)).save(folder)
    return folder


def test_a_polyp_of_one_colour_is_found_again_with_a_page_to_look_at(
    vectors: Path, coloured: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "found"
    assert call("find", vectors, "--video", "v1", "--track", 1, "--data", coloured.path, "--out", out) == 0
    rows = list(csv.DictReader((out / "found.csv").open(encoding="utf-8")))
    assert [row["polyp"] for row in rows[:5]] == ["v1-p0"] * 5  # the query, and its four other tracks
    assert {row["video"] for row in rows} == {"v1"}
    assert (rows[0]["track"], rows[0]["beyond"]) == ("1", "")
    assert float(rows[1]["beyond"]) == 1.0
    assert float(rows[0]["start_s"]) == int(rows[0]["first_frame"]) / 25
    page = (out / "found.html").read_text(encoding="utf-8")
    assert page.count("<img ") == len(rows)
    assert page.count('class="strip same"') == 4
    printed = capsys.readouterr().out
    assert printed.count("✓") == 4
    assert "found.html" in printed


def test_a_time_selects_a_track_and_the_choice_is_printed(vectors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("find", vectors, "--video", "v0", "--at", "0:04", "--among", "all", "--top", 3) == 0
    assert "similar to track 1 of v0" in " ".join(capsys.readouterr().out.split())
    assert call("find", vectors, "--video", "v0", "--at", "0:40", "--top", 1) == 0
    assert "no track at this time; using the nearest, track 6" in capsys.readouterr().out


def test_a_time_long_after_the_last_track_is_an_error(vectors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("find", vectors, "--video", "v0", "--at", "59:00") == 2
    assert "is after its last track, which ends at 0:" in capsys.readouterr().err


def test_a_column_without_values_is_not_explained(vectors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("find", vectors, "--video", "v1", "--track", 1, "--among", "others") == 0
    assert "compared with" not in capsys.readouterr().out
    assert call("find", vectors, "--video", "v1", "--track", 1) == 0
    assert "beyond others: compared with 15 tracks" in capsys.readouterr().out


def test_few_tracks_are_counted_and_not_given_in_per_cent(vectors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("find", vectors, "--video", "v1", "--track", 1) == 0
    printed = capsys.readouterr().out
    assert "15 of 15" in printed
    assert " %" not in printed.replace("\N{NO-BREAK SPACE}%", ""), "only probabilities are in per cent"


def test_a_dataset_that_was_not_embedded_is_refused(
    vectors: Path, make_dataset: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = make_dataset(tmp_path / "other", [[2, 2]])
    write_json(other / "dataset.json", {**read_json(other / "dataset.json"), "hashes": {"tracklets.parquet": "other"}})
    replace(Embeddings.load(vectors), info={"dataset": {"hashes": {"tracklets.parquet": "mine"}}}).save(
        tmp_path / "mine"
    )
    arguments = ("--video", "v1", "--track", 1, "--out", tmp_path / "found")
    assert call("find", tmp_path / "mine", *arguments, "--data", other) == 2
    assert "not the dataset of the vectors" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--video", "v0"), "one of --at, --frame and --track"),
        (("--video", "v0", "--track", 1, "--frame", 3), "one of --at, --frame and --track"),
        (("--video", "v0", "--at", "soon"), "MM:SS"),
        (("--video", "w0", "--frame", 3), "-> use v0"),
        (("--video", "v0", "--track", 77), "0, 1, 2"),
        (("--video", "v0", "--track", 1, "--data", "somewhere"), "--out"),
    ],
)
def test_what_is_missing_or_mistyped_is_one_line(
    vectors: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[object, ...], message: str
) -> None:
    assert call("find", vectors, *arguments) == 2
    assert message in capsys.readouterr().err


def test_without_a_frame_rate_the_error_asks_for_a_frame(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = {"vectors": np.eye(2), "video": np.array(["v", "v"]), "position": np.array([0, 50])}
    Embeddings.from_columns(columns).save(tmp_path / "theirs")
    assert call("find", tmp_path / "theirs", "--video", "v", "--at", "0:01") == 2
    assert "--frame" in capsys.readouterr().err
    assert call("find", tmp_path / "theirs", "--video", "v", "--frame", 2) == 0


def test_a_procedure_may_be_called_what_looks_like_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = {"vectors": np.eye(2), "video": np.array(["[/b] one"] * 2), "track": np.arange(2)}
    Embeddings.from_columns(columns).save(tmp_path / "theirs")
    assert call("find", tmp_path / "theirs", "--video", "[/b] one", "--track", 0) == 0
    assert "[/b] one" in capsys.readouterr().out


def test_names_neither_control_the_terminal_nor_run_in_a_spreadsheet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "=1+2\x1b]0;title\x07"
    columns = {"vectors": np.eye(2), "video": np.array([name] * 2), "track": np.arange(2)}
    Embeddings.from_columns(columns).save(tmp_path / "theirs")
    assert call("find", tmp_path / "theirs", "--video", name, "--track", 0, "--out", tmp_path / "found") == 0
    printed = capsys.readouterr().out
    assert "=1+2" in printed
    assert "\x1b]" not in printed
    rows = list(csv.DictReader((tmp_path / "found" / "found.csv").open(encoding="utf-8", newline="")))
    assert [row["video"] for row in rows] == [f"'{name}"] * 2
