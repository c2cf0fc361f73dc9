"""A prepared dataset folder, opened in milliseconds.

boxes.parquet      one row per box; `crop` is its row in the crop store, -1 if no tracklet uses it
tracklets.parquet  one row per tracklet, of two units side by side; labels in columns of their own
crops.npy          uint8 (n, S, S, 3), memory-mapped
dataset.json       how it was made
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_file, read_json
from polyptrace.data.boxes import Boxes, Ints
from polyptrace.data.tracklets import LabelFreeTracklets, Tracklets

FORMAT = 1
Unit = Literal["tracklet", "track"]


@dataclass(frozen=True)
class LabelFree:
    """A dataset without polyp, size or histology: there is nothing in it that could tell them."""

    path: Path
    info: dict[str, Any]
    tracklets: LabelFreeTracklets
    crops: NDArray[np.uint8]  # (n, S, S, 3), memory-mapped

    def select(self, unit: Unit) -> Ints:
        """Indices of the tracklets of one unit."""
        return np.flatnonzero(self.tracklets.unit == unit)

    def gather(self, indices: ArrayLike) -> tuple[Tensor, Tensor]:
        """Frames (B, L, S, S, 3) uint8 and mask (B, L), True where a frame is real; shorter ones are padded with 0."""
        chosen = np.asarray(indices, np.int64)
        begin, length = self.tracklets.offset[chosen], self.tracklets.length[chosen]
        step = np.arange(length.max(initial=0))
        mask = step < length[:, None]  # (B, L)
        rows = self.tracklets.flat[np.minimum(begin[:, None] + step, len(self.tracklets.flat) - 1)]
        frames = self.crops[rows]  # (B, L, S, S, 3): the one copy
        frames[~mask] = 0
        return torch.from_numpy(frames), torch.from_numpy(mask)


@dataclass(frozen=True)
class Dataset(LabelFree):
    """A dataset with whatever is known about its polyps."""

    tracklets: Tracklets

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Opens a folder that `prepare` wrote; pixels stay on disk until they are asked for."""
        path = Path(path)
        if not (path / "dataset.json").is_file():
            raise UserError(f"{path}: not a dataset folder (no dataset.json) -> make one with 'polyptrace prepare'")
        info = read_json(path / "dataset.json")
        if info.get("format") != FORMAT:
            raise UserError(f"{path}: written in format {info.get('format')}, this is {FORMAT} -> prepare it again")
        return cls(path, info, load_tracklets(path / "tracklets.parquet"), np.load(path / "crops.npy", mmap_mode="r"))

    def label_free(self) -> LabelFree:
        """The same dataset, without the labels and without what was counted of them."""
        info = {key: value for key, value in self.info.items() if key != "labels"}
        return LabelFree(self.path, info, self.tracklets.label_free(), self.crops)

    def boxes(self) -> Boxes:
        """The box table that the tracklets were cut from."""
        return Boxes.load(self.path / "boxes.parquet")

    def box_of_crop(self) -> Ints:
        """Row of the box table of each crop (n,)."""
        crop = pq.read_table(self.path / "boxes.parquet", columns=["crop"])["crop"].to_numpy()
        rows = np.flatnonzero(crop >= 0)
        return rows[np.argsort(crop[rows])]


def save_tracklets(tracklets: Tracklets, path: Path) -> None:
    """Writes `tracklets.parquet`, whole or not at all."""
    columns: dict[str, Any] = {
        name: getattr(tracklets, name)
        for name in ("unit", "dataset", "video", "track", "position", "last", "fps", "polyp", "size_mm", "histology")
    }
    columns["rows"] = pa.LargeListArray.from_arrays(pa.array(tracklets.offset), pa.array(tracklets.flat))
    with atomic_file(path) as temporary:
        pq.write_table(pa.table(columns), temporary, compression="zstd")


def load_tracklets(path: Path) -> Tracklets:
    """Reads `tracklets.parquet`."""
    table = pq.read_table(path).combine_chunks()
    rows = table["rows"].combine_chunks()
    columns = {name: table[name].to_numpy() for name in table.column_names if name != "rows"}
    flat, offset = rows.flatten().to_numpy(), rows.offsets.to_numpy()
    return Tracklets(**columns, flat=flat, offset=offset.astype(np.int64))
