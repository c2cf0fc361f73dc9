"""The box table: one row per box, whatever the format of the source.

In memory it is a frozen dataclass of equal-length arrays, on disk `boxes.parquet`. `source` and `line` record where a
row was read, so that later errors can name the place.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, get_args, get_origin, get_type_hints

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from polyptrace.core.arrays import Bools, Floats, Ints, Strings
from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_file
from polyptrace.core.schema import read_parquet, write_parquet
from polyptrace.data.identity import video_codes

if TYPE_CHECKING:
    import pandas as pd


#: Frame index of a row whose frame is not a whole number, such as 4.5 or NaN; `check_boxes` reports it.
NO_FRAME = int(np.iinfo(np.int64).min)
_TYPES: dict[type, Any] = {str: object, int: np.int64, float: np.float64, bool: bool}


@dataclass(frozen=True)
class Boxes:
    """n boxes; columns that may be omitted are annotated with the value of what is unknown."""

    dataset: Annotated[Strings, ""]
    video: Strings
    frame_index: Ints  # 0-based
    file: Annotated[Strings, ""]  # image or video file, relative to the root of the source
    xywh: Floats  # (n, 4) pixels, left, top, width, height
    image_width: Annotated[Ints, 0]
    image_height: Annotated[Ints, 0]
    track: Annotated[Strings, ""]  # id given by a tracker or annotator; not the polyp
    polyp: Annotated[Strings, ""]
    size_mm: Annotated[Floats, np.nan]
    histology: Annotated[Strings, ""]
    score: Annotated[Floats, np.nan]
    fps: Annotated[Floats, np.nan]
    generated: Annotated[Bools, False]  # rendered by `polyptrace synth`, not recorded
    source: Annotated[Strings, ""]  # annotation file the row was read from
    line: Annotated[Ints, 0]  # line in that file, or number of the annotation

    def __post_init__(self) -> None:
        lengths = {f.name: len(getattr(self, f.name)) for f in fields(self)}
        if len(set(lengths.values())) != 1 or self.xywh.shape != (len(self.video), 4):
            raise ValueError(f"columns of a box table must have the same length, and xywh must be (n, 4): {lengths}")

    def __len__(self) -> int:
        return len(self.video)

    @classmethod
    def of(cls, *, video: Any, frame_index: Any, xywh: Any, **columns: Any) -> Self:
        """A table from lists or arrays; a column may be one value for all rows, and unknown columns may be omitted."""
        unknown_names = set(columns) - set(UNKNOWN)
        if unknown_names:
            raise ValueError(f"a box table has no column {', '.join(sorted(unknown_names))}")
        boxes = np.asarray(xywh, np.float64).reshape(-1, 4)
        given = {**UNKNOWN, **columns, "video": video, "frame_index": frame_index}
        return cls(xywh=boxes, **{name: _column(name, value, len(boxes)) for name, value in given.items()})

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any]]) -> Self:
        """A table from rows that all give the same columns."""
        return cls.of(**{name: [row[name] for row in rows] for name in rows[0]}) if rows else cls.concatenate([])

    @classmethod
    def concatenate(cls, tables: Sequence[Self]) -> Self:
        """The rows of several tables, in this order."""
        if not tables:
            return cls.of(video=[], frame_index=[], xywh=[])
        return cls(**{f.name: np.concatenate([getattr(t, f.name) for t in tables]) for f in fields(cls)})

    def take(self, rows: Any) -> Self:
        """The table of these rows (indices or a mask)."""
        return type(self)(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    def in_order(self) -> Self:
        """The table sorted by dataset, video, frame and box, independent of labels and input order."""
        return self.take(self.order())

    def order(self) -> Ints:
        """Row numbers sorted by dataset, video, frame and box."""
        x, y, w, h = self.xywh.T
        return np.lexsort((h, w, y, x, self.frame_index, video_codes(self))).astype(np.int64)

    def digest(self, *columns: str) -> str:
        """SHA-256 of some columns, by default of all except those that say where a row was read."""
        digest = hashlib.sha256()
        for name in columns or [f.name for f in fields(self) if f.name not in ("source", "line")]:
            values = getattr(self, name)
            if values.dtype == np.float64:
                values = np.where(np.isnan(values), np.nan, values)  # NaN has many bit patterns
            text = values.dtype == object
            digest.update(json.dumps(values.tolist()).encode() if text else np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()

    def where(self, row: int) -> str:
        """Where a row was read: `file:line`, or in a JSON file the number of the annotation."""
        source, line = self.source[row], self.line[row]
        if source.endswith(".json"):
            return f"{source}: annotations[{line}]"
        return f"{source}:{line}" if source else f"boxes:{row}"

    def save(self, path: Path, **columns: NDArray[Any]) -> None:
        """Writes `boxes.parquet` atomically, with additional columns if given."""
        table = pa.table({name: _arrow(column) for name, column in self._columns(**columns).items()})
        with atomic_file(path) as temporary:
            write_parquet(table, temporary)

    @classmethod
    def load(cls, path: Path, filters: Any = None) -> Self:
        """Reads `boxes.parquet`, or the rows that `filters` select; raises an error that names missing columns."""
        table = read_parquet(path, "prepare the dataset again", filters=filters)
        missing = {"video", "frame_index", *"xywh"} - set(table.column_names)
        if missing:
            raise UserError(f"{path}: has no column {', '.join(sorted(missing))} -> add it, or prepare again")
        try:
            known = {"video", "frame_index", *UNKNOWN} & set(table.column_names)
            xywh = np.stack([table[name].to_numpy() for name in "xywh"], axis=1)
            return cls.of(xywh=xywh, **{name: table[name].to_numpy() for name in known})
        except (ValueError, TypeError, KeyError, pa.ArrowException) as error:
            raise UserError(f"{path}: a column has another type ({error}) -> prepare the dataset again") from None

    def to_pandas(self) -> "pd.DataFrame":
        """The table as a pandas frame, with x, y, w, h as columns (needs the extra `pandas`)."""
        import pandas as pd

        return pd.DataFrame(self._columns())

    def _columns(self, **further: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """The columns of the file: further ones, and x, y, w, h last."""
        columns = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "xywh"}
        return columns | further | {name: self.xywh[:, i] for i, name in enumerate("xywh")}


def crop_regions(xywh: Floats, image_width: Ints, image_height: Ints, scale: float = 5.0) -> Ints:
    """The region of each crop (n, 4): the box scaled about its centre, in whole pixels of images of these sizes.

    Width and height are each multiplied by `scale`, as in the authors' release (the paper: "5x the diagonal of the
    bounding box"). The region is clamped to the image, and x, y, w, h are truncated, as in the release; at least one
    pixel a side.
    """
    size = np.stack([image_width, image_height], 1)
    centre = xywh[:, :2] + xywh[:, 2:] / 2
    low = np.clip(centre - xywh[:, 2:] * scale / 2, 0, size)
    high = np.clip(centre + xywh[:, 2:] * scale / 2, 0, size)
    origin = np.minimum(np.trunc(low), size - 1)
    extent = np.maximum(np.trunc(high - low), 1)
    return np.concatenate([origin, extent], 1).astype(np.int64)


def boxes_in_crops(boxes: Boxes, scale: float) -> Floats:
    """The box inside its crop (n, 4): x, y, w, h as fractions of the crop; NaN if the image size is unknown."""
    regions = crop_regions(boxes.xywh, boxes.image_width, boxes.image_height, scale)
    inside = boxes.xywh.copy()
    inside[:, :2] -= regions[:, :2]
    return np.where((boxes.image_width > 0)[:, None], inside / np.tile(regions[:, 2:], 2), np.nan)


def frame_numbers(values: Floats) -> Ints:
    """Frame indices; NO_FRAME where a number is not whole."""
    whole = (values == np.floor(values)) & (np.abs(values) < 2**53)
    return np.where(whole, np.where(whole, values, 0).astype(np.int64), NO_FRAME)


#: Columns that may be omitted, with the value of what is unknown.
UNKNOWN: dict[str, Any] = {
    name: get_args(hint)[1]
    for name, hint in get_type_hints(Boxes, include_extras=True).items()
    if get_origin(hint) is Annotated
}


def _column(name: str, value: Any, length: int) -> NDArray[Any]:
    kind = _TYPES[type({"video": "", "frame_index": 0, **UNKNOWN}[name])]
    if name == "frame_index" and np.asarray(value).dtype.kind == "f":
        value = frame_numbers(np.asarray(value))
    array = np.asarray(value, kind)
    if kind is object:
        other = next((row for row, text in enumerate(array.flat) if not isinstance(text, str)), None)
        if other is not None:
            raise UserError(
                f'row {other}: {name} {array.flat[other]!r} is not text -> give text, or "" if it is unknown'
            )
    if kind is np.int64 and array.ndim and np.asarray(value).dtype.kind == "f":
        broken = np.flatnonzero(np.asarray(value) != array)
        if len(broken):
            raise UserError(f"row {broken[0]}: {name} {value[broken[0]]} is not a whole number -> correct the source")
    return np.full(length, array) if array.ndim == 0 else array  # one string object for all rows


def _arrow(column: NDArray[Any]) -> Any:
    return pa.array(column, pa.string()).dictionary_encode() if column.dtype == object else pa.array(column)
