"""python -m benchmarks synth

Generated procedures: seconds to draw one, frames per second rendered and written as JPEG at each preset's picture size,
and the estimated time of the whole preset; on one core and on all cores, or on the GPU if there is one.
Expected: `small` about a minute on two cores, `full` three minutes on a GPU.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.result import Result, Row, number_text
from benchmarks.timing import best_of
from polyptrace.core.device import torch_threads, usable_cores
from polyptrace.synthetic import PRESETS, Preset
from polyptrace.synthetic.generate import write_images
from polyptrace.synthetic.procedure import Procedure, draw_procedure


def rate(procedure: Procedure, frames: int, device: torch.device, workers: int) -> float:
    """Frames per second, written to a temporary folder, after a warm-up batch."""
    rows = procedure.frames_to_render(procedure.box_table())
    rows = np.resize(rows, frames)
    with tempfile.TemporaryDirectory() as folder:
        write_images([(procedure, rows[:2])], Path(folder), device, 1, lambda _: None)
        start = time.perf_counter()
        write_images([(procedure, rows)], Path(folder), device, workers, lambda _: None)
        return frames / (time.perf_counter() - start)


def measure(quick: bool = False) -> Result:
    """Frames per second of every preset, and the estimated time of the whole preset."""
    frames = 8 if quick else 96
    rows, details = [], [("preset", "picture", "device", "cores", "drawing, s", "frames/s", "frames", "whole, s")]
    with torch_threads(1):
        for preset in list(PRESETS.values())[: 1 if quick else None]:
            new_rows, cells = measure_preset(preset, frames)
            rows += new_rows
            details += cells
    note = "Drawing: one procedure; whole: every procedure of the preset drawn, rendered and written."
    return Result("synth", tuple(rows), note, tuple(details))


def measure_preset(preset: Preset, frames: int) -> tuple[list[Row], list[tuple[str, ...]]]:
    """The rows and details of one preset on each device."""
    drawing, procedure = best_of(1, lambda: draw_procedure(0, 1, "train", 3, preset))
    videos, polyps = preset.train_videos + preset.test_videos, preset.train_polyps + preset.test_polyps
    pictures = polyps * len(procedure.frames_to_render(procedure.box_table())) / len(procedure.scene.polyps)
    cores = usable_cores()
    devices = [("cuda", cores)] if torch.cuda.is_available() else [("cpu", 1), ("cpu", cores)]
    rows, details = [], []
    for name, workers in devices:
        count = frames if name == "cpu" else frames * 20
        speed = rate(procedure, count, torch.device(name), workers)
        whole = videos * drawing / workers + pictures / speed
        where = f"{workers} core{'s' if workers > 1 else ''}" if name == "cpu" else "GPU"
        rows.append(Row(f"preset {preset.name}, {where}", "frames/s", speed, more_is_better=True))
        size = f"{preset.width}×{preset.height}"
        numbers = (f"{drawing:.2f}", number_text(speed), f"{pictures:,.0f}", number_text(whole))
        details.append((preset.name, size, name, str(workers), *numbers))
    return rows, details
