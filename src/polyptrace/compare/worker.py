"""The worker process of one row: `python -m polyptrace.compare.worker FOLDER all|vectors`."""

import signal
import sys
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


if __name__ == "__main__":
    sys.exit(work(Path(sys.argv[1]), "vectors" if sys.argv[2] == "vectors" else "all"))
