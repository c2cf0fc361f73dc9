"""The worker process of one row: `python -m polyptrace.compare.worker FOLDER all|vectors`.

Its standard input is a pipe that the process that started it keeps open and never writes to. The pipe ends with that
process, even if it is killed, and the worker then stops like after SIGTERM: training writes a checkpoint first.
"""

import os
import signal
import sys
import threading
from pathlib import Path

from polyptrace.compare.runner import Keep, load_trial, run_trial
from polyptrace.core.errors import UserError


def work(folder: Path, keep: Keep) -> int:
    """Runs the trial that `row.json` in a folder describes; returns the exit code."""
    try:
        run_trial(load_trial(folder), keep)
    except UserError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


def end_with_parent() -> None:
    """Sends SIGTERM to this process when its standard input ends."""

    def wait() -> None:
        os.read(0, 1)  # returns at the end; the lock of `sys.stdin` would block the exit
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    end_with_parent()
    sys.exit(work(Path(sys.argv[1]), "vectors" if sys.argv[2] == "vectors" else "all"))
