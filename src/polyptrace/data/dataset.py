"""A prepared dataset folder, opened in milliseconds.

boxes.parquet      one row per box; `crop` is its row in the crop store, -1 if no tracklet uses it
tracklets.parquet  one row per tracklet, of both units; labels in separate columns
crops.npy          uint8 (n, S, S, 3), memory-mapped
dataset.json       how it was made
"""

from dataclasses import dataclass, fields
from functools import cached_property
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
from polyptrace.data.boxes import Boxes, Floats, Ints, Strings
from polyptrace.data.tracklets import TrackletTable, pad_rows

FORMAT = 1
Unit = Literal["tracklet", "track"]


@dataclass(frozen=True, kw_only=True)
class LabelFreeTracklets(TrackletTable):
    """Tracklets as rows of the crop store, without labels: all that self-supervised training sees."""

    crop_index: Ints  # rows of the crop store, tracklet by tracklet

    @cached_property
    def rows(self) -> list[Ints]:
        """Rows of the crop store of each tracklet, in time order."""
        return np.split(self.crop_index, self.offset[1:-1]) if len(self) else []


@dataclass(frozen=True, kw_only=True)
class DatasetTracklets(LabelFreeTracklets):
    """Tracklets as rows of the crop store, with labels; unknown labels are "" and NaN."""

    polyp: Strings
    size_mm: Floats
    histology: Strings

    def label_free(self) -> LabelFreeTracklets:
        """The same tracklets without labels."""
        return LabelFreeTracklets(**{f.name: getattr(self, f.name) for f in fields(LabelFreeTracklets)})


@dataclass(frozen=True)
class LabelFree:
    """A dataset without polyp ids, sizes and histologies; none of them can be reached from it."""

    path: Path
    info: dict[str, Any]
    tracklets: LabelFreeTracklets
    crops: NDArray[np.uint8]  # (n, S, S, 3), memory-mapped

    def select(self, unit: Unit) -> Ints:
        """Indices of the tracklets of one unit."""
        return np.flatnonzero(self.tracklets.unit == unit)

    def gather(self, indices: ArrayLike) -> tuple[Tensor, Tensor]:
        """Frames (B, L, S, S, 3) uint8 and mask (B, L), True where a frame is valid; the padding is 0."""
        rows = pad_rows([self.tracklets.rows[i] for i in np.asarray(indices, np.int64)])
        mask = rows >= 0  # (B, L)
        frames = self.crops[np.maximum(rows, 0)]  # (B, L, S, S, 3)
        frames[~mask] = 0
        return torch.from_numpy(frames), torch.from_numpy(mask)


@dataclass(frozen=True)
class Dataset(LabelFree):
    """A dataset with the known labels of its polyps."""

    tracklets: DatasetTracklets

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Opens a folder that `prepare` wrote; crops are read from disk when they are used."""
        path = Path(path)
        if not (path / "dataset.json").is_file():
            raise UserError(f"{path}: not a dataset folder (no dataset.json) -> make one with 'polyptrace prepare'")
        info = read_json(path / "dataset.json")
        if info.get("format") != FORMAT:
            raise UserError(f"{path}: has format {info.get('format')}, expected {FORMAT} -> prepare it again")
        return cls(path, info, load_tracklets(path / "tracklets.parquet"), np.load(path / "crops.npy", mmap_mode="r"))

    @property
    def generated(self) -> bool:
        """Whether the source says that its pictures are generated, not recorded."""
        return bool(self.info.get("generated", False))

    def label_free(self) -> LabelFree:
        """The same dataset without labels and without their counts."""
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


def save_tracklets(tracklets: DatasetTracklets, path: Path) -> None:
    """Writes `tracklets.parquet` atomically."""
    columns: dict[str, Any] = {
        name: getattr(tracklets, name)
        for name in ("unit", "dataset", "video", "track", "position", "last", "fps", "polyp", "size_mm", "histology")
    }
    columns["rows"] = pa.LargeListArray.from_arrays(pa.array(tracklets.offset), pa.array(tracklets.crop_index))
    with atomic_file(path) as temporary:
        pq.write_table(pa.table(columns), temporary, compression="zstd")


def load_tracklets(path: Path) -> DatasetTracklets:
    """Reads `tracklets.parquet`."""
    table = pq.read_table(path).combine_chunks()
    rows = table["rows"].combine_chunks()
    columns = {name: table[name].to_numpy() for name in table.column_names if name != "rows"}
    crop_index, offset = rows.flatten().to_numpy(), rows.offsets.to_numpy()
    return DatasetTracklets(**columns, crop_index=crop_index, offset=offset.astype(np.int64))
