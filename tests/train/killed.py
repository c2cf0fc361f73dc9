"""Trains in child processes, whole and with kills: python -m tests.train.killed DATASET OUT KILLS

The runs are OUT/whole and OUT/killed. A kill comes after at least one more step. Prints the number of kills.
"""

import sys
from pathlib import Path

import torch

from polyptrace.config import Config, Encoder, Optimiser, Supervision, Train
from polyptrace.data import Dataset
from polyptrace.train import train
from tests.killing import start_until_done

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


def start(data: str, out: Path, kills: int) -> int:
    """Starts the training until it ends by itself, after some kills. Returns the number of kills."""
    return start_until_done(lambda: run(data, out), out / "encoder", lambda: steps_logged(out), kills, (1, 6), 0.1)


if __name__ == "__main__":
    start(sys.argv[1], Path(sys.argv[2]) / "whole", 0)
    kills = start(sys.argv[1], Path(sys.argv[2]) / "killed", int(sys.argv[3]))
    sys.stdout.write(f"{kills}\n")
