"""python docs/pictures/synthetic/make.py

Draws the pictures of docs/synthetic.md beside this file: contact sheets of two procedures, and what each difficulty
number does. A few minutes on one core.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw

from polyptrace.synthetic import PRESETS, Preset, Procedure, draw_procedure, with_difficulty
from polyptrace.synthetic.generate import one_thread
from polyptrace.synthetic.selection import box_table
from polyptrace.synthetic.writing import render_rows, rendered_rows

HERE = Path(__file__).parent
BIG: Preset = replace(
    PRESETS["small"],
    width=336,
    height=288,
    texel_mm=0.1875,
    tracklets=8,
    fewest_tracklets=5,
    difficulty=PRESETS["full"].difficulty,
)
COLUMNS = 7


def tracks(procedure: Procedure, polyp: int, columns: int) -> Image.Image:
    """The middle frames of some looks at one polyp, side by side, with boxes."""
    rows = rendered_rows(procedure, box_table(procedure))
    rows = rows[~np.isnan(procedure.boxes[rows, polyp, 0])]
    looks = np.unique(procedure.paths.look[rows])
    looks = looks[np.linspace(0, len(looks) - 1, min(columns, len(looks))).round().astype(int)]
    middles = np.array([np.flatnonzero(procedure.paths.look[rows] == look).mean() for look in looks]).astype(int)
    chosen = rows[middles]
    pictures = torch.cat([render_rows(procedure, procedure.scene, chosen[k : k + 4]) for k in range(0, len(chosen), 4)])
    strip = Image.new("RGB", (columns * 224, 192))
    for place, (row, picture) in enumerate(zip(chosen, pictures, strict=True)):
        frame = Image.fromarray(picture.permute(1, 2, 0).numpy())
        ImageDraw.Draw(frame).rectangle(procedure.boxes[row, polyp].tolist(), outline=(80, 255, 80), width=2)
        strip.paste(frame.resize((224, 192), Image.Resampling.LANCZOS), (place * 224, 0))
    return strip


def portrait(procedure: Procedure, polyp: int) -> Image.Image:
    """One polyp where it is largest in the picture, cut out with as much around it again on every side."""
    boxes = procedure.boxes[rendered_rows(procedure, box_table(procedure)), polyp]
    rows = rendered_rows(procedure, box_table(procedure))
    inner = (boxes[:, 0] > 4) & (boxes[:, 1] > 4) & (boxes[:, 2] < BIG.width - 4) & (boxes[:, 3] < BIG.height - 4)
    area = np.where(inner, (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]), -1.0)
    best = int(np.nanargmax(area))
    picture = render_rows(procedure, procedure.scene, rows[best : best + 1])[0]
    x0, y0, x1, y1 = boxes[best]
    reach = 0.95 * max(x1 - x0, y1 - y0)
    x, y = (x0 + x1) / 2, (y0 + y1) / 2
    frame = Image.fromarray(picture.permute(1, 2, 0).numpy())
    return frame.crop((round(x - reach), round(y - reach), round(x + reach), round(y + reach))).resize((192, 192))


def stack(strips: list[tuple[str, Image.Image]], name: str) -> None:
    """Strips below each other, each under its caption."""
    sheet = Image.new("RGB", (strips[0][1].width, len(strips) * 210), (24, 24, 24))
    pen = ImageDraw.Draw(sheet)
    for place, (caption, strip) in enumerate(strips):
        pen.text((6, place * 210 + 3), caption, fill=(255, 255, 255))
        sheet.paste(strip, (0, place * 210 + 18))
    sheet.resize((sheet.width * 3 // 4, sheet.height * 3 // 4), Image.Resampling.LANCZOS).save(
        HERE / name, quality=82, optimize=True
    )


def caption(procedure: Procedure, polyp: int) -> str:
    """What is known about a polyp."""
    lesion = procedure.scene.polyps[polyp]
    return f"{lesion.name}: {lesion.size_mm} mm, {lesion.histology}, {lesion.morphology}"


def main() -> None:
    """Draws all pictures."""
    with one_thread():
        for number in (2, 5):
            procedure = draw_procedure(0, number, "train", 4, BIG)
            strips = [(caption(procedure, polyp), tracks(procedure, polyp, COLUMNS)) for polyp in range(4)]
            stack(strips, f"procedure-{number}.jpg")
        strips = []
        for change in (0.0, 0.7, 1.0):
            procedure = draw_procedure(1, 1, "train", 1, with_difficulty(BIG, view_change=change))
            strips.append((f"one polyp, --view-change {change}", tracks(procedure, 0, COLUMNS)))
        stack(strips, "view-change.jpg")
        strips = []
        for alike in (0.0, 1.0):
            preset = with_difficulty(BIG, alike=alike, view_change=0.3, resight=0.0, interleave=0.0)
            procedure = draw_procedure(2, 1, "train", COLUMNS, preset)
            strip = Image.new("RGB", (COLUMNS * 192, 192))
            for polyp in range(COLUMNS):
                strip.paste(portrait(procedure, polyp), (polyp * 192, 0))
            strips.append((f"the polyps of one procedure, --alike {alike}", strip))
        stack(strips, "alike.jpg")


if __name__ == "__main__":
    main()
