"""Rows in worker processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polyptrace.compare.rows import ROWS, ComparisonRow
from polyptrace.compare.runner import Workers, begin_trial, run_trials
from polyptrace.compare.trial import Datasets, Shared, Trial, make_trial
from polyptrace.core.errors import UserError
from polyptrace.evaluate import Results

#: A program that ends when its standard input does, or after a minute.
READ = "timeout 60 cat"


@pytest.fixture
def trial(make_dataset: Callable[..., Path], tmp_path: Path) -> Trial:
    data = Datasets(None, (make_dataset(tmp_path / "test", [[2, 2], [2, 3]]),))
    shared = Shared(tmp_path / "out", {"evaluate": {"bootstrap": 20}}, ("retrieval",))
    return make_trial(ROWS["colour-grid"], 0, "rows/colour-grid/seed0", data, shared)


def test_a_worker_runs_a_row_and_its_output_is_kept(trial: Trial) -> None:
    Workers(2)(trial)
    assert Results.load(trial.results).method.name == "Colour grid"
    assert "embedding on cpu" in (trial.folder / "log.txt").read_text()


def test_a_failure_of_a_worker_has_its_message(trial: Trial, tmp_path: Path) -> None:
    row = ComparisonRow("x", "X", "Baseline", encoder=str(tmp_path / "missing"))
    broken = make_trial(row, 0, "rows/x/seed0", trial.data, Shared(tmp_path / "out"))
    with pytest.raises(UserError, match=r"the row's process ended with code 2: (.|\n)*error: .*missing"):
        Workers(2)(broken)


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A replacement for Python that writes its environment."""
    program = tmp_path / "python"
    program.write_text('#!/bin/sh\necho "${CUDA_VISIBLE_DEVICES-any} ${POLYPTRACE_GPU_SHARED_BY-1} $OMP_NUM_THREADS"\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr("polyptrace.compare.runner.usable_cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("POLYPTRACE_GPU_SHARED_BY", raising=False)
    return program


@pytest.fixture
def log(trial: Trial, program: Path) -> Path:
    """What the program writes."""
    assert program.exists()
    return trial.folder / "log.txt"


def test_gpus_take_turns_and_rows_know_how_many_share_theirs(
    log: Path, trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    workers = Workers(3)
    for _ in range(3):
        workers(trial)
    assert log.read_text().split("\n")[:-1] == ["3 2 2", "5 1 2", "3 2 2"]


def test_a_single_row_may_use_the_whole_machine(log: Path, trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    Workers(1)(trial)
    assert log.read_text() == "3,5 1 8\n"


def test_a_given_number_of_threads_is_kept(log: Path, trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    Workers(4)(trial)
    assert log.read_text() == "any 1 5\n"


def test_a_worker_that_ctrl_c_stopped_has_not_failed(trial: Trial, program: Path) -> None:
    program.write_text("#!/bin/sh\nexit 130\n")
    with pytest.raises(KeyboardInterrupt):
        Workers(2)(trial)


def test_a_worker_that_is_killed_alone_has_failed(trial: Trial, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyptrace.compare.runner.SAME_SIGNAL", 0.01)
    program.write_text("#!/bin/sh\nkill -TERM $$\n")
    with pytest.raises(UserError, match="ended with code -15"):
        Workers(2)(trial)


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_running_worker(trial: Trial, program: Path, sign: signal.Signals) -> None:
    program.write_text(f"#!/bin/sh\nkill -{int(sign)} {os.getpid()}\nexec {READ}\n")
    before = signal.getsignal(sign)
    workers, began = Workers(1), time.monotonic()
    with pytest.raises(KeyboardInterrupt), workers.ended_by_signals():
        run_trials([trial], run=workers, at_once=1)
    assert time.monotonic() - began < 30
    assert signal.getsignal(sign) is before


def test_a_second_signal_ends_a_worker_that_does_not_stop(trial: Trial, program: Path) -> None:
    send = f"kill -TERM {os.getpid()}"
    program.write_text(f"#!/bin/sh\n{send}\n{READ}\n{send}\nexec sleep 60\n")
    workers, began = Workers(1), time.monotonic()
    with pytest.raises(KeyboardInterrupt), workers.ended_by_signals():
        run_trials([trial], run=workers, at_once=1)
    assert time.monotonic() - began < 30


def test_an_interrupted_worker_may_finish_what_it_does(trial: Trial, program: Path, tmp_path: Path) -> None:
    program.write_text(f"#!/bin/sh\nkill -TERM {os.getpid()}\n{READ}\nsleep 1\ntouch {tmp_path}/checkpoint\n")
    workers = Workers(1)
    with pytest.raises(KeyboardInterrupt), workers.ended_by_signals():
        run_trials([trial], run=workers, at_once=1)
    assert (tmp_path / "checkpoint").exists()


def test_after_a_signal_no_worker_is_started(trial: Trial, program: Path, tmp_path: Path) -> None:
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    workers = Workers(1)

    def run_after_a_signal() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        run_trials([trial], run=workers, at_once=1)

    with pytest.raises(KeyboardInterrupt), workers.ended_by_signals():
        run_after_a_signal()
    assert not (tmp_path / "started").exists()
    assert not (trial.folder / "row.json").exists()


def test_a_signal_that_is_ignored_in_the_background_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Workers(1).ended_by_signals():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_a_worker_is_being_started_ends_it(
    trial: Trial, program: Path, monkeypatch: pytest.MonkeyPatch, sign: signal.Signals
) -> None:
    started = []

    class Signalled(subprocess.Popen[bytes]):
        def __init__(self, *words: Any, **settings: Any) -> None:
            os.kill(os.getpid(), sign)
            time.sleep(0.2)  # the signal is handled in the main thread meanwhile
            super().__init__(*words, **settings)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Signalled)
    program.write_text(f"#!/bin/sh\nexec {READ}\n")
    workers = Workers(1)
    with pytest.raises(KeyboardInterrupt), workers.ended_by_signals():
        run_trials([trial], run=workers, at_once=1)
    assert started[0].returncode is not None


def test_a_worker_ends_when_the_process_that_started_it_is_killed(trial: Trial, tmp_path: Path) -> None:
    program = tmp_path / "python"  # the worker's interpreter, with a row that takes a minute
    program.write_text(
        f"#!/bin/sh\nshift 2\nexec {sys.executable} -c 'import sys, time; from polyptrace.compare import runner;"
        ' print("started", flush=True); runner.end_with_parent(); time.sleep(60)\' "$@"\n'
    )
    program.chmod(0o755)
    begin_trial(trial)
    code = f"""
import sys
from pathlib import Path
from polyptrace.compare.runner import Workers
from polyptrace.compare.runner import load_trial
sys.executable = {str(program)!r}
Workers(2)(load_trial(Path({str(trial.folder)!r})))
"""
    parent = subprocess.Popen([sys.executable, "-c", code])
    log = trial.folder / "log.txt"
    while not (log.exists() and "started" in log.read_text()):
        assert parent.poll() is None
        time.sleep(0.01)
    (worker,) = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
    parent.kill()
    parent.wait()
    for _ in range(1000):
        if not Path(f"/proc/{worker}").exists() or ") Z " in Path(f"/proc/{worker}/stat").read_text():
            return
        time.sleep(0.01)
    os.kill(int(worker), signal.SIGKILL)
    pytest.fail("the worker was still running after 10 s")
