"""From a preset and a seed to a folder: whole, or not at all."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from polyptrace.data import Boxes
from polyptrace.files import provenance, whole_folder, write_json
from polyptrace.progress import progress
from polyptrace.synthetic.presets import Preset, find_preset
from polyptrace.synthetic.procedure import Procedure, draw_procedure
from polyptrace.synthetic.selection import box_table
from polyptrace.synthetic.writing import coco, rendered_rows, write_pictures


def generate(
    out: Path,
    preset: Preset | str = "small",
    seed: int = 0,
    *,
    device: str = "auto",
    every_frame: bool = False,
    workers: int = 0,
    overwrite: bool = False,
) -> None:
    """Writes procedures to `out`: images/, annotations/instances_{train,test}.json, synthetic.json."""
    chosen = find_preset(preset) if isinstance(preset, str) else preset
    where = pick_device(device)
    with whole_folder(Path(out), overwrite=overwrite) as folder, one_thread():
        procedures = draw_procedures(chosen, seed, workers)
        (folder / "images").mkdir()
        tables = [box_table(each) for each in procedures]
        rows = [rendered_rows(each, boxes, every_frame) for each, boxes in zip(procedures, tables, strict=True)]
        with progress("render", sum(len(each) for each in rows), "frames") as bar:
            for procedure, frames in zip(procedures, rows, strict=True):
                write_pictures(procedure, frames, folder / "images", where, _workers(workers), bar.advance)
        for split in ("train", "test"):
            part = [boxes for each, boxes in zip(procedures, tables, strict=True) if each.split == split]
            write_json(folder / "annotations" / f"instances_{split}.json", coco(Boxes.concatenate(part)))
        write_json(folder / "synthetic.json", {"preset": asdict(chosen), "seed": seed, "made_by": provenance()})


def draw_procedures(preset: Preset, seed: int, workers: int = 0) -> list[Procedure]:
    """All procedures of a preset, training ones first, not yet rendered."""
    splits = ["train"] * preset.train_videos + ["test"] * preset.test_videos
    counts = [
        *_share(preset.train_polyps, preset.train_videos, seed, 0),
        *_share(preset.test_polyps, preset.test_videos, seed, 1),
    ]
    jobs = [
        (seed, number + 1, split, count, preset)
        for number, (split, count) in enumerate(zip(splits, counts, strict=True))
    ]
    with ThreadPoolExecutor(_workers(workers)) as pool:
        return list(pool.map(lambda job: draw_procedure(*job), jobs))


def pick_device(name: str) -> torch.device:
    """The device of that name; auto: a GPU when there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


@contextmanager
def one_thread() -> Iterator[None]:
    """Operations run on one thread each, so that no sum depends on the number of cores; we run several at a time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _workers(wanted: int) -> int:
    return wanted or len(os.sched_getaffinity(0))


def _share(polyps: int, videos: int, seed: int, stream: int) -> list[int]:
    """How many of the polyps each video has: at least two where that is possible, more in some than in others."""
    rng = np.random.default_rng([seed, 1_000_000 + stream])
    fewest = min(3, polyps // videos)
    weight = rng.dirichlet(np.full(videos, 2.0))
    extra = rng.multinomial(polyps - fewest * videos, weight)
    return [int(fewest + each) for each in extra]
