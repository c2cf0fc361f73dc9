"""Commands in processes of their own, several at a time: GPUs take turns, cores are shared out.

At 112 pixels a training step keeps a large GPU busy for less time than Python needs to ask for it: several rows on one
GPU then end sooner than one after the other. A row that crashes takes nothing with it.

SIGTERM, with which schedulers end a job, and SIGINT may reach this process alone (Ctrl-C reaches all processes of a
terminal): it then ends those that it started.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import IO

import torch

from polyptrace.core.device import usable_cores
from polyptrace.core.errors import UserError
from polyptrace.train import SHARED_BY

LOG = "log.txt"
INTERRUPTED = (-signal.SIGINT, 128 + signal.SIGINT)
ENDING = (signal.SIGTERM, signal.SIGINT)
TERMINATED = (-signal.SIGTERM, 128 + signal.SIGTERM)
#: Seconds in which a SIGTERM that was sent to all processes of a job reaches all of them.
SAME_SIGNAL = 1.0
VISIBLE, THREADS = "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS"


class Processes:
    """Runs command lines; one more than `at_once` waits until another has ended."""

    def __init__(self, at_once: int) -> None:
        gpus = visible_gpus()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._starting = self._terminated = False
        self._free: SimpleQueue[dict[str, str]] = SimpleQueue()
        for place in range(at_once):
            threads = str(max(1, usable_cores() // at_once))
            self._free.put({THREADS: threads, **os.environ, **_gpu_of(place, at_once, gpus)})

    def __call__(self, words: Sequence[str], folder: Path) -> None:
        """Runs a command line (without the program's name); what it says goes to log.txt in the row's folder."""
        folder.mkdir(parents=True, exist_ok=True)
        environment = self._free.get()
        try:
            with (folder / LOG).open("ab") as file:
                began = file.tell()
                process = self._start(words, file, environment)
            code = self._wait(process)
        finally:
            self._free.put(environment)
        if code in INTERRUPTED or (code in TERMINATED and self._are_all_to_end()):
            raise KeyboardInterrupt  # nothing has failed
        if code:
            said = (folder / LOG).read_bytes()[began:].decode("utf-8", "replace").strip()
            last = said[-2000:] or "it said nothing"
            raise UserError(f"'polyptrace {words[0]}' ended with code {code}: {last}")

    @contextmanager
    def ended_by_signals(self) -> Iterator[None]:
        """While this lasts, SIGTERM and SIGINT end all commands, and then interrupt; for the main thread."""

        def end(_number: int, _frame: FrameType | None) -> None:
            again, self._terminated = self._terminated, True
            for process in list(self._running):
                process.terminate()
            if not (again or self._starting):  # it would interrupt the waiting for those that end
                raise KeyboardInterrupt

        heeded = [each for each in ENDING if signal.getsignal(each) != signal.SIG_IGN]  # not: in the background
        before = {each: signal.signal(each, end) for each in heeded}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _start(self, words: Sequence[str], file: IO[bytes], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """A command, among those that signals end; none interrupts its start, or nobody would know of it."""
        self._starting = True
        try:
            command = [sys.executable, "-m", "polyptrace", *words]
            process = subprocess.Popen(command, stdout=file, stderr=file, env=environment)  # noqa: S603
            self._running.add(process)
        finally:
            self._starting = False
        return process

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        """The exit code of a command, which does not outlive the waiting for it."""
        try:
            if self._terminated:  # as it was started, and not yet among those that are ended
                process.terminate()
            return process.wait()
        finally:
            process.terminate()  # nothing, where it has ended
            process.wait()
            self._running.remove(process)

    def _are_all_to_end(self) -> bool:
        """Whether the SIGTERM that ended a command is for this process too, where it may come a moment later."""
        if not self._terminated:
            time.sleep(SAME_SIGNAL)
        return self._terminated


def _gpu_of(place: int, at_once: int, gpus: Sequence[str]) -> dict[str, str]:
    """What tells a row its GPU, and with how many rows it shares it; a row alone has all of them."""
    if at_once == 1 or not gpus:
        return {}
    turn = place % len(gpus)
    return {VISIBLE: gpus[turn], SHARED_BY: str(len(range(turn, at_once, len(gpus))))}


def visible_gpus() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get(VISIBLE)
    if named is None:
        return [str(number) for number in range(torch.cuda.device_count())]
    return [name.strip() for name in named.split(",") if name.strip()]
