"""Small real sources: JPEG images on disk and their boxes."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from polyptrace.core.codec import encode_jpeg
from polyptrace.data import Boxes


@pytest.fixture
def make_source(tmp_path: Path) -> Callable[..., tuple[Boxes, Path]]:
    """Writes `frames` JPEG images a video, with one drifting box of one polyp in each."""

    def make(videos: int = 2, frames: int = 72, width: int = 96, height: int = 72) -> tuple[Boxes, Path]:
        root = tmp_path / "source"
        root.mkdir()
        generator = torch.Generator().manual_seed(0)
        columns: dict[str, list[object]] = {"video": [], "frame_index": [], "xywh": [], "file": [], "polyp": []}
        for video in range(videos):
            coarse = torch.rand(1, 3, 6, 8, generator=generator)
            scene = torch.nn.functional.interpolate(coarse, (height, width), mode="bicubic").clamp(0, 1)[0]
            for frame in range(frames):
                name = f"v{video}_{frame:04d}.jpg"
                picture = (scene.roll(frame, dims=2) * 255).to(torch.uint8)
                (root / name).write_bytes(encode_jpeg(picture, quality=95))
                columns["video"].append(f"v{video}")
                columns["frame_index"].append(frame)
                columns["xywh"].append((20.0 + frame * 0.5, 30.0, 12.0, 10.0))
                columns["file"].append(name)
                columns["polyp"].append(f"v{video}_1")
        boxes = Boxes.of(**columns, image_width=width, image_height=height, fps=25.0, size_mm=4.0, histology="AD")
        return boxes, root

    return make


@pytest.fixture
def two_crossing() -> Boxes:
    """Two boxes that pass each other in one video, 20 frames, each with its own track and polyp name."""
    frame = np.arange(20)
    left = np.stack([10.0 + 4 * frame, np.full(20, 30.0), np.full(20, 30.0), np.full(20, 30.0)], 1)
    right = np.stack([90.0 - 4 * frame, np.full(20, 50.0), np.full(20, 30.0), np.full(20, 30.0)], 1)
    names = np.repeat(["a", "b"], 20)
    return Boxes.of(
        video="v",
        frame_index=np.tile(frame, 2),
        xywh=np.concatenate([left, right]),
        track=names.astype(object),
        polyp=names.astype(object),
    )
