"""Writes procedures as any source would give them: JPEG frames and a COCO file per split, in the authors' layout."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyptrace.core.codec import encode_jpeg
from polyptrace.data import Boxes
from polyptrace.synthetic.procedure import Procedure
from polyptrace.synthetic.render import Scene, render
from polyptrace.synthetic.selection import frame_name, frames_used

QUALITY = 90
BATCH_PIXELS = 460_000  # pixels rendered at once: few enough for the processor's cache
BATCH_PIXELS_GPU = 16_000_000
RENDERERS_GPU = 3


def coco(boxes: Boxes, info: dict[str, Any] | None = None) -> dict[str, Any]:
    """The COCO file of a box table: an image for every frame with a box; boxes with polyp, size and histology."""
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    number_of: dict[str, int] = {}
    for row, file in enumerate(boxes.file):
        if file not in number_of:
            number_of[file] = len(images)
            images.append(
                {
                    "id": len(images),
                    "file_name": Path(file).name,
                    "width": int(boxes.image_width[row]),
                    "height": int(boxes.image_height[row]),
                    "frame_id": int(boxes.frame_index[row]),
                    "sequence_id": boxes.video[row],
                    "dataset_id": boxes.dataset[row],
                    "fps": float(boxes.fps[row]),
                }
            )
        box = [float(number) for number in boxes.xywh[row]]
        annotations.append(
            {
                "id": row,
                "image_id": number_of[file],
                "category_id": 1,
                "identity_id": boxes.polyp[row],
                "bbox": box,
                "area": round(box[2] * box[3], 2),
                "iscrowd": 0,
                "size": float(boxes.size_mm[row]),
                "histology": boxes.histology[row],
            }
        )
    return {
        "info": info or {},
        "images": images,
        "annotations": annotations,
        "categories": [{"id": 1, "name": "polyp"}],
    }


def rendered_rows(
    procedure: Procedure, boxes: Boxes, every_frame: bool = False, largest_gap: int = 0
) -> NDArray[np.int64]:
    """Rows of the procedure's frames that get a picture, from its box table."""
    wanted = boxes.frame_index if every_frame else frames_used(boxes, largest_gap)
    return np.flatnonzero(np.isin(procedure.paths.frame_index, wanted)).astype(np.int64)


def write_pictures(
    wanted: Iterable[tuple[Procedure, NDArray[np.int64]]],
    folder: Path,
    device: torch.device,
    workers: int,
    advance: Callable[[int], None],
) -> None:
    """Renders and writes frames (rows) of procedures, some batches at a time; each batch is on its own.

    On a GPU few threads render, so that they do not queue for Python's lock, and all `workers` encode.
    """

    def work(batch: tuple[Procedure, Scene, NDArray[np.int64]]) -> int:
        procedure, scene, rows = batch
        files = [folder / frame_name(procedure.video, int(procedure.paths.frame_index[row])) for row in rows]
        list(encoders.map(_write, files, render_rows(procedure, scene, rows).cpu()))
        return len(rows)

    renderers = min(workers, RENDERERS_GPU) if device.type == "cuda" else workers
    with ThreadPoolExecutor(workers) as encoders, ThreadPoolExecutor(renderers) as pool:
        for done in pool.map(work, _batches(wanted, device)):
            advance(done)


def _write(file: Path, picture: Tensor) -> None:
    file.write_bytes(encode_jpeg(picture, QUALITY))


def _batches(
    wanted: Iterable[tuple[Procedure, NDArray[np.int64]]], device: torch.device
) -> Iterator[tuple[Procedure, Scene, NDArray[np.int64]]]:
    for procedure, rows in wanted:
        scene = procedure.scene.to(device)
        pixels = BATCH_PIXELS_GPU if device.type == "cuda" else BATCH_PIXELS
        size = max(1, pixels // (scene.camera.width * scene.camera.height))
        for start in range(0, len(rows), size):
            yield procedure, scene, rows[start : start + size]


def render_rows(procedure: Procedure, scene: Scene, rows: NDArray[np.int64]) -> Tensor:
    """Pictures (B, 3, H, W) uint8 of some frames of a procedure; `scene` is its scene, on the device to render on."""
    device = scene.grain.device
    index = torch.from_numpy(rows)
    views = procedure.paths.views.take(index).to(device)
    conditions = procedure.conditions.take(index).to(device)
    seeds = torch.from_numpy(procedure.paths.frame_index[rows])
    with torch.inference_mode():
        return render(scene, views, conditions, seeds)[0]
