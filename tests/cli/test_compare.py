"""`polyptrace compare`: every row of the table, trained, embedded, measured."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polyptrace.compare.rows import ALL
from polyptrace.config import Crops, Tracks
from polyptrace.core.files import read_json, write_json
from polyptrace.data import Dataset, prepare, read_coco
from polyptrace.evaluate import Results
from tests.command import SMALL_ENCODER, call

SETTINGS = f"""
[supervision]
bags_per_batch = 3
[views]
batch = 6
tracklets_per_polyp = 3
{SMALL_ENCODER}[train]
frames = 240
threads = 1
loggers = []
[evaluate]
bootstrap = 20
repeats = 1
"""


@pytest.fixture(scope="module")
def folder(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Generated procedures and settings, small enough for a CPU."""
    folder = tmp_path_factory.mktemp("compare")
    for split in ("train", "test"):
        prepare(read_coco(tiny, split=split), tiny, folder / split, crops=Crops(size=32, workers=1))
    (folder / "settings.toml").write_text(SETTINGS)
    return folder


def words(folder: Path, out: str, *more: str, tasks: str = "retrieval,reid") -> list[str]:
    common = ["--eval", f"{folder}/test", "--config", f"{folder}/settings.toml", "--tasks", tasks]
    return ["compare", "--data", f"{folder}/train", *common, "--seeds", "1", "--out", f"{folder}/{out}", *more]


@pytest.fixture(scope="module")
def compared(folder: Path) -> tuple[int, Path]:
    """All rows and one that cannot work: its weights are not there."""
    code = call(*words(folder, "all", "--frozen", f"dinov2-small:{folder}/missing.pth"))
    return code, folder / "all"


def test_one_command_trains_embeds_and_evaluates_all_methods_and_writes_the_table(compared: tuple[int, Path]) -> None:
    _, out = compared
    rows = {path.parts[-3]: Results.load(path) for path in out.glob("rows/*/seed0/results")}
    assert set(rows) == set(ALL)
    assert all(0 <= row.tasks["retrieval"].metrics["map"].value <= 1 for row in rows.values())
    assert {name for name, row in rows.items() if row.method.labels == "labels"} == {"sup", "ta"}
    assert all(row.method.params for name, row in rows.items() if name != "colour-grid")
    table = (out / "report" / "table1.md").read_text()
    positions = [
        table.index(f"| {title} |")
        for title in ("Colour grid", "Frozen backbone", "Untrained", "Sup", "TA", "TPC", "MVE", "SFE", "Ours")
    ]
    assert positions == sorted(positions)
    assert (out / "report" / "table1.tex").exists()
    assert (out / "report" / "table1.html").exists()
    assert "data:image/jpeg;base64" in (out / "report" / "report.html").read_text(), "film strips of queries"


def frames_of(run: Path) -> int:
    return int(read_json(run / "encoder/config.json")["training"]["frames"])


def test_all_methods_have_seen_the_same_number_of_frames(compared: tuple[int, Path]) -> None:
    seen = {run.parts[-3]: frames_of(run) for run in compared[1].glob("rows/*/seed0/run")}
    assert seen.pop("untrained") == 0
    start = frames_of(compared[1] / "starts/sfe/seed0/run")
    assert len(seen) == 6
    for name, frames in seen.items():
        total = frames + (start if name in ("mve", "tpc") else 0)
        assert 240 <= total < 240 + 2 * 120  # at most one more batch each


def test_a_failed_row_is_reported_and_stops_no_other(compared: tuple[int, Path]) -> None:
    code, out = compared
    assert code == 1
    assert "missing.pth" in (out / "rows/dinov2-small/seed0/error.txt").read_text()
    assert [path.parts[-3] for path in out.rglob("error.txt")] == ["dinov2-small"]


def is_result(path: Path) -> bool:
    """Not the state of a row, nor a folder, which changes when a lock file is written and removed."""
    return path.is_file() and path.name != "row.json"


def test_completed_rows_are_skipped_and_the_table_has_the_completed_rows(
    compared: tuple[int, Path], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out = compared
    before = {path: path.stat().st_mtime_ns for path in out.rglob("rows/**/*") if is_result(path)}
    assert call(*words(folder, "all", *(word for row in ALL for word in ("--only", row)))) == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    (out / "report" / "table1.md").unlink()
    capsys.readouterr()
    assert call("compare", "--out", str(out), "--table-only") == 0
    assert "| Ours |" in capsys.readouterr().out
    assert (out / "report" / "table1.md").exists()


@pytest.mark.parametrize("command", ["compare", "ablate"])
def test_an_empty_table_is_an_error_that_names_the_folder(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    for folder, text in (("wrong", "no such folder"), ("empty", "so there is no table")):
        assert call(command, "--out", str(tmp_path / folder), "--table-only") == 2
        printed = capsys.readouterr().err
        assert f"{folder}: no " in printed
        assert text in printed
        assert "-> give the --out of an earlier comparison" in printed
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


def test_a_comparison_in_which_every_row_failed_prints_the_failures_and_no_table(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*words(folder, "failed", "--methods", "untrained", "--encoder.backbone", "no_such_backbone")) == 1
    printed = capsys.readouterr()
    assert "no row has results, so there is no table" in printed.out
    assert "no_such_backbone" in printed.err
    assert call("compare", "--out", f"{folder}/failed", "--table-only") == 2


def test_a_line_that_is_copied_makes_the_row(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*words(folder, "copied", "--methods", "mve", "--dry-run")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[::2] == ["# starts/sfe/seed0", "# rows/mve/seed0"]
    assert not (folder / "copied").exists()
    for command in " && ".join(lines[1::2]).split(" && "):
        program, *rest = shlex.split(command)
        assert program == "polyptrace"
        assert call(*rest) == 0
    results = folder / "copied/rows/mve/seed0/results/results.json"
    made = results.stat().st_mtime_ns
    assert call(*words(folder, "copied", "--methods", "mve", "--only", "mve/seed0", "--keep", "vectors")) == 0
    assert results.stat().st_mtime_ns == made
    assert not (folder / "copied/rows/mve/seed0/run/encoder").exists()
    assert not (folder / "copied/report").exists()


def test_a_comparison_that_was_killed_between_rows_resumes(folder: Path) -> None:
    arguments = words(folder, "killed", "--methods", "colour-grid,untrained,ours")
    first, last = (folder / f"killed/rows/{row}/seed0" for row in ("colour-grid", "ours"))
    process = subprocess.Popen(
        [sys.executable, "-m", "polyptrace", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not (first / "results/results.json").exists():
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (last / "results").exists()
    made = (first / "results/results.json").stat().st_mtime_ns
    assert call(*arguments, "--only", "rows") == 0
    assert (first / "results/results.json").stat().st_mtime_ns == made
    assert (last / "results/results.json").exists()


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_a_comparison_alone_ends_its_rows_and_none_has_failed(folder: Path, sign: signal.Signals) -> None:
    arguments = words(
        folder, f"ended-{sign.name}", "--methods", "mve,ours", "--at-once", "2", "--train.frames", "10000000"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "polyptrace", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    while len(rows := _children(process.pid)) < 2:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(sign)  # as Slurm sends SIGTERM: to this process alone
    try:
        printed = process.communicate(timeout=180)[1]  # a row that starts has to load torch before it can end
    except subprocess.TimeoutExpired:
        process.kill()
        printed = "nothing: it went on"
    left = [pid for pid in rows if _runs(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left
    assert process.returncode == 130
    assert "run the same command again" in printed
    assert not list((folder / f"ended-{sign.name}").rglob("error.txt"))


def _children(pid: int) -> list[int]:
    actual = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return [int(word) for word in actual.stdout.split()]


def _runs(pid: int) -> bool:
    return subprocess.run(["ps", "-p", str(pid)], capture_output=True).returncode == 0


def test_rates_are_searched_on_development_data_and_used_again(folder: Path) -> None:
    arguments = words(folder, "searched", "--methods", "ours", "--search-lr", "1e-3,1e30")
    assert call(*arguments) == 2  # on which data?
    arguments += ["--search-data", f"{folder}/test", "--search-eval", f"{folder}/train"]
    assert call(*arguments, "--only", "ours/seed0") == 2  # the search comes first
    assert call(*arguments, "--only", "search/ours/lr0.001") == 0  # a part of it, to be gone on with
    assert not (folder / "searched/rates.json").exists()
    assert call(*arguments, "--only", "search") == 0
    actual = read_json(folder / "searched/rates.json")
    assert actual["rows"]["ours"]["rate"] == 1e-3
    assert actual["rows"]["ours"]["tried"]["1e+30"] is None
    assert actual["train"].endswith("test")
    made = (folder / "searched/rates.json").stat().st_mtime_ns
    assert call(*arguments, "--only", "ours/seed0") == 0
    assert (folder / "searched/rates.json").stat().st_mtime_ns == made
    record = read_json(folder / "searched/rows/ours/seed0/row.json")
    assert record["trial"]["config"]["optimiser"]["lr"] == 1e-3
    assert call(*arguments, "--optimiser.lr", "1") == 2  # which of the two?


def test_a_row_for_which_no_rate_worked_is_not_trained_with_another_one(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tried = {"tried": {"1e+30": None}, "rate": None, "at_the_end": False}
    write_json(folder / "no-rates.json", {"criterion": "retrieval mAP", "rows": {"ours": tried}})
    assert call(*words(folder, "no-rate", "--methods", "ours", "--rates", f"{folder}/no-rates.json")) == 1
    assert "ours: no learning rate worked" in capsys.readouterr().err
    assert not (folder / "no-rate/rows").exists()


def test_a_published_split_of_the_probe_is_used_as_given(folder: Path) -> None:
    split = ["--train-for", f"size={folder}/train"]
    assert call(*words(folder, "split", "--methods", "colour-grid", *split, tasks="size")) == 0
    size = Results.load(folder / "split/rows/colour-grid/seed0/results").tasks["size"]
    assert size.protocol["split"] == "given"
    assert size.metrics["f1"].n == len(Dataset.open(folder / "test").select("tracklet"))


def test_typing_errors_are_reported_before_anything_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {
        "no such row": ["--methods", "simclr"],
        "no rows -> give --methods or --frozen": ["--methods", ""],
        "no such row ": ["--only", "ours/seed7"],
        "did you mean": ["--optimser.lr", "1"],
        "not TASK=PATH": ["--eval-for", "size"],
        "trains nothing -> give it for size or histology": ["--train-for", f"reid={folder}/train"],
        "--train-for size: this task is not evaluated": ["--train-for", f"size={folder}/train"],
        "--eval-for size: this task is not evaluated": ["--eval-for", f"size={folder}/test"],
        "no such folder": ["--eval", f"{folder}/nowhere"],
        "both contain the video": ["--eval", f"{folder}/test"],
        "task 'sizes'": [],
    }
    for text, arguments in wrong.items():
        assert call(*words(folder, "wrong", *arguments, tasks="retrieval,reid" if arguments else "sizes")) == 2
        assert text.strip() in capsys.readouterr().err
    assert not (folder / "wrong").exists()


def test_test_data_without_labels_are_an_error_before_anything_runs(
    folder: Path, tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unlabelled = replace(read_coco(tiny, split="test"), polyp=np.full(len(read_coco(tiny, split="test")), "", object))
    prepare(unlabelled, tiny, folder / "unlabelled", Tracks(link="video"), Crops(size=32, workers=1))
    out = folder / "nothing"
    assert call("compare", "--eval", folder / "unlabelled", "--methods", "colour-grid", "--out", out) == 2
    assert "has no polyp labels" in capsys.readouterr().err
    words = ["compare", "--eval", folder / "unlabelled", "--train-for", f"size={folder}/train", "--tasks", "size"]
    assert call(*words, "--methods", "colour-grid", "--out", out) == 2
    assert "has no polyp labels" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("task", "shown"),
    [("counting", "table_counting.md, .tex, .html; page: "), ("size", "no task has results, and the page says why")],
)
def test_without_the_tasks_of_table_1_another_table_or_the_page_is_named(
    folder: Path, task: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*words(folder, f"only-{task}", "--methods", "colour-grid", tasks=task)) == 0
    assert shown in " ".join(capsys.readouterr().out.split())


def test_a_second_comparison_is_refused_while_the_first_runs_and_starts_after_it_was_killed(
    folder: Path, capsys: pytest.CaptureFixture[str], start_waiting: Callable[..., "subprocess.Popen[str]"]
) -> None:
    arguments = words(folder, "twice", "--methods", "colour-grid,untrained")
    first = start_waiting("polyptrace.compare.runner.run_trial", *arguments)  # in the row colour-grid
    assert call(*arguments) == 2
    assert f"twice: in use by process {first.pid} on " in capsys.readouterr().err
    assert call(*arguments, "--only", "colour-grid") == 1
    assert f"seed0: in use by process {first.pid} on " in capsys.readouterr().err
    assert not list((folder / "twice").rglob("error.txt"))
    assert call(*arguments, "--only", "untrained") == 0  # rows may be distributed
    first.kill()
    first.wait()
    assert call(*arguments) == 0
    assert not list((folder / "twice").rglob(".*"))
    assert not (folder / ".twice.lock").exists()
