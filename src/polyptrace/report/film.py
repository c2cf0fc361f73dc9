"""Film strips: a few frames of a tracklet on a strip of film, and pictures as data of a page."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from polyptrace.core.codec import encode_jpeg
from polyptrace.data import Dataset
from polyptrace.data.crops import resize_crops

Pixels = NDArray[np.uint8]

#: Of the film itself and of its perforation.
BASE, HOLE = (22, 24, 28), (214, 217, 221)

#: Dataset, video, track, first frame: what names a track in results and in datasets alike.
Key = tuple[str, str, int, int]


@dataclass(frozen=True)
class Pictures:
    """The frames of tracks of one or more datasets, found by the ids that results carry."""

    datasets: tuple[Dataset, ...]
    place: dict[Key, tuple[int, int]]  # which dataset, which of its tracklets

    @classmethod
    def of(cls, datasets: Iterable[Dataset]) -> Self:
        """All whole tracks of some datasets."""
        opened = tuple(datasets)
        place: dict[Key, tuple[int, int]] = {}
        for number, dataset in enumerate(opened):
            table = dataset.tracklets
            for index in dataset.select("track").tolist():
                key = (table.dataset[index], table.video[index], int(table.track[index]), int(table.position[index]))
                place[key] = (number, index)
        return cls(opened, place)

    def strip(self, key: Key, count: int = 4, side: int = 96, *, upright: bool = True) -> Pixels | None:
        """A film strip of a track, or None if no dataset holds it."""
        if key not in self.place:
            return None
        number, index = self.place[key]
        return film(frames_of(self.datasets[number], index, count, side), upright=upright)

    def still(self, key: Key, side: int = 64) -> Pixels | None:
        """The middle frame (S, S, 3) of a track, or None if no dataset holds it."""
        if key not in self.place:
            return None
        number, index = self.place[key]
        still: Pixels = frames_of(self.datasets[number], index, 1, side)[0]
        return still


def frames_of(dataset: Dataset, index: int, count: int, side: int) -> Pixels:
    """`count` frames (F, side, side, 3) of a tracklet, evenly over its length; fewer if it is shorter."""
    rows = dataset.tracklets.rows[index]
    count = min(count, len(rows))
    chosen = rows[((np.arange(count) + 0.5) * len(rows) / count).astype(np.int64)]
    return resized(np.asarray(dataset.crops[chosen]), side)


def resized(frames: Pixels, side: int) -> Pixels:
    """Frames (F, S, S, 3) at another size, antialiased."""
    if frames.shape[1] == side:
        return frames
    result: Pixels = resize_crops(torch.from_numpy(frames.copy()), side).numpy()
    return result


def film(frames: Pixels, *, upright: bool = False) -> Pixels:
    """Frames (F, S, S, 3) one after the other on a perforated strip; upright: from top to bottom."""
    count, side = frames.shape[:2]
    edge, gap = max(5, side // 9), max(1, side // 32)
    strip = np.empty((side + 2 * edge, count * (side + gap) + gap, 3), np.uint8)
    strip[:] = BASE
    pitch = max(6, side // 6)
    hole = (max(2, edge // 2), max(3, pitch // 2))
    for left in range(pitch // 4, strip.shape[1] - hole[1], pitch):
        for top in ((edge - hole[0]) // 2, strip.shape[0] - edge + (edge - hole[0] + 1) // 2):
            strip[top : top + hole[0], left : left + hole[1]] = HOLE
    for number, frame in enumerate(frames):
        begin = gap + number * (side + gap)
        shown = frame.transpose(1, 0, 2) if upright else frame
        strip[edge : edge + side, begin : begin + side] = shown
    return np.ascontiguousarray(strip.transpose(1, 0, 2)) if upright else strip


def data_uri(picture: Pixels, quality: int = 86) -> str:
    """A picture (H, W, 3) as JPEG inside a page."""
    encoded = encode_jpeg(torch.from_numpy(np.ascontiguousarray(picture)).permute(2, 0, 1).contiguous(), quality)
    return "data:image/jpeg;base64," + base64.b64encode(encoded).decode()
