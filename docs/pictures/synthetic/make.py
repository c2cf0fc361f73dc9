"""python docs/pictures/synthetic/make.py

Renders the pictures of docs/synthetic.md into this folder: tracks of one procedure, and the effect of the options
view-memory, view-change and alike. Half a minute on one core.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from polyptrace.core.device import one_thread
from polyptrace.synthetic import PRESETS, Preset, with_difficulty
from polyptrace.synthetic.procedure import Procedure, draw_procedure

HERE = Path(__file__).parent
LARGE: Preset = replace(
    PRESETS["small"], width=336, height=288, texel_mm=0.1875, tracklets=20, difficulty=PRESETS["full"].difficulty
)
COLUMNS = 7
CAPTION = 18  # pixels


def tracks(procedure: Procedure, polyp: int, consecutive: bool = False) -> Image.Image:
    """The middle frames of tracks of one polyp, spread over the procedure or consecutive, with gaps in frames."""
    boxes = procedure.box_table()
    rows = procedure.frames_to_render(boxes)
    rows = rows[~np.isnan(procedure.boxes[rows, polyp, 0])]
    looks = np.unique(procedure.paths.look[rows])
    step = np.arange(COLUMNS) if consecutive else np.linspace(0, len(looks) - 1, min(COLUMNS, len(looks))).round()
    looks = looks[step.astype(int)[: len(looks)]]
    middle = [int(np.flatnonzero(procedure.paths.look[rows] == look).mean()) for look in looks]
    chosen = rows[middle]
    strip = Image.new("RGB", (COLUMNS * 224, 192))
    end = None
    for column, (row, look, picture) in enumerate(zip(chosen, looks, pictures(procedure, chosen), strict=True)):
        frame = Image.fromarray(picture)
        ImageDraw.Draw(frame).rectangle(procedure.boxes[row, polyp].tolist(), outline=(80, 255, 80), width=2)
        strip.paste(frame.resize((224, 192), Image.Resampling.LANCZOS), (column * 224, 0))
        start = procedure.looks[look].start
        if end is not None:
            ImageDraw.Draw(strip).text((column * 224 + 4, 178), f"+{start - end:,}", fill=(255, 255, 255))
        end = start + procedure.looks[look].frames
    return strip


def pictures(procedure: Procedure, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Pictures (n, H, W, 3) of the given frames."""
    parts = [procedure.render(rows[start : start + 4]) for start in range(0, len(rows), 4)]
    rendered: NDArray[np.uint8] = torch.cat(parts).permute(0, 2, 3, 1).numpy()
    return rendered


def portrait(procedure: Procedure, polyp: int) -> Image.Image:
    """The frame in which a polyp is largest, cropped around it."""
    rows = procedure.frames_to_render(procedure.box_table())
    boxes = procedure.boxes[rows, polyp]
    inner = (boxes[:, :2] > 4).all(axis=1) & (boxes[:, 2:] < [LARGE.width - 4, LARGE.height - 4]).all(axis=1)
    area = np.where(inner, (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]), -1.0)
    best = int(np.nanargmax(area))
    x0, y0, x1, y1 = boxes[best]
    reach = 0.95 * max(x1 - x0, y1 - y0)
    x, y = (x0 + x1) / 2, (y0 + y1) / 2
    frame = Image.fromarray(pictures(procedure, rows[best : best + 1])[0])
    return frame.crop((round(x - reach), round(y - reach), round(x + reach), round(y + reach))).resize((192, 192))


def stack(strips: list[tuple[str, Image.Image]], name: str) -> None:
    """Writes captioned strips, one below the other."""
    height = strips[0][1].height + CAPTION
    sheet = Image.new("RGB", (strips[0][1].width, len(strips) * height), (24, 24, 24))
    draw = ImageDraw.Draw(sheet)
    for index, (caption, strip) in enumerate(strips):
        draw.text((6, index * height + 3), caption, fill=(255, 255, 255))
        sheet.paste(strip, (0, index * height + CAPTION))
    small = sheet.resize((sheet.width * 3 // 4, sheet.height * 3 // 4), Image.Resampling.LANCZOS)
    small.save(HERE / name, quality=82, optimize=True)


def procedure_rows() -> None:
    """One procedure, one row per polyp."""
    procedure = draw_procedure(0, 5, "train", 4, LARGE)
    strips = []
    for index, polyp in enumerate(procedure.scene.polyps):
        caption = f"{polyp.name}: {polyp.size_mm} mm, {polyp.histology}, {polyp.morphology}"
        strips.append((caption, tracks(procedure, index)))
    stack(strips, "procedure-5.jpg")


def options() -> None:
    """The effect of three options."""
    strips = []
    for memory in (100.0, 0.0):
        preset = with_difficulty(LARGE, view_memory=memory, resight=0.0)
        procedure = draw_procedure(1, 1, "train", 1, preset)
        strips.append((f"consecutive tracks, --view-memory {memory:g}", tracks(procedure, 0, consecutive=True)))
    stack(strips, "view-memory.jpg")
    strips = []
    for change in (0.0, 0.65, 1.0):
        procedure = draw_procedure(1, 1, "train", 1, with_difficulty(LARGE, view_change=change, view_memory=0.0))
        strips.append((f"one polyp, --view-change {change} --view-memory 0", tracks(procedure, 0)))
    stack(strips, "view-change.jpg")
    strips = []
    for alike in (0.0, 1.0):
        preset = with_difficulty(LARGE, alike=alike, view_change=0.3, resight=0.0, interleave=0.0)
        procedure = draw_procedure(2, 1, "train", COLUMNS, preset)
        strip = Image.new("RGB", (COLUMNS * 192, 192))
        for polyp in range(COLUMNS):
            strip.paste(portrait(procedure, polyp), (polyp * 192, 0))
        strips.append((f"the polyps of one procedure, --alike {alike}", strip))
    stack(strips, "alike.jpg")


if __name__ == "__main__":
    with one_thread():
        procedure_rows()
        options()
