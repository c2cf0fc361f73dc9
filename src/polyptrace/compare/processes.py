"""Rows in worker processes, several at a time: GPUs take turns, and CPU cores are shared.

At 112 pixels a training step keeps a large GPU busy for less time than Python needs to launch it, so several rows on
one GPU finish sooner than one after the other. A row that crashes does not affect the others.

SIGTERM, which schedulers send to end a job, and SIGINT may reach this process only (Ctrl-C reaches all processes of a
terminal). It then ends its workers. A worker also ends if this process is killed.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType
from typing import IO

import torch

from polyptrace.compare.runner import Keep, begin_trial
from polyptrace.compare.trial import Trial
from polyptrace.core.device import usable_cores
from polyptrace.core.errors import UserError
from polyptrace.train import SHARED_BY

LOG = "log.txt"
INTERRUPTED = (-signal.SIGINT, 128 + signal.SIGINT)
TERMINATED = (-signal.SIGTERM, 128 + signal.SIGTERM)
SIGNALS = (signal.SIGTERM, signal.SIGINT)
#: Seconds within which a SIGTERM that was sent to all processes of a job reaches all of them.
SAME_SIGNAL = 1.0
VISIBLE, THREADS = "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS"


class Workers:
    """Runs each trial in a separate process, at most `at_once` at a time."""

    def __init__(self, at_once: int) -> None:
        gpus = visible_gpus()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._starting = self._terminated = False
        self._free: SimpleQueue[dict[str, str]] = SimpleQueue()
        for slot in range(at_once):
            threads = str(max(1, usable_cores() // at_once))
            self._free.put({THREADS: threads, **os.environ, **_gpu_variables(slot, at_once, gpus)})

    def __call__(self, trial: Trial, keep: Keep = "all") -> None:
        """Runs a trial; its output goes to log.txt in its folder."""
        begin_trial(trial)
        environment = self._free.get()
        try:
            with (trial.folder / LOG).open("ab") as file:
                offset = file.tell()
                process = self._start([str(trial.folder), keep], file, environment)
            code = self._wait(process)
        finally:
            self._free.put(environment)
        if code in INTERRUPTED or (code in TERMINATED and self._all_terminated()):
            raise KeyboardInterrupt  # not a failure
        if code:
            text = (trial.folder / LOG).read_bytes()[offset:].decode("utf-8", "replace").strip()
            raise UserError(f"the row's process ended with code {code}: {text[-2000:] or 'no output'}")

    @contextmanager
    def ended_by_signals(self) -> Iterator[None]:
        """Inside this block, SIGTERM and SIGINT end all workers and then interrupt; for the main thread."""

        def end(_number: int, _frame: FrameType | None) -> None:
            again, self._terminated = self._terminated, True
            for process in list(self._running):
                process.terminate()
            if not (again or self._starting):  # would interrupt the wait for processes that are ending
                raise KeyboardInterrupt

        handled = [each for each in SIGNALS if signal.getsignal(each) != signal.SIG_IGN]  # ignored: in the background
        before = {each: signal.signal(each, end) for each in handled}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _start(
        self, arguments: Sequence[str], file: IO[bytes], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Starts a worker. A signal must not interrupt this, or the new process would be unknown."""
        self._starting = True
        try:
            command = [sys.executable, "-m", "polyptrace.compare.worker", *arguments]
            process = subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.PIPE, stdout=file, stderr=file, env=environment
            )
            self._running.add(process)
        finally:
            self._starting = False
        return process

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        """The exit code of a worker, which never outlives this wait."""
        try:
            if self._terminated:  # the signal came while the process was being started
                process.terminate()
            return process.wait()
        finally:
            if not self._terminated:  # a second signal would stop training before its checkpoint
                process.terminate()  # no effect if it has ended
            process.wait()
            self._running.remove(process)

    def _all_terminated(self) -> bool:
        """Whether the SIGTERM that ended a worker was sent to this process too, perhaps a moment later."""
        if not self._terminated:
            time.sleep(SAME_SIGNAL)
        return self._terminated


def _gpu_variables(slot: int, at_once: int, gpus: Sequence[str]) -> dict[str, str]:
    """Environment variables with the GPU of a slot and the number of rows that share it; a single row has all GPUs."""
    if at_once == 1 or not gpus:
        return {}
    turn = slot % len(gpus)
    return {VISIBLE: gpus[turn], SHARED_BY: str(len(range(turn, at_once, len(gpus))))}


def visible_gpus() -> list[str]:
    """The GPUs that this process may use, as in CUDA_VISIBLE_DEVICES."""
    named = os.environ.get(VISIBLE)
    if named is None:
        return [str(number) for number in range(torch.cuda.device_count())]
    return [name.strip() for name in named.split(",") if name.strip()]
