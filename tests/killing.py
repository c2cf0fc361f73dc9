"""Runs a function in child processes that are killed at random moments, until it ends by itself."""

import multiprocessing
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path


def run_script(module: str, *arguments: object) -> list[int]:
    """Runs a script that calls `start_until_done`; returns the numbers in its last line."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    root = Path(__file__).parents[1]
    ended = subprocess.run(command, check=True, timeout=300, capture_output=True, text=True, cwd=root)
    return [int(word) for word in ended.stdout.splitlines()[-1].split()]


def start_until_done(
    run: Callable[[], None],
    result: Path,
    progress: Callable[[], int],
    wanted: int,
    steps: tuple[int, int],
    pause: float,
) -> int:
    """Starts `run` until `result` exists, and kills it `wanted` times; returns the number of kills.

    Each start is a real process, forked after the imports so that it starts at once. Each kill is a real SIGKILL,
    after `progress` has grown by a random number of `steps` (least, most) and a random part of `pause` seconds.
    """
    forked, chance, kills = multiprocessing.get_context("fork"), random.Random(0), 0
    while not result.exists():
        process = forked.Process(target=run)
        process.start()
        if kills < wanted:
            target = progress() + chance.randint(*steps)
            while process.is_alive() and progress() < target:
                time.sleep(0.002)
            time.sleep(chance.uniform(0, pause))
            kills += process.is_alive()
            process.kill()
        process.join()
        if process.exitcode not in (0, -9):
            sys.exit(1)
    return kills
