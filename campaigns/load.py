"""Large inputs under a memory limit: 20,000 images through prepare, a million boxes through check, 100,000 tracklets
through evaluate. The limit is a control group, which needs root; otherwise the memory is measured and compared.
"""

import random
from dataclasses import fields
from pathlib import Path

import numpy as np

from benchmarks.evaluation import table
from benchmarks.memory import Scale, run, write_source
from campaigns.findings import Findings
from polyptrace.data import Boxes, Dataset

LIMIT = 2048  # MiB
LARGE, SMALL = (20_000, 1_000_000, 100_000), (256, 2_000, 400)  # images, boxes, tracklets


def campaign(
    folder: Path, _inputs: Path, _seconds: float, cases: int, _rng: random.Random, names: list[str]
) -> Findings:
    """Runs each command once; returns its duration, its memory in MiB, and failures."""
    images, boxes, tracklets = SMALL if cases == 1 else LARGE
    write_source(folder / "source", Scale(frames=images))
    vectors, polyp = table(tracklets)
    np.savez(folder / "vectors.npz", vectors=vectors, polyp=polyp.astype(str), video=(polyp // 5).astype(str))
    del vectors
    data = folder / "large"
    tracks = ["--tracks.stride", 1, "--tracks.min-track", 8, "--crops.size", 64, "--crops.workers", 1]
    evaluation = ["--evaluate.bootstrap", 20, "--evaluate.variants", "false"]
    commands: dict[str, tuple[str, list[object]]] = {
        "prepare": (f"{images:,} images", ["coco", folder / "source", "--out", data, *tracks]),
        "check": (f"{boxes:,} boxes", [data]),
        "evaluate": (
            f"{tracklets:,} tracklets",
            ["retrieval", "reid", "--embeddings", folder / "vectors.npz", "--out", folder / "r", *evaluation],
        ),
    }
    findings = Findings()
    for name, (size, words) in commands.items():
        if names and name not in names:
            continue
        if name == "check":
            _add_boxes(data, boxes)
        try:
            peak = run([name, *words], LIMIT)
        except RuntimeError as error:
            findings.fail(f"{name}, {size}", str(error)[-1000:])
            continue
        memory = {"MiB": round(peak.anonymous), "limit MiB": LIMIT, "limit enforced": int(peak.limited)}
        findings.counts[f"{name}, {size}"].update({"seconds": round(peak.seconds), **memory})
        if peak.anonymous > LIMIT:
            findings.fail(f"{name}, {size}", f"took {peak.anonymous:.0f} MiB, more than {LIMIT}")
    return findings


def _add_boxes(data: Path, count: int) -> None:
    """Adds copies of a dataset's boxes in further videos until it has `count`."""
    dataset = Dataset.open(data)
    boxes, crop_row = dataset.boxes(), dataset.box_of_crop()
    copies = -(-count // len(boxes))
    columns = {f.name: np.concatenate([getattr(boxes, f.name)] * copies)[:count] for f in fields(Boxes)}
    copy = np.arange(count) // len(boxes)
    columns["video"] = np.array([f"{video}-{n}" for video, n in zip(columns["video"], copy, strict=True)], object)
    crop = np.full(count, -1)
    crop[crop_row] = np.arange(len(crop_row))
    Boxes(**columns).save(data / "boxes.parquet", crop=crop)
