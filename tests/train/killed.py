"""Trains in child processes, once without interruption and once with kills: python killed.py DATASET OUT KILLS

The runs are OUT/whole and OUT/killed. Each start is a real process, forked after the imports so that it starts at once.
Each kill is a real SIGKILL, at a random moment after the run has made at least one step. Prints the number of kills.
"""

import multiprocessing
import random
import sys
import time
from pathlib import Path

import torch

from polyptrace.config import Config, Encoder, Optimiser, Supervision, Train
from polyptrace.data import Dataset
from polyptrace.train import train

CONFIG = Config(
    supervision=Supervision(bags_per_batch=3, bag_size=2),
    encoder=Encoder("test_resnet", "none", width=16, layers=2, heads=2, feed_forward=24, projection=8),
    optimiser=Optimiser(lr=1e-3),
    train=Train(epochs=5, threads=1, checkpoint_every=2, loggers=()),
)


def run(data: str, out: Path) -> None:
    """One start of the same command."""
    torch.set_num_threads(1)
    train(CONFIG, Dataset.open(data), out)


def steps_logged(out: Path) -> int:
    """Lines in the log so far."""
    log = out / "metrics.jsonl"
    return log.read_bytes().count(b"\n") if log.exists() else 0


def start_until_done(data: str, out: Path, wanted: int) -> int:
    """Starts the training until it ends by itself, after `wanted` kills. Returns the number of kills."""
    forked, chance, kills = multiprocessing.get_context("fork"), random.Random(0), 0
    while not (out / "encoder").exists():
        process = forked.Process(target=run, args=(data, out))
        process.start()
        if kills < wanted:
            before, target = steps_logged(out), chance.randint(1, 6)
            while process.is_alive() and steps_logged(out) < before + target:
                time.sleep(0.002)
            time.sleep(chance.uniform(0, 0.1))
            kills += process.is_alive()
            process.kill()
        process.join()
        if process.exitcode not in (0, -9):
            sys.exit(1)
    return kills


if __name__ == "__main__":
    start_until_done(sys.argv[1], Path(sys.argv[2]) / "whole", 0)
    kills = start_until_done(sys.argv[1], Path(sys.argv[2]) / "killed", int(sys.argv[3]))
    sys.stdout.write(f"{kills}\n")
