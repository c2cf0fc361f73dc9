"""Film strips: a few frames of a tracklet in a row, with the detection box drawn into each crop."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch

from polyptrace.core.arrays import Floats, Ints, Pixels
from polyptrace.core.codec import encode_jpeg
from polyptrace.data import Dataset
from polyptrace.data.boxes import boxes_in_crops
from polyptrace.data.crops.regions import resize_crops

#: Colours of the film, of its perforation and of the box.
FILM, HOLE, BOX = (22, 24, 28), (214, 217, 221), (255, 255, 255)

#: Dataset, video, track, first frame: identifies a track in results and in datasets.
TrackKey = tuple[str, str, int, int]


@dataclass(frozen=True)
class CropImages:
    """The crops of one dataset, with their boxes where the dataset has them."""

    dataset: Dataset
    boxes: Floats | None  # (n, 4): x, y, w, h as fractions of each crop

    @classmethod
    def of(cls, dataset: Dataset) -> Self:
        """The crops of a dataset. A dataset without box table has no boxes to show."""
        if not (dataset.path / "boxes.parquet").is_file():
            return cls(dataset, None)
        return cls(dataset, boxes_in_crops(dataset.boxes().take(dataset.box_of_crop()), dataset.crop_scale))

    def frames(self, tracklet: int, count: int, side: int, *, boxes: bool = True) -> Pixels:
        """Up to `count` frames (F, side, side, 3) of a tracklet, evenly spaced, with their boxes."""
        rows = self.dataset.tracklets.rows[tracklet]
        count = min(count, len(rows))
        chosen = rows[((np.arange(count) + 0.5) * len(rows) / count).astype(np.int64)]
        return self._shown(chosen, side, boxes=boxes)

    def crop(self, row: int, side: int) -> Pixels:
        """One crop (side, side, 3) with its box."""
        shown: Pixels = self._shown(np.array([row]), side)[0]
        return shown

    def _shown(self, rows: Ints, side: int, *, boxes: bool = True) -> Pixels:
        """Crops (F, side, side, 3) with their boxes."""
        frames = resize(np.asarray(self.dataset.crops[rows]), side)
        if boxes and self.boxes is not None:
            frames = frames.copy()
            for frame, box in zip(frames, self.boxes[rows], strict=True):
                if np.isfinite(box).all():
                    draw_box(frame, box)
        return frames


@dataclass(frozen=True)
class TrackImages:
    """The crops of whole tracks of one or more datasets, by the key that results carry."""

    sources: tuple[CropImages, ...]
    location: dict[TrackKey, tuple[int, int]]  # which source, which of its tracklets

    @classmethod
    def of(cls, datasets: Iterable[Dataset]) -> Self:
        """All whole tracks of some datasets."""
        sources = tuple(CropImages.of(dataset) for dataset in datasets)
        location: dict[TrackKey, tuple[int, int]] = {}
        for number, source in enumerate(sources):
            table = source.dataset.tracklets
            for index in source.dataset.select("track").tolist():
                key = (table.dataset[index], table.video[index], int(table.track[index]), int(table.position[index]))
                location[key] = (number, index)
        return cls(sources, location)

    def strip(self, key: TrackKey, count: int, side: int = 96) -> Pixels | None:
        """An upright film strip of a track, or None if no dataset contains it."""
        if key not in self.location:
            return None
        number, index = self.location[key]
        return film_strip(self.sources[number].frames(index, count, side), upright=True)

    def still(self, key: TrackKey, side: int = 64) -> Pixels | None:
        """The middle frame (S, S, 3) of a track without its box, or None if no dataset contains it."""
        if key not in self.location:
            return None
        number, index = self.location[key]
        still: Pixels = self.sources[number].frames(index, 1, side, boxes=False)[0]
        return still


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


def resize(frames: Pixels, side: int) -> Pixels:
    """Frames (F, S, S, 3) at another size, antialiased."""
    if frames.shape[1] == side:
        return frames
    resized: Pixels = resize_crops(torch.from_numpy(frames.copy()), side).numpy()
    return resized


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


def data_uri(image: Pixels, quality: int = 86) -> str:
    """An image (H, W, 3) as a JPEG data URI."""
    encoded = encode_jpeg(torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1).contiguous(), quality)
    return "data:image/jpeg;base64," + base64.b64encode(encoded).decode()
