"""python -m benchmarks.synth [--frames 96]

Generated procedures: seconds to draw one, and frames per second rendered and written as JPEG, for each preset's picture
size; on one core, on all of them, and on a GPU where there is one. The last column is what the whole preset then takes.
Expected: `small` about a minute on two cores, `full` under two minutes on a GPU.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from polyptrace.synthetic import PRESETS, Preset, draw_procedure
from polyptrace.synthetic.generate import one_thread
from polyptrace.synthetic.procedure import Procedure
from polyptrace.synthetic.selection import box_table
from polyptrace.synthetic.writing import rendered_rows, write_pictures


def rate(procedure: Procedure, frames: int, device: torch.device, workers: int) -> float:
    """Frames per second, written to a temporary folder; a first batch, which warms up, is not counted."""
    rows = rendered_rows(procedure, box_table(procedure))
    rows = np.resize(rows, frames)
    with tempfile.TemporaryDirectory() as folder:
        write_pictures([(procedure, rows[:2])], Path(folder), device, 1, lambda _: None)
        start = time.perf_counter()
        write_pictures([(procedure, rows)], Path(folder), device, workers, lambda _: None)
        return frames / (time.perf_counter() - start)


def line(preset: Preset, frames: int) -> None:
    """Measures one preset and prints its line for each device."""
    start = time.perf_counter()
    procedure = draw_procedure(0, 1, "train", 3, preset)
    drawing = time.perf_counter() - start
    videos, polyps = preset.train_videos + preset.test_videos, preset.train_polyps + preset.test_polyps
    wanted = polyps * len(rendered_rows(procedure, box_table(procedure))) / len(procedure.scene.polyps)
    cores = len(os.sched_getaffinity(0))
    places = [("cpu", 1), ("cpu", cores)] + ([("cuda", cores)] if torch.cuda.is_available() else [])
    for name, workers in places:
        count = frames if name == "cpu" else frames * 20
        speed = rate(procedure, count, torch.device(name), workers)
        whole = videos * drawing / workers + wanted / speed
        size = f"{preset.width}x{preset.height}"
        print(f"{preset.name:7}{size:>9}{name:>6}{workers:4}{drawing:9.2f}{speed:11.1f}{wanted:9.0f}{whole:9.0f}")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=96)
    parser.add_argument("--preset", choices=list(PRESETS), action="append")
    arguments = parser.parse_args()
    print("preset   picture device cores  draw s   frames/s   frames   whole s")
    with one_thread():
        for name in arguments.preset or PRESETS:
            line(PRESETS[name], arguments.frames)


if __name__ == "__main__":
    main()
