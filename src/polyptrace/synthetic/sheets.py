"""Contact sheets: one picture per procedure, a row for each polyp, a column for each of some of its tracks."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from polyptrace.core.console import counted
from polyptrace.core.files import atomic_file
from polyptrace.data import Boxes, cut_tracklets, link_tracks
from polyptrace.synthetic.procedure import Procedure

COLUMNS = 8
CAPTION = 16  # pixels above each row


def write_sheet(procedure: Procedure, boxes: Boxes, root: Path, path: Path) -> None:
    """Writes the contact sheet of a procedure as a PNG, from the pictures below `root`."""
    sheet = contact_sheet(procedure, boxes, root)
    with atomic_file(path) as temporary:
        sheet.save(temporary)


def contact_sheet(procedure: Procedure, boxes: Boxes, root: Path) -> Image.Image:
    """The middle frame of up to eight tracks of each polyp, in time order, with its box."""
    camera = procedure.scene.camera
    height = camera.height + CAPTION
    sheet = Image.new("RGB", (COLUMNS * camera.width, len(procedure.scene.polyps) * height))
    pen = ImageDraw.Draw(sheet)
    tracks = cut_tracklets(boxes, link_tracks(boxes, "polyp"), length=None)
    middles = np.array([rows[len(rows) // 2] for rows in tracks.rows], dtype=np.int64)
    for row, polyp in enumerate(procedure.scene.polyps):
        mine = middles[tracks.polyp == polyp.name]
        words = (polyp.name, f"{polyp.size_mm:.1f} mm", polyp.histology, polyp.morphology, counted(len(mine), "track"))
        about = "   ".join(words)
        pen.text((4, row * height + 2), about, fill=(255, 255, 255))
        for column, place in enumerate(_spaced(mine)):
            corner = (column * camera.width, row * height + CAPTION)
            with Image.open(root / boxes.file[place]) as picture:
                sheet.paste(picture, corner)
            x, y, w, h = boxes.xywh[place]
            pen.rectangle((corner[0] + x, corner[1] + y, corner[0] + x + w, corner[1] + y + h), outline=(80, 255, 80))
            time = f"frame {boxes.frame_index[place]:,}"
            pen.text((corner[0] + 4, corner[1] + camera.height - 13), time, fill=(200, 200, 200))
    return sheet


def _spaced(places: NDArray[np.int64]) -> NDArray[np.int64]:
    if len(places) <= COLUMNS:
        return places
    chosen: NDArray[np.int64] = places[np.linspace(0, len(places) - 1, COLUMNS).round().astype(int)]
    return chosen
