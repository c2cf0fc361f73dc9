"""Commands in processes of their own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from polyptrace.compare import Processes
from polyptrace.core.errors import UserError


def test_what_a_command_says_is_kept_and_a_failure_ends_with_it(tmp_path: Path) -> None:
    run = Processes(2)
    run(["settings", "loss"], tmp_path / "row")
    assert "--loss.temperature" in (tmp_path / "row/log.txt").read_text()
    with pytest.raises(UserError, match=r"'polyptrace settings' ended with code 2: .*no section is called losses"):
        run(["settings", "losses"], tmp_path / "row")


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where a stand-in for Python writes what it was started with."""
    program = tmp_path / "python"
    program.write_text('#!/bin/sh\necho "${CUDA_VISIBLE_DEVICES-any} ${POLYPTRACE_GPU_SHARED_BY-1} $OMP_NUM_THREADS"\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr("polyptrace.compare.processes.usable_cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("POLYPTRACE_GPU_SHARED_BY", raising=False)
    return tmp_path / "row/log.txt"


def test_gpus_take_turns_rows_know_who_shares_theirs_and_cores_are_shared_out(
    said: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    run = Processes(3)
    for _ in range(3):
        run(["train"], said.parent)
    assert said.read_text().split("\n")[:-1] == ["3 2 2", "5 1 2", "3 2 2"]


def test_a_row_alone_may_use_the_whole_machine(said: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    Processes(1)(["train"], said.parent)
    assert said.read_text() == "3,5 1 8\n"


def test_threads_that_are_set_stay(said: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    Processes(4)(["train"], said.parent)
    assert said.read_text() == "any 1 5\n"


def test_a_command_that_ctrl_c_stopped_has_not_failed(said: Path) -> None:
    Path(sys.executable).write_text("#!/bin/sh\nexit 130\n")
    with pytest.raises(KeyboardInterrupt):
        Processes(2)(["train"], said.parent)


def test_a_command_that_is_killed_alone_has_failed(said: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyptrace.compare.processes.SAME_SIGNAL", 0.01)
    Path(sys.executable).write_text("#!/bin/sh\nkill -TERM $$\n")
    with pytest.raises(UserError, match="ended with code -15"):
        Processes(2)(["train"], said.parent)


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_command_that_is_waited_for(said: Path, sign: signal.Signals) -> None:
    Path(sys.executable).write_text(f"#!/bin/sh\nkill -{int(sign)} {os.getpid()}\nexec sleep 60\n")
    before = signal.getsignal(sign)
    run, began = Processes(1), time.monotonic()
    with pytest.raises(KeyboardInterrupt), run.ended_by_signals():
        run(["train"], said.parent)
    assert time.monotonic() - began < 30
    assert signal.getsignal(sign) is before


def test_a_signal_that_is_ignored_in_the_background_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Processes(1).ended_by_signals():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_as_a_command_is_being_started_ends_it_all_the_same(
    said: Path, monkeypatch: pytest.MonkeyPatch, sign: signal.Signals
) -> None:
    started = []

    class Struck(subprocess.Popen[bytes]):
        def __init__(self, *words: Any, **settings: Any) -> None:
            super().__init__(*words, **settings)
            started.append(self)
            os.kill(os.getpid(), sign)  # there is a process, and nobody knows of it yet

    monkeypatch.setattr(subprocess, "Popen", Struck)
    Path(sys.executable).write_text("#!/bin/sh\nexec sleep 60\n")
    run = Processes(1)
    with pytest.raises(KeyboardInterrupt), run.ended_by_signals():
        run(["train"], said.parent)
    left = started[0].poll() is None
    started[0].kill()
    started[0].wait()
    assert not left
