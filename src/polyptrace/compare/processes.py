"""Commands in processes of their own, several at a time: GPUs take turns, cores are shared out.

At 112 pixels a training step keeps a large GPU busy for less time than Python needs to ask for it: several rows on one
GPU then end sooner than one after the other. A row that crashes takes nothing with it.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue

import torch

from polyptrace.cores import usable_cores
from polyptrace.errors import UserError

LOG = "log.txt"
INTERRUPTED = (-signal.SIGINT, 128 + signal.SIGINT)  # Ctrl-C reaches all processes of a terminal: nothing has failed
VISIBLE, THREADS = "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS"


class Processes:
    """Runs command lines; one more than `at_once` waits until another has ended."""

    def __init__(self, at_once: int) -> None:
        gpus = visible_gpus()
        self._free: SimpleQueue[dict[str, str]] = SimpleQueue()
        for place in range(at_once):
            one = {VISIBLE: gpus[place % len(gpus)]} if gpus and at_once > 1 else {}
            self._free.put({THREADS: str(max(1, usable_cores() // at_once)), **os.environ, **one})

    def __call__(self, words: Sequence[str], folder: Path) -> None:
        """Runs a command line (without the program's name); what it says goes to log.txt in the row's folder."""
        folder.mkdir(parents=True, exist_ok=True)
        environment = self._free.get()
        try:
            with (folder / LOG).open("ab") as file:
                began = file.tell()
                command = [sys.executable, "-m", "polyptrace", *words]
                done = subprocess.run(command, stdout=file, stderr=file, env=environment, check=False)  # noqa: S603
        finally:
            self._free.put(environment)
        if done.returncode in INTERRUPTED:
            raise KeyboardInterrupt
        if done.returncode:
            said = (folder / LOG).read_bytes()[began:].decode("utf-8", "replace").strip()
            last = said[-2000:] or "it said nothing"
            raise UserError(f"'polyptrace {words[0]}' ended with code {done.returncode}: {last}")


def visible_gpus() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get(VISIBLE)
    if named is None:
        return [str(number) for number in range(torch.cuda.device_count())]
    return [name.strip() for name in named.split(",") if name.strip()]
