"""python -m benchmarks memory

Peak memory of `polyptrace prepare`, `train`, `embed` and `evaluate` as processes limited to 1 GiB, on a crop store of
2 GiB (`evaluate`: tracks whose similarity matrix has 1.6 GB). The limit is a Linux control group (version 1 or 2) and
needs root; without it the memory is only measured. Anonymous memory counts; the kernel can drop pages of the store.
Batches are small (160 and 64 frames), since a batch of the published size alone takes 0.3 GB as floats. A second run
on a quarter of the data shows whether memory grows with it.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from benchmarks.evaluation import table
from benchmarks.result import Result, Row, number_text
from benchmarks.timing import ONE_CORE, mebibytes
from polyptrace.core.codec import encode_jpeg
from polyptrace.data import Boxes
from polyptrace.synthetic.generate import write_coco

GROUPS = Path("/sys/fs/cgroup")
WIDTH, HEIGHT, TRACK, VIDEO = 320, 256, 64, 1_280
SMALL_ENCODER = {
    "encoder.backbone": "test_resnet",
    "encoder.weights": "none",
    "encoder.width": 16,
    "encoder.layers": 1,
    "encoder.heads": 2,
    "encoder.feed_forward": 16,
    "encoder.projection": 8,
}


@dataclass(frozen=True)
class Scale:
    """Size of the data; memory in MiB."""

    frames: int = 12_800
    tracks: int = 20_000  # for evaluate
    crop: int = 232
    steps: int = 40  # of 160 frames
    limit: int = 1024

    @property
    def store(self) -> float:
        """MiB of the crop store."""
        return self.frames * self.crop**2 * 3 / 2**20


@dataclass(frozen=True)
class Peak:
    """Peak memory of a command in MiB; `limited`: whether the limit was enforced."""

    anonymous: float
    with_files: float
    seconds: float
    limited: bool


@contextmanager
def control_group(limit: int) -> Iterator[Path | None]:
    """A control group limited to `limit` MiB, or None if this process may not create one."""
    first = (GROUPS / "memory").is_dir()
    group = (GROUPS / "memory" if first else GROUPS) / f"polyptrace-{os.getpid()}"
    try:
        group.mkdir()
        (group / ("memory.limit_in_bytes" if first else "memory.max")).write_text(str(limit * 2**20))
    except OSError:
        yield None
        return
    try:
        yield group
    finally:
        group.rmdir()


def run(words: list[object], limit: int) -> Peak:
    """Runs `polyptrace WORDS` in a control group and samples its memory."""
    with control_group(limit) as group, tempfile.TemporaryFile() as errors:

        def enter() -> None:
            if group is not None:
                (group / "cgroup.procs").write_text(str(os.getpid()))

        begun, anonymous, all_pages = time.perf_counter(), 0.0, 0.0
        command = [sys.executable, "-m", "polyptrace", *map(str, words)]
        environment = {**os.environ, **ONE_CORE}
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, preexec_fn=enter, env=environment)
        while process.poll() is None:
            anonymous = max(anonymous, mebibytes("RssAnon", process.pid))
            all_pages = mebibytes("VmHWM", process.pid) or all_pages
            time.sleep(0.01)
        errors.seek(0)
        if process.returncode:
            raise RuntimeError(f"polyptrace {words[0]} ended with {process.returncode}:\n{errors.read().decode()}")
        return Peak(anonymous, all_pages, time.perf_counter() - begun, group is not None)


def write_source(folder: Path, scale: Scale) -> None:
    """Eight JPEGs, hard-linked to one name per frame, and their boxes as COCO: tracks of 64 frames."""
    (folder / "images").mkdir(parents=True)
    generator = torch.Generator().manual_seed(0)
    for index in range(8):
        coarse = torch.rand(1, 3, 16, 20, generator=generator)
        picture = torch.nn.functional.interpolate(coarse, (HEIGHT, WIDTH), mode="bilinear")[0] * 255
        (folder / "images" / f"{index:06d}.jpg").write_bytes(encode_jpeg(picture.to(torch.uint8), 90))
    for index in range(8, scale.frames):
        (folder / "images" / f"{index:06d}.jpg").hardlink_to(folder / "images" / f"{index % 8:06d}.jpg")
    frame = np.arange(scale.frames)
    track = frame // TRACK
    left = 20.0 + 120 * (track % 2)
    names = np.array([f"v{number}" for number in range(scale.frames // VIDEO + 1)], object)
    boxes = Boxes.of(
        dataset="generated",
        video=names[frame // VIDEO],
        frame_index=frame % VIDEO,
        xywh=np.stack([left, np.full(len(frame), 50.0), np.full(len(frame), 60.0), np.full(len(frame), 60.0)], 1),
        file=np.array([f"{number:06d}.jpg" for number in frame], object),
        image_width=WIDTH,
        image_height=HEIGHT,
        polyp=[f"p{number}" for number in track // 2],
        size_mm=5.0,
        histology="AD",
        fps=25.0,
    )
    write_coco(folder / "annotations/instances_train.json", boxes)


def all_commands(folder: Path, scale: Scale) -> dict[str, Peak]:
    """Peak memory of each command; each reads what the previous one wrote."""
    write_source(folder / "source", scale)
    vectors, polyp = table(scale.tracks)
    np.savez(folder / "tracks.npz", vectors=vectors, polyp=polyp.astype(str), video=(polyp // 5).astype(str))
    del vectors
    data, run_folder = folder / "data", folder / "run"
    settings = {
        **SMALL_ENCODER,
        "supervision.bags_per_batch": 4,
        "train.crop_size": 32,
        "train.frames": scale.steps * 4 * 5 * 8,
    }
    chosen = [word for key, value in settings.items() for word in (f"--{key}", value)]
    tracks = ("--tracks.stride", 1, "--tracks.min-track", 8, "--crops.size", scale.crop, "--crops.workers", 1)
    commands: dict[str, list[object]] = {
        "prepare": ["coco", folder / "source", "--out", data, *tracks],
        "train": ["ours", "--data", data, "--out", run_folder, *chosen],
        "embed": [run_folder, "--data", data, "--out", folder / "vectors", "--embed.batch-frames", 64],
        "evaluate": ["retrieval", "reid", "--embeddings", folder / "tracks.npz", "--out", folder / "results"],
    }
    commands["evaluate"] += ["--evaluate.bootstrap", 20, "--evaluate.variants", "false"]
    return {name: run([name, *words], scale.limit) for name, words in commands.items()}


def measure(quick: bool = False, scale: Scale | None = None) -> Result:
    """Peak memory of each command on all data and on a quarter of it; `quick`: on little data, once."""
    scale = scale or (Scale(frames=640, tracks=400, crop=64, steps=2) if quick else Scale())
    quarter = replace(scale, frames=scale.frames // 4, tracks=scale.tracks // 4)
    with tempfile.TemporaryDirectory() as folder:
        whole = all_commands(Path(folder), scale)
    with tempfile.TemporaryDirectory() as folder:
        part = whole if quick else all_commands(Path(folder), quarter)
    rows, details = [], [("", "data, MiB", "MiB on a quarter", "MiB", "with pages of files", "limit held", "s")]
    for name, large in whole.items():
        small = part[name]
        size = scale.tracks**2 * 4 / 2**20 if name == "evaluate" else scale.store
        rows.append(
            Row(f"memory of {name}", "MiB", large.anonymous, size, most=scale.limit, plain_name="the data in memory")
        )
        numbers = map(number_text, (size, small.anonymous, large.anonymous, large.with_files))
        details.append((name, *numbers, "yes" if large.limited else "only measured", number_text(large.seconds)))
    note = (
        "Peak anonymous memory of the process, including imports. Plain: the data itself in memory "
        f"(crops of {scale.frames:,} frames; for evaluate the similarity matrix of {scale.tracks:,} tracks)."
    )
    return Result("memory", tuple(rows), note, tuple(details))
