"""Film strips of tracks as JPEG, cut from the memory-mapped crops when they are asked for."""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from polyptrace.core.arrays import Floats, Ints
from polyptrace.core.schema import read_parquet
from polyptrace.data import Boxes, Dataset
from polyptrace.data.boxes import boxes_in_crops
from polyptrace.explore.journal import Item
from polyptrace.film_strips import crops_with_boxes, evenly_spaced, jpeg

#: Frames of a strip, and their side in pixels.
MAX_FRAMES, MAX_SIDE = 64, 256
#: Strips that are kept in memory, of some kilobytes each.
KEPT = 400


class ProcedureCrops:
    """The crops of the tracks of one procedure, with their frames and boxes."""

    def __init__(self, datasets: Sequence[Dataset], dataset: str, video: str) -> None:
        self.dataset: Dataset | None = None
        self.rows: dict[int, Ints] = {}  # crops of each track
        for each in datasets:
            table = each.tracklets
            own = (table.unit == "track") & (table.video == video) & (table.dataset == dataset)
            for index in np.flatnonzero(own).tolist():
                self.dataset = each
                self.rows[int(table.track[index])] = table.row_index[table.offset[index] : table.offset[index + 1]]
        self._names = (dataset, video)
        self.strip = lru_cache(KEPT)(self._strip)

    @cached_property
    def _boxes(self) -> dict[int, tuple[int, Floats]]:
        """Of each crop the frame, and the box as fractions of the crop."""
        if self.dataset is None:
            return {}
        boxes, crop = read_boxes(self.dataset, *self._names)
        inside = boxes_in_crops(boxes, self.dataset.crop_scale)
        rows = zip(crop.tolist(), boxes.frame_index.tolist(), inside, strict=True)
        return {row: (frame, box) for row, frame, box in rows if row >= 0}

    def frames(self, item: Item) -> list[int]:
        """The frames of the crops of an item."""
        return [frame for frame, _ in self._crops(item)]

    def _crops(self, item: Item) -> list[tuple[int, int]]:
        """Frame and crop of each crop of an item."""
        track, first, last = item
        crops = [(self._boxes[row][0], row) for row in self.rows.get(track, np.empty(0, int)).tolist()]
        return [(frame, row) for frame, row in crops if first <= frame <= last]

    def _strip(self, item: Item, frames: int, side: int) -> bytes | None:
        """A JPEG of up to `frames` crops from left to right, evenly spaced, with their boxes; None without crops."""
        crops = self._crops(item)
        if not crops or self.dataset is None:
            return None
        rows = evenly_spaced(np.array([row for _, row in crops]), min(frames, MAX_FRAMES))
        boxes = np.array([self._boxes[row][1] for row in rows.tolist()])
        pictures = crops_with_boxes(self.dataset.crops[rows], boxes, min(side, MAX_SIDE))
        return jpeg(np.concatenate([*pictures], axis=1))


def read_boxes(dataset: Dataset, name: str, video: str) -> tuple[Boxes, Ints]:
    """The boxes of one procedure and the crop of each, -1 where it has none."""
    filters: Any = [("dataset", "=", name), ("video", "=", video)]
    path = dataset.path / "boxes.parquet"
    crop = read_parquet(path, "prepare the dataset again", pa.schema({"crop": pa.int64()}), filters)["crop"]
    return Boxes.load(path, filters), crop.to_numpy()
