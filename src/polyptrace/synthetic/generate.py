"""Writes generated procedures to a folder: JPEG frames, one COCO file per split, contact sheets, provenance."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor

from polyptrace.core.arrays import Ints, Pixels
from polyptrace.core.codec import decode_image, encode_jpeg
from polyptrace.core.console import counted, progress
from polyptrace.core.device import choose_device, torch_threads, usable_cores
from polyptrace.core.files import atomic_folder, differences, provenance, read_json, refuse_changes, write_json
from polyptrace.core.read_ahead import map_ahead
from polyptrace.core.schema import from_json
from polyptrace.data import Boxes, cut_tracklets, link_tracks
from polyptrace.data.crops.videos import write_video
from polyptrace.data.identity import by_appearance
from polyptrace.synthetic.presets import Preset, find_preset
from polyptrace.synthetic.procedure import Procedure, draw_procedures
from polyptrace.synthetic.render import Scene, on_device

NOTE = "synthetic.json"
ADVICE = "choose another folder, or pass --overwrite"
QUALITY = 90
BATCH_PIXELS = 460_000  # pixels rendered at once; small enough for the processor's cache
BATCH_PIXELS_GPU = 16_000_000
RENDERERS_GPU = 3  # more threads only wait for Python's global lock
SHEET_COLUMNS = 8
CAPTION = 16  # pixels above each row of a contact sheet

Split = Literal["all", "train", "test"]
RenderJob = tuple[Procedure, Ints]


def generate(
    out: Path,
    preset: Preset | str = "small",
    seed: int = 0,
    *,
    split: Split = "all",
    device: str = "auto",
    every_frame: bool = False,
    contact_sheets: bool = False,
    videos: bool = False,
    workers: int = 0,
    overwrite: bool = False,
) -> bool:
    """Writes procedures to `out`; returns False if `out` already holds them, made with the same settings.

    The folder holds images/, annotations/instances_{train,test}.json, synthetic.json and, if requested, sheets/ and
    videos/. On one kind of device the same seed gives the same bytes for any number of workers (0: one per core), and
    `split` renders only the training or only the test procedures of the same dataset.
    """
    preset = find_preset(preset) if isinstance(preset, str) else preset
    out, workers = Path(out), workers or usable_cores()
    options = {"split": split, "every_frame": every_frame, "contact_sheets": contact_sheets, "videos": videos}
    as_json = asdict(preset) | {"track_frames": list(preset.track_frames)}
    settings = {"preset": as_json, "seed": seed} | options
    if not overwrite and (out / NOTE).exists():
        refuse_changes(
            f"{out}: already exists, made",
            differences(from_json(_Note, read_json(out / NOTE), str(out / NOTE), ADVICE).settings, settings),
            f"use the same settings, {ADVICE}",
        )
        return False
    chosen_device = choose_device(device, "--device")[0]
    with atomic_folder(out, overwrite=overwrite, mark=NOTE) as folder, torch_threads(1):
        drawn = [(procedure, procedure.box_table()) for procedure in draw_procedures(preset, seed, workers, split)]
        missed_boxes = preset.difficulty.box_dropout > 0
        jobs = [(each, each.frames_to_render(boxes, every_frame, missed_boxes)) for each, boxes in drawn]
        (folder / "images").mkdir()
        with progress("rendering", sum(len(rows) for _, rows in jobs), "frames") as bar:
            write_images(jobs, folder / "images", chosen_device, workers, bar.advance)
        info = {"generated": True, "preset": preset.name, "regime": preset.regime, "seed": seed}
        for name in dict.fromkeys(each.split for each, _ in drawn):
            part = [boxes for each, boxes in drawn if each.split == name]
            write_coco(folder / "annotations" / f"instances_{name}.json", Boxes.concatenate(part), info)
        if contact_sheets:
            (folder / "sheets").mkdir()
            for procedure, boxes in drawn:
                contact_sheet(procedure, boxes, folder).save(folder / "sheets" / f"{procedure.video}.png")
        if videos:
            (folder / "videos").mkdir()
            with progress("encoding videos", len(drawn), "videos") as bar:
                for procedure, _ in drawn:
                    file = folder / "videos" / f"{procedure.video}.mp4"
                    write_video(file, _all_frames(procedure, folder / "images"), procedure.fps, generated=True)
                    bar.advance()
        write_json(folder / NOTE, {"settings": settings, "device": chosen_device.type, "made_by": provenance()})
    return True


@dataclass(frozen=True)
class _Note:
    """The fields of `synthetic.json`."""

    settings: dict[str, Any]
    device: str
    made_by: dict[str, Any]


def _all_frames(procedure: Procedure, images: Path) -> Iterator[Pixels]:
    """Every frame of a procedure: black at first; a frame without an image repeats the last one."""
    shown = np.zeros((procedure.scene.camera.height, procedure.scene.camera.width, 3), np.uint8)
    for index in range(int(procedure.paths.frame_index.max()) + 1):
        path = images / procedure.file_name(index)
        if path.is_file():
            shown = decode_image(path.read_bytes()).permute(1, 2, 0).contiguous().numpy()
        yield shown


def write_images(
    jobs: Iterable[RenderJob], folder: Path, device: torch.device, workers: int, advance: Callable[[int], None]
) -> None:
    """Renders the given frames (rows) of procedures and writes them as JPEG; `advance` receives finished counts."""

    def write(file: Path, image: Tensor) -> None:
        file.write_bytes(encode_jpeg(image, QUALITY))

    def work(part: tuple[Procedure, Scene, Ints]) -> int:
        procedure, scene, rows = part
        files = [folder / procedure.file_name(int(procedure.paths.frame_index[row])) for row in rows]
        list(encoders.map(write, files, procedure.render(rows, scene).cpu()))
        return len(rows)

    on_gpu = device.type == "cuda"
    renderers, pixels = (min(workers, RENDERERS_GPU), BATCH_PIXELS_GPU) if on_gpu else (workers, BATCH_PIXELS)

    def parts() -> Iterator[tuple[Procedure, Scene, Ints]]:
        for procedure, rows in jobs:
            scene = on_device(procedure.scene, device)
            size = max(1, pixels // (scene.camera.width * scene.camera.height))
            yield from ((procedure, scene, rows[start : start + size]) for start in range(0, len(rows), size))

    with ThreadPoolExecutor(workers) as encoders:  # few parts ahead: the scene of each takes memory of the device
        for count in map_ahead(work, parts(), renderers, ahead=2 * renderers):
            advance(count)


def write_coco(path: Path, boxes: Boxes, info: dict[str, Any] | None = None) -> None:
    """Writes a box table as COCO in the authors' layout: one image per frame with a box; polyp, size, histology."""
    image_id = by_appearance(boxes.file)
    images = [
        {
            "id": number,
            "file_name": Path(boxes.file[row]).name,
            "width": int(boxes.image_width[row]),
            "height": int(boxes.image_height[row]),
            "frame_id": int(boxes.frame_index[row]),
            "sequence_id": boxes.video[row],
            "dataset_id": boxes.dataset[row],
            "fps": float(boxes.fps[row]),
        }
        for number, row in enumerate(np.unique(image_id, return_index=True)[1])
    ]
    annotations = [
        {
            "id": row,
            "image_id": int(image_id[row]),
            "category_id": 1,
            "identity_id": boxes.polyp[row],
            "bbox": box,
            "area": round(box[2] * box[3], 2),
            "iscrowd": 0,
            "size": float(boxes.size_mm[row]),
            "histology": boxes.histology[row],
        }
        for row, box in enumerate(boxes.xywh.tolist())
    ]
    categories = [{"id": 1, "name": "polyp"}]
    write_json(path, {"info": info or {}, "images": images, "annotations": annotations, "categories": categories})


def contact_sheet(procedure: Procedure, boxes: Boxes, root: Path) -> Image.Image:
    """One row per polyp: the middle frames of up to eight tracks, in time order, with boxes; images below `root`."""
    camera = procedure.scene.camera
    row_height = camera.height + CAPTION
    sheet = Image.new("RGB", (SHEET_COLUMNS * camera.width, len(procedure.scene.polyps) * row_height))
    draw = ImageDraw.Draw(sheet)
    tracks = cut_tracklets(boxes, link_tracks(boxes, "polyp"), length=None)
    middles = np.array([rows[len(rows) // 2] for rows in tracks.rows], dtype=np.int64)
    for row, polyp in enumerate(procedure.scene.polyps):
        mine = middles[tracks.polyp == polyp.name]
        facts = (polyp.name, f"{polyp.size_mm:.1f} mm", polyp.histology, polyp.morphology, counted(len(mine), "track"))
        draw.text((4, row * row_height + 2), "   ".join(facts), fill=(255, 255, 255))
        if len(mine) > SHEET_COLUMNS:
            mine = mine[np.linspace(0, len(mine) - 1, SHEET_COLUMNS).round().astype(int)]
        for column, box in enumerate(mine):
            left, top = column * camera.width, row * row_height + CAPTION
            with Image.open(root / boxes.file[box]) as image:
                sheet.paste(image, (left, top))
            x, y, w, h = boxes.xywh[box]
            draw.rectangle((left + x, top + y, left + x + w, top + y + h), outline=(80, 255, 80))
            time = f"frame {boxes.frame_index[box]:,}"
            draw.text((left + 4, top + camera.height - 13), time, fill=(200, 200, 200))
    return sheet
