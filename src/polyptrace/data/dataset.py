"""A prepared dataset folder, opened in milliseconds.

boxes.parquet      one row per box; `crop` is its row in the crop store, -1 if no tracklet uses it
tracklets.parquet  one row per tracklet, of both units; labels in separate columns
crops.npy          uint8 (n, S, S, 3), memory-mapped
dataset.json       how it was made
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from polyptrace.core.arrays import Ints
from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_file, file_hash, read_json, wrong_folder
from polyptrace.core.schema import from_json, read_parquet, write_parquet
from polyptrace.data.boxes import Boxes
from polyptrace.data.crops.store import CropStore, open_store
from polyptrace.data.tracklets import LabelFreeTracklets, Tracklets, pad_rows

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = 1
DATASET_FILE = "dataset.json"
AGAIN = "prepare the dataset again"
Unit = Literal["tracklet", "track"]
Scalar = str | int | float | bool | None


@dataclass(frozen=True)
class LabelFree:
    """A dataset without polyp ids, sizes and histologies; none of them can be reached from it."""

    path: Path
    info: dict[str, Any]
    tracklets: LabelFreeTracklets  # as rows of `crops`
    crops: CropStore  # (n, S, S, 3), in files

    @property
    def name(self) -> str:
        """The name of its folder, or of the folders of joined datasets."""
        return ", ".join(Path(each).name for each in self.info.get("source", {}).get("joined", [self.path]))

    def select(self, unit: Unit) -> Ints:
        """Indices of the tracklets of one unit."""
        return np.flatnonzero(self.tracklets.unit == unit)

    def gather(self, indices: ArrayLike) -> "tuple[Tensor, Tensor]":
        """Frames (B, L, S, S, 3) uint8 and mask (B, L), True where a frame is valid; the padding is 0."""
        import torch  # takes seconds; reading a dataset does not need it

        rows = pad_rows([self.tracklets.rows[i] for i in np.asarray(indices, np.int64)])
        mask = rows >= 0  # (B, L)
        frames = self.crops[np.maximum(rows, 0)]  # (B, L, S, S, 3)
        frames[~mask] = 0
        return torch.from_numpy(frames), torch.from_numpy(mask)


@dataclass(frozen=True)
class Dataset(LabelFree):
    """A dataset with the known labels of its polyps."""

    tracklets: Tracklets

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Opens a folder that `prepare` wrote; crops are read from disk when they are used."""
        path = Path(path)
        if not (path / DATASET_FILE).is_file():
            raise wrong_folder(path, "prepare")
        info = read_info(path)
        tracklets = load_tracklets(path / "tracklets.parquet")
        crops = open_store(path / "crops.npy", AGAIN)
        used = int(tracklets.row_index.max(initial=-1)) + 1
        if used != len(crops):
            raise UserError(f"{path}: crops.npy has {len(crops)} crops, but the tracklets use {used} -> {AGAIN}")
        return cls(path, info, tracklets, crops)

    @property
    def generated(self) -> bool:
        """Whether the source says that its images are generated, not recorded."""
        return bool(self.info.get("generated", False))

    def label_free(self) -> LabelFree:
        """The same dataset without labels and without their counts."""
        info = {key: value for key, value in self.info.items() if key != "labels"}
        return LabelFree(self.path, info, self.tracklets.label_free(), self.crops)

    def boxes(self) -> Boxes:
        """The box table that the tracklets were cut from."""
        return Boxes.load(self.path / "boxes.parquet")

    @property
    def crop_scale(self) -> float:
        """How much larger than its box a crop is."""
        return float(self.info.get("settings", {}).get("crops", {}).get("scale", 5.0))

    def box_of_crop(self) -> Ints:
        """Row of the box table of each crop (n,)."""
        path = self.path / "boxes.parquet"
        crop = read_parquet(path, AGAIN, pa.schema({"crop": pa.int64()}))["crop"].to_numpy()
        rows = np.flatnonzero(crop >= 0)
        rows = rows[np.argsort(crop[rows])]
        if not np.array_equal(crop[rows], np.arange(len(self.crops))):
            raise UserError(f"{path}: crop: does not name every row of crops.npy once -> {AGAIN}")
        return rows


@dataclass(frozen=True)
class _Settings:
    """The settings in `dataset.json`; other versions may have other ones."""

    tracks: dict[str, Scalar] = field(default_factory=dict)
    crops: dict[str, Scalar] = field(default_factory=dict)
    skip_bad: bool = False

    def __post_init__(self) -> None:
        scale = self.crops.get("scale", 1)
        if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 < scale < np.inf:
            raise ValueError(f"crops.scale: {scale!r} is not a positive number")


@dataclass(frozen=True)
class _Info:
    """The fields of `dataset.json`, which `dataset_info` writes."""

    format: int
    source: dict[str, Scalar] = field(default_factory=dict)
    settings: _Settings = field(default_factory=_Settings)
    generated: bool = False
    decoder: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    made_by: dict[str, Any] = field(default_factory=dict)


def read_info(folder: Path) -> dict[str, Any]:
    """The content of `dataset.json`, checked."""
    path = folder / DATASET_FILE
    info = read_json(path)
    if isinstance(info, dict) and info.get("format") != FORMAT:
        raise UserError(f"{folder}: has format {info.get('format')}, expected {FORMAT} -> prepare it again")
    from_json(_Info, info, str(path), AGAIN)
    return dict(info)


#: Columns of tracklets by type, in `tracklets.parquet` and in tables of vectors.
STRINGS = ("unit", "dataset", "video", "polyp", "histology")
INTS = ("track", "position", "last")
FLOATS = ("fps", "size_mm")
#: Columns of `tracklets.parquet`.
TRACKLETS = pa.schema(
    dict.fromkeys(STRINGS, pa.string())
    | dict.fromkeys(INTS, pa.int64())
    | dict.fromkeys(FLOATS, pa.float64())
    | {"rows": pa.large_list(pa.int64())}
)


def tracklets_hash(info: Mapping[str, Any]) -> str:
    """SHA-256 of `tracklets.parquet`, which identifies a dataset, from its information; "" if it is not recorded."""
    return str(info.get("hashes", {}).get("tracklets.parquet") or "")


def data_hash(data: LabelFree) -> str:
    """SHA-256 of the table of tracklets, which identifies a dataset; computed if it is not recorded."""
    return tracklets_hash(data.info) or file_hash(data.path / "tracklets.parquet")


def save_tracklets(tracklets: Tracklets, path: Path) -> None:
    """Writes `tracklets.parquet` atomically."""
    columns: dict[str, Any] = {name: getattr(tracklets, name) for name in TRACKLETS.names if name != "rows"}
    columns["rows"] = pa.LargeListArray.from_arrays(pa.array(tracklets.offset), pa.array(tracklets.row_index))
    with atomic_file(path) as temporary:
        write_parquet(pa.table(columns, TRACKLETS), temporary)


def load_tracklets(path: Path) -> Tracklets:
    """Reads `tracklets.parquet` and checks its columns, their types and their ranges."""
    table = read_parquet(path, AGAIN, TRACKLETS)
    rows = table["rows"].combine_chunks()
    columns = {name: table[name].to_numpy() for name in (*STRINGS, *INTS, *FLOATS)}
    row_index, offset = rows.flatten().to_numpy(), rows.offsets.to_numpy().astype(np.int64)
    tracklets = Tracklets(**columns, row_index=row_index, offset=offset)
    valid_rows = tracklets.length > 0
    valid_rows[np.repeat(np.arange(len(tracklets)), tracklets.length)[row_index < 0]] = False
    valid = {
        "unit": np.isin(tracklets.unit.astype(str), ("tracklet", "track")),
        "track": tracklets.track >= 0,
        "last": tracklets.last >= tracklets.position,
        "fps": np.isnan(tracklets.fps) | ((tracklets.fps > 0) & np.isfinite(tracklets.fps)),
        "size_mm": ~np.isinf(tracklets.size_mm),
        "rows": valid_rows,
    }
    for name, in_range in valid.items():
        if not in_range.all():
            raise UserError(f"{path}: {name}: is out of range in row {int(np.argmin(in_range))} -> {AGAIN}")
    return tracklets
