"""Film strips: a few frames of a track in a row, with the detection box drawn into each crop.

Resized and encoded by Pillow, because `explore` starts without importing torch.
"""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from typing import Self

import numpy as np
from PIL import Image

from polyptrace.core.arrays import Floats, Ints, Pixels
from polyptrace.data import Boxes, Dataset
from polyptrace.data.boxes import boxes_in_crops
from polyptrace.data.identity import TrackKey

#: Colours of the film, of its perforation and of the box.
FILM, HOLE, BOX = (22, 24, 28), (214, 217, 221), (255, 255, 255)


@dataclass(frozen=True)
class CropImages:
    """The crops of one dataset, with the box of each crop."""

    dataset: Dataset

    @cached_property
    def boxes(self) -> Boxes:
        """The box of each crop (n,)."""
        return self.dataset.boxes().take(self.dataset.box_of_crop())

    @cached_property
    def box_in_crop(self) -> Floats:
        """The box of each crop (n, 4): x, y, w, h as fractions of the crop."""
        return boxes_in_crops(self.boxes, self.dataset.crop_scale)

    def frames(self, tracklet: int, count: int, side: int, *, boxes: bool = True) -> Pixels:
        """Up to `count` frames (F, side, side, 3) of a tracklet, evenly spaced, with their boxes."""
        return self.crops(evenly_spaced(self.dataset.tracklets.rows[tracklet], count), side, boxes=boxes)

    def crops(self, rows: Ints, side: int, *, boxes: bool = True) -> Pixels:
        """Crops (F, side, side, 3) with their boxes."""
        return crops_with_boxes(self.dataset.crops[rows], self.box_in_crop[rows] if boxes else None, side)


@dataclass(frozen=True)
class TrackImages:
    """The crops of whole tracks of one or more datasets."""

    location: dict[TrackKey, tuple[CropImages, int]]  # the dataset of each track, and the tracklet in it

    @classmethod
    def of(cls, datasets: Iterable[Dataset]) -> Self:
        """All whole tracks of some datasets."""
        location: dict[TrackKey, tuple[CropImages, int]] = {}
        for source in map(CropImages, datasets):
            table = source.dataset.tracklets
            for index in source.dataset.select("track").tolist():
                key = (table.dataset[index], table.video[index], int(table.track[index]), int(table.position[index]))
                location[key] = (source, index)
        return cls(location)

    def scores(self, keys: Iterable[TrackKey]) -> Floats:
        """The detector's score of each crop (n,) of some tracks; without those that are not known."""
        known_tracks = (self.location[key] for key in keys if key in self.location)
        parts = (source.boxes.score[source.dataset.tracklets.rows[index]] for source, index in known_tracks)
        scores = np.concatenate([np.empty(0), *parts])
        return scores[~np.isnan(scores)]

    def strip(self, key: TrackKey, count: int, side: int = 96) -> Pixels | None:
        """An upright film strip of a track, or None if no dataset contains it."""
        if key not in self.location:
            return None
        source, index = self.location[key]
        return film_strip(source.frames(index, count, side), upright=True)

    def still(self, key: TrackKey, side: int = 64) -> Pixels | None:
        """The middle frame (S, S, 3) of a track without its box, or None if no dataset contains it."""
        if key not in self.location:
            return None
        source, index = self.location[key]
        return source.frames(index, 1, side, boxes=False)[0]


def evenly_spaced(rows: Ints, count: int) -> Ints:
    """Up to `count` of the rows, from the middle of equal parts.

    >>> evenly_spaced(np.arange(16), 4).tolist()
    [2, 6, 10, 14]
    """
    count = min(count, len(rows))
    return rows[((np.arange(count) + 0.5) * len(rows) / count).astype(np.int64)]


def crops_with_boxes(crops: Pixels, boxes: Floats | None, side: int) -> Pixels:
    """Crops (F, S, S, 3) at another size, antialiased, with their boxes (F, 4) as fractions; NaN: no box."""
    resized = [Image.fromarray(crop).resize((side, side), Image.Resampling.BILINEAR) for crop in crops]
    frames: Pixels = np.stack([np.asarray(crop) for crop in resized])
    if boxes is not None:
        for number in np.flatnonzero(np.isfinite(boxes).all(axis=1)).tolist():
            draw_box(frames[number], boxes[number])
    return frames


def draw_box(frame: Pixels, box: Floats) -> None:
    """Draws a box (x, y, w, h as fractions of the frame) into a frame (S, S, 3): a white line with a shadow around."""
    side = len(frame)
    left, top = (int(edge) for edge in np.clip(np.round(box[:2] * side), 1, side - 4))
    right, bottom = (int(edge) for edge in np.clip(np.round((box[:2] + box[2:]) * side), (left + 2, top + 2), side - 2))
    inside = frame[top + 1 : bottom, left + 1 : right].copy()
    around = frame[top - 1 : bottom + 2, left - 1 : right + 2]
    around[:] = around // 2
    frame[top : bottom + 1, left : right + 1] = BOX
    frame[top + 1 : bottom, left + 1 : right] = inside


def film_strip(frames: Pixels, *, upright: bool = False) -> Pixels:
    """Frames (F, S, S, 3) on a perforated strip, from left to right, or from top to bottom if `upright`."""
    count, side = frames.shape[:2]
    edge, gap = max(5, side // 9), max(1, side // 32)
    strip = np.empty((side + 2 * edge, count * (side + gap) + gap, 3), np.uint8)
    strip[:] = FILM
    pitch = max(6, side // 6)
    hole = (max(2, edge // 2), max(3, pitch // 2))
    for left in range(pitch // 4, strip.shape[1] - hole[1], pitch):
        for top in ((edge - hole[0]) // 2, strip.shape[0] - edge + (edge - hole[0] + 1) // 2):
            strip[top : top + hole[0], left : left + hole[1]] = HOLE
    for number, frame in enumerate(frames):
        begin = gap + number * (side + gap)
        strip[edge : edge + side, begin : begin + side] = frame.transpose(1, 0, 2) if upright else frame
    return np.ascontiguousarray(strip.transpose(1, 0, 2)) if upright else strip


def jpeg(image: Pixels) -> bytes:
    """An image (H, W, 3) as JPEG."""
    encoded = BytesIO()
    Image.fromarray(image).save(encoded, "JPEG", quality=86)
    return encoded.getvalue()


def data_uri(image: Pixels) -> str:
    """An image (H, W, 3) as a JPEG data URI."""
    return "data:image/jpeg;base64," + base64.b64encode(jpeg(image)).decode()
