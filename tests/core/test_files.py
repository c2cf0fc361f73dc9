"""Outputs are written whole, and nothing of anybody else's is replaced."""

import csv
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from polyptrace.cli import main
from polyptrace.core.errors import UserError
from polyptrace.core.files import (
    CONTENTS,
    PARTIAL,
    atomic_file,
    atomic_folder,
    recover,
    refuse_existing,
    write_csv,
    wrong_folder,
)
from polyptrace.core.lock import owner_tag

OVERWRITE = """
from pathlib import Path
from polyptrace.core.files import atomic_folder
with atomic_folder(Path({out!r}), overwrite=True, mark="a.txt") as folder:
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text("new")
"""


def killed(number: int, moment: str, way: str, code: str) -> bool:
    """Whether code was killed before or after its change number `number`, or else has succeeded."""
    script = Path(__file__).with_name("killed_folder.py")
    ended = subprocess.run([sys.executable, script, str(number), moment, way, code], capture_output=True, text=True)
    assert ended.returncode in (0, -9), ended.stderr
    return ended.returncode == -9


def test_overwriting_replaces_a_folder_of_the_same_kind_and_no_other(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "photographs"
    for folder, name in ((ours, "results.json"), (theirs, "beach.jpg")):
        folder.mkdir()
        (folder / name).touch()
    with atomic_folder(ours, overwrite=True, mark="results.json") as folder:
        (folder / "results.json").write_text("new")
    assert (ours / "results.json").read_text() == "new"
    with (
        pytest.raises(UserError, match="this command did not write it"),
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


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file cannot be written to"):
        refuse_existing(tmp_path / "file/out")
    with pytest.raises(UserError, match="cannot be written to -> choose another folder"):
        refuse_existing(Path("/proc/out"))  # permissions do not bind root


def test_csv_cells_that_a_spreadsheet_would_run_as_formulas_are_neutralised(tmp_path: Path) -> None:
    cells = ["=1+1", "+A1", "-A1", "@SUM(A1)", "\tx", "-0.53", "+2", "a=b", ""]
    write_csv(tmp_path / "t.csv", [cells])
    (read,) = csv.reader((tmp_path / "t.csv").open(encoding="utf-8", newline=""))
    assert read == ["'=1+1", "'+A1", "'-A1", "'@SUM(A1)", "'\tx", "-0.53", "+2", "a=b", ""]


@pytest.mark.parametrize("way", ["exchange", "renames"])
def test_a_kill_at_any_moment_of_an_overwrite_leaves_the_old_or_the_new_folder(tmp_path: Path, way: str) -> None:
    seen = set()
    for moment in ("before", "after"):
        number = 1
        while True:
            out = tmp_path / f"{moment}{number}" / "out"
            with atomic_folder(out) as folder:
                for name in ("a.txt", "b.txt"):
                    (folder / name).write_text("old")
            code = OVERWRITE.format(out=str(out))
            if not killed(number, moment, way, code):
                break
            recover(out)
            contents = [(out / name).read_text() for name in ("a.txt", "b.txt")]
            assert contents in (["old", "old"], ["new", "new"])
            seen.add(contents[0])
            exec(code)  # the restart is not refused
            assert (out / "a.txt").read_text() == "new"
            assert [path.name for path in out.parent.iterdir()] == ["out"]
            number += 1
        assert number > (3 if way == "exchange" else 4)
    assert seen == {"old", "new"}


@pytest.mark.parametrize(
    ("way", "number", "moment"),
    [("exchange", 1, "before"), ("exchange", 1, "after"), ("renames", 1, "after"), ("renames", 2, "after")],
)
def test_a_command_killed_around_its_renames_restarts_and_leaves_nothing_behind(
    make_dataset: Callable[..., Path], tmp_path: Path, way: str, number: int, moment: str
) -> None:
    data, out = make_dataset(tmp_path / "data", [[1, 1]]), tmp_path / "out/vectors"
    words = ["embed", "colour-grid", "--data", str(data), "--out", str(out), "--overwrite"]
    with pytest.raises(SystemExit, match="0"):
        main(words)
    (out / "answers.jsonl").write_text("{}")
    files = {path.name for path in out.iterdir()}
    assert killed(number, moment, way, f"from polyptrace.cli import main; main({words})")
    assert len(list(out.parent.iterdir())) > 1
    recover(out)
    assert {path.name for path in out.iterdir()} - {".answers.jsonl.lock"} == files  # a lock ends with its process
    with pytest.raises(SystemExit, match="0"):
        main(words)
    assert {path.name for path in out.iterdir()} == files
    assert list(out.parent.iterdir()) == [out]


def test_a_killed_synth_leaves_nothing_when_it_is_run_again(tmp_path: Path) -> None:
    out = tmp_path / "parent/generated"
    words = ["synth", str(out), "--preset", "tiny", "--split", "test", "--tracklets", "1"]
    assert killed(1, "before", "exchange", f"from polyptrace.cli import main; main({words})")
    assert [path.suffix for path in out.parent.iterdir()] == [PARTIAL]
    with pytest.raises(SystemExit, match="0"):
        main(words)
    assert list(out.parent.iterdir()) == [out]


def test_the_partial_outputs_of_running_processes_and_other_hosts_are_kept(tmp_path: Path) -> None:
    host, _, started = owner_tag().split("-")
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    gone = f"{host}-{process.pid}-{started}"
    kept = [
        f".out.{owner_tag()}.x.partial",
        ".out.00000000-1-1.x.partial",
        f".out.b.{gone}.x.replaced",
        ".out.partial",
    ]
    removed = [f".out.{gone}.x.partial", f".out.{gone}.x.replaced"]
    for name in (*kept, *removed, "out"):
        (tmp_path / name / "inside").mkdir(parents=True)
    (tmp_path / f".out.{gone}.partial.json").touch()
    refuse_existing(tmp_path / "out", overwrite=True)
    assert {path.name for path in tmp_path.iterdir()} == {*kept, "out"}


def test_a_killed_file_is_removed_when_it_is_written_again(tmp_path: Path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from polyptrace.core.files import atomic_file
with atomic_file(Path({str(tmp_path)!r}, "a.json")) as temporary:
    temporary.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert len(list(tmp_path.iterdir())) == 1
    with atomic_file(tmp_path / "a.json") as temporary:
        temporary.write_text("whole")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_the_target_of_a_link_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "disk/out").mkdir(parents=True)
    (tmp_path / "disk/out/a.txt").write_text("old")
    (tmp_path / "link").symlink_to("disk/out")
    with atomic_folder(tmp_path / "link", overwrite=True, mark="a.txt") as folder:
        (folder / "a.txt").write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "disk/out/a.txt").read_text() == "new"


def test_a_missing_folder_an_empty_one_and_one_of_another_command_are_told_apart(tmp_path: Path) -> None:
    assert "x: no such folder -> give a folder that 'polyptrace prepare' wrote" in str(
        wrong_folder(tmp_path / "x", "prepare")
    )
    assert "contains no dataset -> give" in str(wrong_folder(tmp_path, "prepare"))
    (tmp_path / "embeddings.json").touch()
    expected = "contains vectors, written by 'polyptrace embed', not a dataset -> give a folder"
    assert expected in str(wrong_folder(tmp_path, "prepare"))
    assert str(wrong_folder(tmp_path, "prepare", ", or a file")).endswith("wrote, or a file")


@pytest.mark.parametrize("command", CONTENTS)
def test_a_folder_of_the_wanted_command_is_not_named_as_another_one(command: str, tmp_path: Path) -> None:
    (tmp_path / CONTENTS[command][0]).touch()
    assert "written by" not in str(wrong_folder(tmp_path, command))


def test_the_only_folder_of_the_wanted_command_in_a_folder_is_named(tmp_path: Path) -> None:
    for name, marks in {"r": ("report.html", "results.json"), ".killed": ("results.json",)}.items():
        (tmp_path / name).mkdir()
        for mark in marks:
            (tmp_path / name / mark).touch()
    assert str(wrong_folder(tmp_path, "evaluate")).endswith("-> give a folder that 'polyptrace evaluate' wrote")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/results.json").touch()
    assert str(wrong_folder(tmp_path, "evaluate")).endswith(f"-> give {tmp_path / 'mine'}")
