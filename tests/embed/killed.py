"""Embeds in child processes, whole and with kills: python -m tests.embed.killed ENCODER DATASET OUT KILLS

The vectors are in OUT/whole and OUT/killed. ENCODER is `torch` or a folder of ONNX graphs. Every batch takes at least
BATCH_SECONDS and is counted in a file. Prints the number of kills, the batches of both runs, and the most that one kill
may repeat.
"""

import math
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

from polyptrace.cli.embed import write_vectors
from polyptrace.config import Embed
from polyptrace.embed import OnnxEncoder, embedding, onnx, partial
from polyptrace.encoders import ColourGrid
from tests.killing import start_until_done

BATCH_SECONDS, BATCH, EVERY = 0.02, 2, 0.15
KIND, DATA, OUT, KILLS = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])


def counting(function: Any, counter: Path) -> Any:
    """A function of a batch that also counts it."""

    def counted(*arguments: Any) -> Any:
        with counter.open("ab") as file:
            os.write(file.fileno(), b".")
        time.sleep(BATCH_SECONDS)
        return function(*arguments)

    return counted


def run(name: str) -> None:
    """One start of the same command."""
    torch.set_num_threads(1)
    partial.EVERY = EVERY
    embedding.CPU_BATCH, onnx.BATCH_FRAMES, onnx.RUNS = BATCH, BATCH, 1
    owner = ColourGrid if KIND == "torch" else OnnxEncoder
    method = "frame_features" if KIND == "torch" else "features"
    setattr(owner, method, counting(getattr(owner, method), OUT / f"{name}.count"))
    encoder = ColourGrid.name if KIND == "torch" else KIND
    write_vectors(encoder, DATA, OUT / name, None, Embed(device="cpu", block_frames=40))


def batches(name: str) -> int:
    """Batches computed so far."""
    counter = OUT / f"{name}.count"
    return counter.stat().st_size if counter.exists() else 0


def start(name: str, kills: int) -> int:
    """Starts the command until it ends by itself, after some kills. Returns the number of kills."""
    return start_until_done(lambda: run(name), OUT / name, lambda: batches(name), kills, (10, 16), BATCH_SECONDS)


if __name__ == "__main__":
    start("whole", 0)
    done = start("killed", KILLS)
    most = math.ceil(EVERY / BATCH_SECONDS) + 1
    sys.stdout.write(f"{done} {batches('whole')} {batches('killed')} {most}\n")
