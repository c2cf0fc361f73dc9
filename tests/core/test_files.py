"""Outputs are written whole, and nothing of anybody else's is replaced."""

import csv
from pathlib import Path

import pytest

from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_folder, refuse_existing, write_csv


def test_overwriting_replaces_a_folder_of_the_same_kind_and_no_other(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "photographs"
    for folder, name in ((ours, "results.json"), (theirs, "beach.jpg")):
        folder.mkdir()
        (folder / name).touch()
    with atomic_folder(ours, overwrite=True, mark="results.json") as folder:
        (folder / "results.json").write_text("new")
    assert (ours / "results.json").read_text() == "new"
    with (
        pytest.raises(UserError, match="was not written by this command"),
        atomic_folder(theirs, overwrite=True, mark="results.json"),
    ):
        pass
    assert (theirs / "beach.jpg").exists()


def test_what_exists_is_refused_unless_it_is_an_empty_folder(tmp_path: Path) -> None:
    refuse_existing(tmp_path / "new")
    refuse_existing(tmp_path)
    (tmp_path / "a.txt").touch()
    for path in (tmp_path, tmp_path / "a.txt"):
        with pytest.raises(UserError, match="already exists"):
            refuse_existing(path)


def test_csv_cells_that_a_spreadsheet_would_run_as_formulas_are_neutralised(tmp_path: Path) -> None:
    cells = ["=1+1", "+A1", "-A1", "@SUM(A1)", "\tx", "-0.53", "+2", "a=b", ""]
    write_csv(tmp_path / "t.csv", [cells])
    (read,) = csv.reader((tmp_path / "t.csv").open(encoding="utf-8", newline=""))
    assert read == ["'=1+1", "'+A1", "'-A1", "'@SUM(A1)", "'\tx", "-0.53", "+2", "a=b", ""]
