"""The table of vectors that lies between embedding and evaluation, ours or made elsewhere.

    embeddings = Embeddings.load(Path("E"))            # our folder, or a .parquet or .npz made elsewhere
    tracks = embeddings.select("track")

A folder holds `embeddings.parquet` (one row per tracklet: ids, labels where known, `vector`) and
`embeddings.json` (how it was made). A file made elsewhere needs the vectors (`vectors` (N, D) in an .npz, a
list column `vector` in a .parquet) and whichever other columns the evaluation at hand needs, under the names
of the fields below.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from polyptrace.core.console import counted
from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_folder, read_json, write_json

TEXT = ("unit", "dataset", "video", "polyp", "histology")
WHOLE = ("track", "position", "last")
REAL = ("fps", "size_mm")
#: Columns beside the vector, in the order of the file.
COLUMNS = ("unit", "dataset", "video", "track", "position", "last", "fps", "polyp", "size_mm", "histology")
#: The file by which a folder of vectors is known.
VECTORS_FILE = "embeddings.parquet"
UNITS = ("tracklet", "track", "any")


@dataclass(frozen=True)
class Embeddings:
    """Vectors (N, D) with their ids and labels: arrays of N; "", -1 and NaN mean unknown.

    `unit` is "tracklet" (L frames), "track" (a whole one) or "any" (usable as either). `position` and `last`
    are the first and last frame in the video. Polyp ids are unique within a dataset, track ids within a video.
    """

    vectors: NDArray[np.float32]
    unit: NDArray[Any]
    dataset: NDArray[Any]
    video: NDArray[Any]
    track: NDArray[np.int64]
    position: NDArray[np.int64]
    last: NDArray[np.int64]
    fps: NDArray[np.float64]
    polyp: NDArray[Any]
    size_mm: NDArray[np.float64]
    histology: NDArray[Any]
    info: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.vectors)

    def rows(self, index: NDArray[Any]) -> Self:
        """The rows of an index or mask."""
        return replace(self, vectors=self.vectors[index], **{c: getattr(self, c)[index] for c in COLUMNS})

    def columns(self) -> dict[str, NDArray[Any]]:
        """Every column beside the vectors, texts as unicode arrays that need no pickle."""
        return {c: getattr(self, c).astype(str) if c in TEXT else getattr(self, c) for c in COLUMNS}

    def select(self, unit: str) -> Self:
        """The rows that can serve as the unit ("tracklet" or "track")."""
        return self.rows(np.isin(self.unit, (unit, "any")))

    def save(self, folder: Path | str, *, overwrite: bool = False) -> None:
        """Writes `embeddings.parquet` and `embeddings.json`, whole or not at all."""
        flat = pa.array(np.ascontiguousarray(self.vectors, dtype=np.float32).reshape(-1))
        columns = {c: pa.array(_plain(c, getattr(self, c))) for c in COLUMNS}
        columns["vector"] = pa.FixedSizeListArray.from_arrays(flat, self.vectors.shape[1])
        with atomic_folder(Path(folder), overwrite=overwrite, mark=VECTORS_FILE) as temporary:
            pq.write_table(pa.table(columns), temporary / VECTORS_FILE, compression="zstd")
            write_json(temporary / "embeddings.json", self.info)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """A folder of ours, a .parquet or an .npz file, checked; an error names the row."""
        path = Path(path)
        if not path.exists():
            raise UserError(f"{path}: no such file or folder -> give a folder made by 'polyptrace embed', or a file")
        info: dict[str, Any] = {}
        if path.is_dir():
            if (path / "embeddings.json").exists():
                info = read_json(path / "embeddings.json")
            if not (path / VECTORS_FILE).is_file():
                raise UserError(
                    f"{path}: no vectors in it ({VECTORS_FILE}) -> give a folder that 'polyptrace embed' wrote, or a "
                    ".npz or .parquet file"
                )
            path = path / VECTORS_FILE
        columns = _read_npz(path) if path.suffix == ".npz" else _read_parquet(path)
        return cls.from_columns(columns, where=str(path), info=info)

    @classmethod
    def from_columns(
        cls,
        columns: Mapping[str, NDArray[Any]],
        where: str = "embeddings",
        info: dict[str, Any] | None = None,
    ) -> Self:
        """Vectors and whichever columns there are, the others filled with "unknown", all checked."""
        unknown = sorted(set(columns) - {"vectors", *COLUMNS})
        if unknown:
            raise UserError(f"{where}: unknown column {unknown[0]!r} -> known: vectors, {', '.join(COLUMNS)}")
        vectors = _vectors(columns["vectors"], where)
        count = len(vectors)
        for name, values in columns.items():
            if len(values) != count:
                raise UserError(
                    f"{where}: {name} has {counted(len(values), 'row')} and vectors {count} -> give one per vector"
                )
        filled = {c: _column(c, columns.get(c), count, where) for c in COLUMNS}
        if "last" not in columns:
            filled["last"] = filled["position"].copy()
        table = cls(vectors=vectors, **filled, info=info or {})
        _check_rows(table, where)
        return table


def concatenate(tables: Sequence[Embeddings], where: str = "embeddings") -> Embeddings:
    """One table of several datasets' vectors by one encoder; `info` of the first."""
    if not tables:
        raise UserError(f"{where}: no embeddings given -> give at least one")
    widths = sorted({t.vectors.shape[1] for t in tables})
    if len(widths) > 1:
        raise UserError(f"{where}: vectors of widths {widths} -> give embeddings of one encoder")
    hashes = {t.info["model_hash"] for t in tables if t.info.get("model_hash")}
    if len(hashes) > 1:
        raise UserError(f"{where}: embeddings of {len(hashes)} different models -> give embeddings of one encoder")
    joined = {
        f.name: np.concatenate([getattr(t, f.name) for t in tables]) for f in fields(Embeddings) if f.name != "info"
    }
    whole = Embeddings(**joined, info=tables[0].info)
    _check_rows(whole, where)
    return whole


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            columns = {name: archive[name] for name in archive.files}
    except (BadZipFile, ValueError, OSError) as error:
        raise UserError(f"{path}: not an .npz of plain arrays ({error}) -> write it with numpy.savez") from None
    if "vectors" not in columns:
        raise UserError(f"{path}: no array called 'vectors' among {sorted(columns)} -> add it, shape (N, D)")
    return columns


def _read_parquet(path: Path) -> dict[str, NDArray[Any]]:
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path}: not a readable .parquet ({error}) -> give .parquet, .npz or our folder") from None
    if "vector" not in table.column_names:
        raise UserError(f"{path}: no column 'vector' among {table.column_names} -> add it, a list of floats per row")
    columns = {c: table[c].to_numpy(zero_copy_only=False) for c in table.column_names if c != "vector"}
    column = table["vector"].combine_chunks()
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    uneven = np.flatnonzero(lengths != lengths[0]) if len(lengths) else np.empty(0, dtype=np.int64)
    if len(uneven):
        row = int(uneven[0])
        raise UserError(f"{path}: row {row}: vector of {counted(lengths[row], 'number')} where row 0 has {lengths[0]}")
    flat = column.flatten().to_numpy(zero_copy_only=False)
    columns["vectors"] = flat.reshape(len(column), -1) if len(column) else np.empty((0, 0), dtype=np.float32)
    return columns


def _vectors(values: NDArray[Any], where: str) -> NDArray[np.float32]:
    if values.ndim != 2 or values.dtype.kind not in "fiu":
        raise UserError(f"{where}: vectors are {values.dtype} of shape {values.shape} -> give numbers of shape (N, D)")
    if values.shape[0] == 0 or values.shape[1] == 0:
        raise UserError(f"{where}: there are no vectors -> was anything embedded?")
    return np.ascontiguousarray(values, dtype=np.float32)


def _column(name: str, values: NDArray[Any] | None, count: int, where: str) -> NDArray[Any]:
    """A column as its type, or the one that says "unknown" in each row."""
    if name in TEXT:
        if values is None:
            return np.full(count, "any" if name == "unit" else "", dtype=object)
        missing = np.array([v is None or v != v for v in values.tolist()], dtype=bool)
        return np.where(missing, "", values.astype(str).astype(object)).astype(object)
    if values is None:
        match name:
            case "track":
                return np.arange(count, dtype=np.int64)
            case "position" | "last":
                return np.full(count, -1, dtype=np.int64)
            case _:
                return np.full(count, np.nan)
    try:
        numbers = np.array([np.nan if v is None else v for v in values.tolist()], dtype=np.float64)
    except (TypeError, ValueError):
        raise UserError(f"{where}: column {name!r} holds {values[0]!r} -> give numbers") from None
    if name in REAL:
        return numbers
    if values.dtype.kind in "iu":
        return values.astype(np.int64)
    broken = np.flatnonzero(~(np.isfinite(numbers) & (numbers == np.round(numbers))))
    if len(broken):
        raise UserError(f"{where}: row {broken[0]}: {name} is {values[broken[0]]!r} -> give whole numbers")
    return numbers.astype(np.int64)


def _check_rows(table: Embeddings, where: str) -> None:
    """Raises at the first row that cannot be meant."""
    broken = np.flatnonzero(~np.isfinite(table.vectors).all(axis=1))
    if len(broken):
        raise UserError(f"{where}: {_name(table, broken[0])}: the vector holds NaN or infinity -> embed it again")
    strange = np.flatnonzero(~np.isin(table.unit, UNITS))
    if len(strange):
        raise UserError(f"{where}: {_name(table, strange[0])}: unit {table.unit[strange[0]]!r} -> {', '.join(UNITS)}")
    backward = np.flatnonzero(table.last < table.position)
    if len(backward):
        row = backward[0]
        raise UserError(
            f"{where}: {_name(table, row)}: last frame {table.last[row]} is before the first,"
            f" {table.position[row]} -> check both columns"
        )
    seen: dict[tuple[Any, ...], int] = {}
    ids = zip(table.unit, table.dataset, table.video, table.track.tolist(), table.position.tolist(), strict=True)
    for row, key in enumerate(ids):
        if key in seen:
            raise UserError(
                f"{where}: {_name(table, row)}: the same tracklet as row {seen[key]} -> was a dataset given twice?"
            )
        seen[key] = row


def _name(table: Embeddings, row: int | np.integer[Any]) -> str:
    return f"row {row} (dataset {table.dataset[row]!r}, video {table.video[row]!r}, track {table.track[row]})"


def _plain(name: str, values: NDArray[Any]) -> NDArray[Any]:
    return values.astype(object) if name in TEXT else values
