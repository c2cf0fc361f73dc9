"""From a preset and a seed to a folder: whole, or not at all."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor

from polyptrace.core.console import progress
from polyptrace.core.device import one_thread, usable_cores
from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_folder, provenance, read_json, write_json
from polyptrace.core.randomness import numpy_generator
from polyptrace.core.reuse import differences, refuse_changes
from polyptrace.data import Boxes
from polyptrace.synthetic.presets import Preset, find_preset
from polyptrace.synthetic.procedure import Procedure, draw_procedure
from polyptrace.synthetic.selection import box_table
from polyptrace.synthetic.sheets import write_sheet
from polyptrace.synthetic.writing import coco, rendered_rows, write_pictures

NOTE = "synthetic.json"
ENOUGH_FOR_PROCESSES = 4  # cores, and procedures
LARGEST_GAP = 3  # tracks.max_gap up to which pictures are there when the detector misses boxes


def generate(
    out: Path,
    preset: Preset | str = "small",
    seed: int = 0,
    *,
    device: str = "auto",
    every_frame: bool = False,
    contact_sheets: bool = False,
    workers: int = 0,
    overwrite: bool = False,
) -> bool:
    """Writes procedures to `out`; False if they were there already, made with the same settings.

    The folder holds images/, annotations/instances_{train,test}.json and synthetic.json, and sheets/ if asked for.
    The same seed gives the same bytes on the same kind of device, whatever the number of workers (0: one per core).
    """
    chosen = find_preset(preset) if isinstance(preset, str) else preset
    out = Path(out)
    settings = _settings(chosen, seed, every_frame, contact_sheets)
    if not overwrite and (out / NOTE).exists():
        refuse_changes(
            f"{out}: already exists, made",
            differences(read_json(out / NOTE)["settings"], settings),
            "repeat what it was made with, give another folder, or pass --overwrite",
        )
        return False
    where = pick_device(device)
    with atomic_folder(out, overwrite=overwrite, mark=NOTE) as folder, one_thread():
        procedures = draw_procedures(chosen, seed, workers)
        tables = [box_table(each) for each in procedures]
        gap = LARGEST_GAP if chosen.difficulty.box_dropout > 0 else 0
        rows = [rendered_rows(*pair, every_frame, gap) for pair in zip(procedures, tables, strict=True)]
        (folder / "images").mkdir()
        with progress("rendering", sum(len(each) for each in rows), "frames") as bar:
            jobs = zip(procedures, rows, strict=True)
            write_pictures(jobs, folder / "images", where, _workers(workers), bar.advance)
        info = {"generated": True, "preset": chosen.name, "regime": chosen.regime, "seed": seed}
        for split in ("train", "test"):
            part = [boxes for each, boxes in zip(procedures, tables, strict=True) if each.split == split]
            write_json(folder / "annotations" / f"instances_{split}.json", coco(Boxes.concatenate(part), info))
        if contact_sheets:
            for procedure, boxes in zip(procedures, tables, strict=True):
                write_sheet(procedure, boxes, folder, folder / "sheets" / f"{procedure.video}.png")
        write_json(folder / NOTE, {"settings": settings, "device": where.type, "made_by": provenance()})
    return True


def draw_procedures(preset: Preset, seed: int, workers: int = 0) -> list[Procedure]:
    """All procedures of a preset, training ones first, not yet rendered."""
    splits = ["train"] * preset.train_videos + ["test"] * preset.test_videos
    counts = [
        *_share(preset.train_polyps, preset.train_videos, seed, 0),
        *_share(preset.test_polyps, preset.test_videos, seed, 1),
    ]
    several = _workers(workers)
    # Processes take seconds to start, which pays where there are many cores and much to do.
    kind = "loky" if min(several, len(splits)) >= ENOUGH_FOR_PROCESSES else "threading"
    draw = delayed(_draw_alone if kind == "loky" else draw_procedure)
    jobs = (draw(seed, number, *each, preset) for number, each in enumerate(zip(splits, counts, strict=True), 1))
    procedures: list[Procedure] = []
    with progress("drawing", len(splits), "procedures") as bar:
        for procedure in Parallel(several, backend=kind, return_as="generator")(jobs):
            procedures.append(procedure)
            bar.advance()
    if kind == "loky":
        get_reusable_executor().shutdown()
    return procedures


def _draw_alone(seed: int, number: int, split: str, polyps: int, preset: Preset) -> Procedure:
    torch.set_num_threads(1)  # of this process, which does nothing else
    return draw_procedure(seed, number, split, polyps, preset)


def pick_device(name: str) -> torch.device:
    """The device of that name; auto: a GPU when there is one."""
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("device cuda: there is no usable GPU -> give --device cpu, or auto")
    return torch.device(name if name != "auto" else "cuda" if torch.cuda.is_available() else "cpu")


def _settings(preset: Preset, seed: int, every_frame: bool, contact_sheets: bool) -> dict[str, Any]:
    plain = asdict(preset) | {"track_frames": list(preset.track_frames)}
    return {"preset": plain, "seed": seed, "every_frame": every_frame, "contact_sheets": contact_sheets}


def _workers(wanted: int) -> int:
    return wanted or usable_cores()


def _share(polyps: int, videos: int, seed: int, stream: int) -> list[int]:
    """How many of the polyps each video has: at least three where that is possible, more in some than in others."""
    rng = numpy_generator(seed, 1_000_000, stream)
    fewest = min(3, polyps // videos)
    weight = rng.dirichlet(np.full(videos, 2.0))
    extra = rng.multinomial(polyps - fewest * videos, weight)
    return [int(fewest + each) for each in extra]
