"""The command line as a user types it."""

import ast
import errno
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import polyptrace
from polyptrace.cli import COMMANDS, main
from polyptrace.config import describe
from polyptrace.core.errors import PolyptraceWarning
from polyptrace.data import Dataset
from polyptrace.data.crops.videos import write_video


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "polyptrace", *arguments], capture_output=True, text=True)


def test_help_lists_every_command_without_loading_torch() -> None:
    for called in (None, "synth"):  # the first command that anyone tries
        code = f"import sys; from polyptrace.cli import build; build({called!r}); print('torch' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
    listed = run("--help").stdout
    assert all(f" {name} " in listed for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_teaches_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([name, "--help"])
    assert end.value.code == 0
    assert "Usage" in capsys.readouterr().out


def test_settings_are_listed_with_full_names_in_a_pipe() -> None:
    lines = run("settings").stdout.splitlines()
    assert len(lines) == len(describe())
    assert [line.split()[0] for line in lines] == [row[0] for row in describe()]
    assert "--optimiser.weight-decay  number, default 0.0001: weight decay" in lines


def test_an_unknown_section_beside_a_known_one_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["settings", "encoder", "trian"])
    assert end.value.code == 2
    shown = capsys.readouterr()
    assert "trian: no such section -> use tracks, crops" in shown.err
    assert not shown.out


def test_a_name_that_is_not_utf_8_is_one_line_without_a_traceback(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/broken-\xff"
    done = subprocess.run([sys.executable, "-m", "polyptrace", "check", folder], capture_output=True, text=True)
    assert done.returncode == 2
    assert "broken-\\udcff" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_name_that_cannot_be_written_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def write(_: object) -> None:
        "video-\udcff".encode()

    monkeypatch.setattr("polyptrace.cli.build", write)
    with pytest.raises(SystemExit) as end:
        main(["prepare"])
    assert end.value.code == 2
    assert "video-\\udcff: this name is not valid UTF-8 -> rename" in capsys.readouterr().err


def test_only_our_own_warnings_are_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def warn(_: object) -> Callable[[object], None]:
        warnings.warn("for developers", UserWarning, stacklevel=1)
        warnings.warn("no box has a \x1b[31mscore", PolyptraceWarning, stacklevel=1)
        return lambda _: None

    monkeypatch.setattr("polyptrace.cli.build", warn)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        main(["check"])
    assert capsys.readouterr().err == "warning: no box has a \\x1b[31mscore\n"


def test_every_warning_of_the_package_is_our_own() -> None:
    calls = 0
    for path in Path(polyptrace.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn":
                calls += 1
                assert "PolyptraceWarning" in ast.unparse(node), f"{path}:{node.lineno}"
    assert calls


def test_what_a_user_can_put_right_is_one_line_without_a_traceback(tmp_path: Path) -> None:
    done = run("check", str(tmp_path))
    assert done.returncode == 2
    assert "polyptrace prepare" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "line",
    [
        "synth {out} --preset tiny",
        "detect {inputs}/v.mp4 --detector {inputs}/detector.py:detect --out {out}",
        "detect {inputs}/v.mp4 --detector {inputs}/detector.py:detect --preview --out {out}",
        "run {inputs}/v.mp4 --detector {inputs}/detector.py:detect --encoder colour-grid --out {out}",
        "prepare mot {inputs} --out {out}",
        "train ours --data {data} --out {out} --encoder.weights none",
        "embed colour-grid --data {data} --out {out}",
        "export default --to folder --out {out}",
        "evaluate retrieval --embeddings missing --out {out}",
        "lesions missing --out {out}",
        "find missing --video v0 --track 0 --out {out}",
        "figures curriculum --data {data} --out {out}",
        "report missing --out {out}",
        "compare --methods colour-grid --eval {data} --out {out}",
        "ablate --variants nearest --data {data} --eval {data} --out {out} --encoder.weights none",
    ],
)
def test_an_output_that_cannot_be_written_is_an_error_before_the_work(
    line: str,
    coloured: Dataset,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    (inputs / "detector.py").write_text("def detect(frames):\n    raise AssertionError\n")
    (inputs / "v.txt").write_text("1,1,4,4,8,8,0.9\n")
    write_video(inputs / "v.mp4", np.zeros((2, 32, 32, 3), np.uint8))
    with pytest.raises(SystemExit) as end:
        main(line.format(data=coloured.path, inputs=inputs, out="/proc/out").split())  # permissions do not bind root
    assert end.value.code == 2
    assert "/proc cannot be written to" in capsys.readouterr().err


def test_a_folder_in_place_of_a_file_is_one_line_without_a_traceback(tmp_path: Path) -> None:
    done = run("figures", "bag", "--data", str(tmp_path), "--out", str(tmp_path / "out"), "--config", str(tmp_path))
    assert (done.returncode, done.stderr) == (
        2,
        f"error: {tmp_path}: Is a directory -> this is a folder: give a file\n",
    )


def test_a_command_named_like_a_value_is_still_the_command_that_was_called(tmp_path: Path) -> None:
    done = run("check", str(tmp_path / "train"))
    assert "no such folder" in done.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("command", "end_of_line"), [("embed", "it resumes"), ("evaluate", "no partial output was left")]
)
def test_ctrl_c_while_a_command_is_loaded_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, end_of_line: str
) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("polyptrace.cli.build", interrupt)
    with pytest.raises(SystemExit) as end:
        main([command])
    assert end.value.code == 130
    assert capsys.readouterr().err == f"interrupted -> run the same command again; {end_of_line}\n"


@pytest.mark.parametrize(("command", "resumes"), [("embed", True), ("prepare", True), ("evaluate", False)])
def test_a_full_disk_promises_to_resume_only_where_the_command_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, resumes: bool
) -> None:
    def fill(_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "out")

    monkeypatch.setattr("polyptrace.cli.build", fill)
    with pytest.raises(SystemExit) as end:
        main([command])
    assert end.value.code == 2
    printed = capsys.readouterr().err
    assert "run the same command again" in printed
    assert ("it resumes" in printed) == resumes
