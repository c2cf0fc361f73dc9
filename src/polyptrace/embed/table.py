"""The table of vectors between embedding and evaluation, made by polyptrace or by another program.

    embeddings = Embeddings.load(Path("E"))            # a folder of polyptrace, or a .parquet or .npz file
    tracks = embeddings.select("track")

A folder contains `embeddings.parquet` (one row per tracklet: ids, labels if known, `vector`) and `embeddings.json` (how
it was made: encoder, fingerprint, dataset, whether the data is generated). A file of another program needs the vectors
(`vectors` (N, D) in an .npz, a list column `vector` in a .parquet) and the columns that the evaluation uses, under the
names of the fields below.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from polyptrace.core.arrays import Float32s, Floats, Ints
from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_folder, provenance, read_json, sync, write_json, wrong_folder
from polyptrace.core.schema import read_npz, read_parquet, write_parquet
from polyptrace.data import Dataset
from polyptrace.data.dataset import FLOATS, INTS, STRINGS, tracklets_hash
from polyptrace.data.identity import TrackKey, codes, video_keys
from polyptrace.embed.partial import ANSWERS_FILE, VECTORS_FILE

#: Columns other than the vector, in the order of the file.
COLUMNS = ("unit", "dataset", "video", "track", "position", "last", "fps", "polyp", "size_mm", "histology")
INFO_FILE = "embeddings.json"
OR_FILE = ", or a .npz or .parquet file"
#: Version of the folder.
VERSION = 1
#: Types of the fields of embeddings.json that other stages read.
INFO_TYPES: dict[str, type] = {
    "encoder": str,
    "model_hash": str,
    "fingerprint": str,
    "precision": str,
    "generated": bool,
    "dataset": dict,
    "units": list,
    "settings": dict,
    "method": dict,
}
KNOWN_UNITS = ("tracklet", "track", "any")


@dataclass(frozen=True)
class Embeddings:
    """Vectors (N, D) with their ids and labels, arrays of length N; "", -1 and NaN mean unknown.

    `unit` is "tracklet" (L frames), "track" (a whole track) or "any" (usable as either). `position` and `last` are the
    first and last frame in the video. Polyp ids are unique within a dataset, track ids within a video.
    """

    vectors: Float32s
    unit: NDArray[Any]
    dataset: NDArray[Any]
    video: NDArray[Any]
    track: Ints
    position: Ints
    last: Ints
    fps: Floats
    polyp: NDArray[Any]
    size_mm: Floats
    histology: NDArray[Any]
    info: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def generated(self) -> bool:
        """Whether the images are generated, not recorded."""
        return bool(self.info.get("generated", False))

    def rows(self, index: NDArray[Any]) -> Self:
        """The rows of an index or mask."""
        return replace(self, vectors=self.vectors[index], **{c: getattr(self, c)[index] for c in COLUMNS})

    def columns(self) -> dict[str, NDArray[Any]]:
        """All columns except the vectors, with text as unicode arrays, which can be saved without pickle."""
        return {c: getattr(self, c).astype(str) if c in STRINGS else getattr(self, c) for c in COLUMNS}

    def select(self, unit: str) -> Self:
        """The rows that can serve as the unit ("tracklet" or "track")."""
        chosen = np.isin(self.unit, (unit, "any"))
        return self if chosen.all() else self.rows(chosen)

    def track_key(self, row: int) -> TrackKey:
        """The key of the track of a row."""
        return str(self.dataset[row]), str(self.video[row]), int(self.track[row]), int(self.position[row])

    def whole_tracks(self, source: str) -> Self:
        """The rows of whole tracks, of which there must be some, each with its procedure; errors name the source."""
        tracks = self.select("track")
        if not len(tracks):
            raise UserError(f"{source}: no vectors of whole tracks -> embed the dataset with 'polyptrace embed'")
        if (tracks.video == "").any():
            row = int(np.argmax(tracks.video == ""))
            raise UserError(f"{source}: row {row} has no video -> add the column 'video'")
        return tracks

    def save(self, folder: Path | str, *, overwrite: bool = False) -> None:
        """Writes `embeddings.parquet` and `embeddings.json`, atomically. The answers of `explore` there are kept."""
        flat = pa.array(np.ascontiguousarray(self.vectors, dtype=np.float32).reshape(-1))
        columns = {c: pa.array(getattr(self, c).astype(object) if c in STRINGS else getattr(self, c)) for c in COLUMNS}
        columns["vector"] = pa.FixedSizeListArray.from_arrays(flat, self.vectors.shape[1])
        with atomic_folder(Path(folder), overwrite=overwrite, mark=VECTORS_FILE) as temporary:
            write_parquet(pa.table(columns), temporary / VECTORS_FILE)
            write_json(temporary / INFO_FILE, {"version": VERSION, **self.info})
            if (answers := Path(folder) / ANSWERS_FILE).is_file():  # people's work, which names tracks by their frames
                sync(Path(shutil.copy2(answers, temporary)))

    @classmethod
    def load(cls, path: Path | str, unit: str | None = None) -> Self:
        """A folder of polyptrace, a .parquet or an .npz file; errors name the file and the row or field.

        With a unit, only its rows, as `select` gives them; of a .parquet the others are not kept in memory.
        """
        path = Path(path)
        if not path.exists():
            raise wrong_folder(path, "embed", OR_FILE)
        info: dict[str, Any] = {}
        if path.is_dir():
            if (path / INFO_FILE).exists():
                info = _read_info(path / INFO_FILE)
            if not (path / VECTORS_FILE).is_file():
                raise wrong_folder(path, "embed", OR_FILE)
            path = path / VECTORS_FILE
        if path.suffix not in (".npz", ".parquet") and not _begins_as_parquet(path):
            advice = "write an .npz with an array 'vectors', or a .parquet with a column 'vector'"
            raise UserError(f"{path}: neither an .npz nor a .parquet file -> {advice}")
        columns = _read_npz(path) if path.suffix == ".npz" else _read_parquet(path, unit)
        table = cls.from_columns(columns, where=str(path), info=info)
        return table if unit is None else table.select(unit)

    @classmethod
    def from_columns(
        cls,
        columns: Mapping[str, NDArray[Any]],
        where: str = "embeddings",
        info: dict[str, Any] | None = None,
    ) -> Self:
        """A table of vectors and any of the other columns; missing columns are unknown."""
        unknown = sorted(set(columns) - {"vectors", *COLUMNS})
        if unknown:
            near = get_close_matches(unknown[0], COLUMNS, 1)
            advice = f"did you mean {near[0]!r}?" if near else f"known: vectors, {', '.join(COLUMNS)}"
            raise UserError(f"{where}: unknown column {unknown[0]!r} -> {advice}")
        vectors = _vectors(columns["vectors"], where)
        count = len(vectors)
        for name, values in columns.items():
            if name != "vectors" and values.ndim != 1:
                raise UserError(f"{where}: {name} has shape {values.shape} -> give one value per vector")
            if len(values) != count:
                raise UserError(f"{where}: {name} has length {len(values)}, vectors {count} -> give one per vector")
        filled = {c: _column(c, columns.get(c), count, where) for c in COLUMNS}
        if "last" not in columns:
            filled["last"] = filled["position"].copy()
        table = cls(vectors=vectors, **filled, info=info or {})
        _check_rows(table, where)
        return table


def of_dataset(
    dataset: Dataset,
    units: Sequence[str],
    tracklets: Ints,
    vectors: Float32s,
    encoder: Mapping[str, Any],
) -> Embeddings:
    """Vectors (N, D) of tracklets (N,) in any order as a table in the dataset's order, with labels and provenance.

    `encoder` is what the table's `info` says about the encoder.
    """
    order = np.argsort(tracklets)
    chosen, vectors = tracklets[order], vectors[order]
    invalid = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(invalid):
        row = chosen[invalid[0]]
        raise UserError(
            f"{dataset.path}: the vector of tracklet {row} (video {dataset.tracklets.video[row]}) is not finite"
            " -> try --embed.precision float32; if that does not help, the encoder's weights are damaged"
        )
    info = {
        **encoder,
        "generated": dataset.generated,
        "dataset": {"path": str(dataset.path), **{k: dataset.info.get(k, {}) for k in ("source", "hashes")}},
        "units": list(units),
        "made_by": provenance(),
    }
    columns = {name: getattr(dataset.tracklets, name)[chosen] for name in COLUMNS}
    return Embeddings(vectors=vectors, **columns, info=info)


def concatenate(tables: Sequence[Embeddings], where: str = "embeddings") -> Embeddings:
    """One table of the vectors of several datasets by one encoder, with the `info` of the first."""
    if not tables:
        raise UserError(f"{where}: no embeddings given -> give at least one")
    widths = sorted({t.vectors.shape[1] for t in tables})
    if len(widths) > 1:
        raise UserError(f"{where}: vectors of widths {widths} -> give embeddings of one encoder")
    for key in ("model_hash", "fingerprint"):
        prints = {str(t.info[key]) for t in tables if t.info.get(key)}
        if len(prints) > 1:
            listed = ", ".join(sorted(each[:12] for each in prints))
            raise UserError(f"{where}: embeddings of several models ({key} {listed}) -> give those of one encoder")
    joined = {
        f.name: np.concatenate([getattr(t, f.name) for t in tables]) for f in fields(Embeddings) if f.name != "info"
    }
    info = dict(tables[0].info)
    if any("generated" in t.info for t in tables):
        info["generated"] = any(t.generated for t in tables)
    table = Embeddings(**joined, info=info)
    _check_rows(table, where)
    return table


def open_datasets(paths: Sequence[Path], tracks: Embeddings) -> list[Dataset]:
    """The datasets of some tracks. One from which they were not computed is an error.

    Datasets are compared by their hashes or, where none is recorded, by the names of their procedures.
    """
    datasets = [Dataset.open(path) for path in paths]
    recorded = tracklets_hash(tracks.info.get("dataset", {}))
    for dataset in datasets:
        own = tracklets_hash(dataset.info)
        if own and recorded:
            same = own == recorded
        else:
            same = not set(video_keys(dataset.tracklets)).isdisjoint(video_keys(tracks))
        if not same:
            raise UserError(f"--data {dataset.path}: not the dataset of the vectors -> give the one that was embedded")
    return datasets


def _read_info(path: Path) -> dict[str, Any]:
    """The content of embeddings.json without its version, with the types of known fields checked."""
    info = read_json(path)
    if not isinstance(info, dict):
        raise UserError(f"{path}: contains {type(info).__name__}, not an object -> embed the dataset again")
    version = info.pop("version", VERSION)
    if version != VERSION:
        raise UserError(f"{path}: 'version' is {version!r}, this release reads {VERSION} -> embed the dataset again")
    for name, kind in INFO_TYPES.items():
        if name in info and not isinstance(info[name], kind):
            raise UserError(f"{path}: {name!r} is {info[name]!r}, not {kind.__name__} -> embed the dataset again")
    return info


def _begins_as_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    columns = read_npz(path, "write it with numpy.savez; text as arrays of type str, not object")
    if "vectors" not in columns:
        raise UserError(f"{path}: no array called 'vectors' among {sorted(columns)} -> add it, shape (N, D)")
    return columns


def _read_parquet(path: Path, unit: str | None = None) -> dict[str, NDArray[Any]]:
    advice = "give .parquet, .npz or a folder of polyptrace"
    table = read_parquet(path, advice) if unit is None else _read_unit(path, unit, advice)
    if unit is not None and not table.num_rows:
        raise UserError(f"{path}: no vectors of the unit {unit!r} -> embed the dataset with 'polyptrace embed'")
    if "vector" not in table.column_names:
        raise UserError(f"{path}: no column 'vector' among {table.column_names} -> add it, a list of floats per row")
    columns = {c: _array(table[c]) for c in table.column_names if c != "vector"}
    kind, column = table["vector"].type, table["vector"].combine_chunks()
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if not lists or column.null_count:
        raise UserError(f"{path}: column 'vector' is {kind}, or has empty rows -> give a list of floats per row")
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    uneven = np.flatnonzero(lengths != lengths[0]) if len(lengths) else np.empty(0, dtype=np.int64)
    if len(uneven):
        row = int(uneven[0])
        raise UserError(f"{path}: row {row}: width {lengths[row]}, row 0 {lengths[0]} -> give vectors of one width")
    flat = column.flatten().to_numpy(zero_copy_only=False)
    columns["vectors"] = flat.reshape(len(column), -1) if len(column) else np.empty((0, 0), dtype=np.float32)
    return columns


def _array(column: pa.ChunkedArray) -> NDArray[Any]:
    """A column as an array; equal texts are one object, because names repeat in every row of a procedure."""
    if not pa.types.is_string(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    encoded = column.combine_chunks().dictionary_encode()
    texts = np.array([*encoded.dictionary.to_pylist(), None], object)
    return np.asarray(texts[encoded.indices.fill_null(-1).to_numpy()])


def _read_unit(path: Path, unit: str, advice: str) -> pa.Table:
    """The rows of one unit, read part by part, so that the others are never all in memory; all rows without units."""
    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
        own = pa.array([unit, "any"])
        known = "unit" in file.schema_arrow.names
        parts = (
            part.filter(pc.is_in(part["unit"], own)) if known else part
            for part in file.iter_batches(8192, use_threads=False)
        )
        table = pa.Table.from_batches(parts, file.schema_arrow)
        table.validate(full=True)
    except Exception as error:  # a damaged file can raise almost anything
        raise UserError(f"{path}: not a readable Parquet file ({error}) -> {advice}") from None
    return table


def _vectors(values: NDArray[Any], where: str) -> Float32s:
    if values.ndim != 2 or values.dtype.kind not in "fiu":
        raise UserError(f"{where}: vectors are {values.dtype} of shape {values.shape} -> give numbers of shape (N, D)")
    if values.shape[0] == 0 or values.shape[1] == 0:
        raise UserError(f"{where}: there are no vectors -> give at least one row")
    return np.ascontiguousarray(values, dtype=np.float32)


def _column(name: str, values: NDArray[Any] | None, count: int, where: str) -> NDArray[Any]:
    """A column in its type; filled with the value for unknown if it is missing."""
    if values is None:
        unknown = {"unit": "any", "track": np.arange(count), "position": -1, "last": -1}
        default = unknown.get(name, "" if name in STRINGS else np.nan)
        return np.full(count, default, object if name in STRINGS else np.int64 if name in INTS else np.float64)
    if name in STRINGS:
        return np.array(["" if v is None or v != v else str(v) for v in values.tolist()], object)
    try:
        column = pa.array(values, from_pandas=name in FLOATS).cast(pa.float64() if name in FLOATS else pa.int64())
    except pa.ArrowException as error:
        kind = "numbers" if name in FLOATS else "integers"
        raise UserError(f"{where}: column {name!r}: {error} -> give {kind}") from None
    if name in INTS and column.null_count:
        raise UserError(f"{where}: column {name!r} has missing values -> give integers")
    return np.array(column.to_numpy(zero_copy_only=False))


def _check_rows(table: Embeddings, where: str) -> None:
    """Raises an error at the first invalid row."""
    for row in np.flatnonzero(~np.isfinite(table.vectors).all(axis=1)):
        raise _row_error(table, row, where, "the vector contains NaN or infinity -> embed it again")
    for row in np.flatnonzero(~np.isin(table.unit, KNOWN_UNITS)):
        raise _row_error(table, row, where, f"unit {table.unit[row]!r} -> {', '.join(KNOWN_UNITS)}")
    for row in np.flatnonzero(table.last < table.position):
        frames = f"last frame {table.last[row]} is before the first, {table.position[row]}"
        raise _row_error(table, row, where, f"{frames} -> check both columns")
    for row in np.flatnonzero(~np.isnan(table.size_mm) & ~((table.size_mm > 0) & np.isfinite(table.size_mm))):
        problem = f"size_mm is {table.size_mm[row]:g} -> give millimetres above 0, or NaN if unknown"
        raise _row_error(table, row, where, problem)
    ids = (table.position, table.track, codes(table.video), codes(table.dataset), codes(table.unit))
    order = np.lexsort(ids)  # stable: rows with the same id are in the order of the table
    repeated = np.flatnonzero(np.logical_and.reduce([each[order][1:] == each[order][:-1] for each in ids]))
    if len(repeated):
        first = repeated[np.argmin(order[repeated + 1])]
        problem = f"the same tracklet as row {order[first]} -> give each dataset once"
        raise _row_error(table, order[first + 1], where, problem)


def _row_error(table: Embeddings, row: int | np.integer[Any], where: str, problem: str) -> UserError:
    ids = f"dataset {table.dataset[row]!r}, video {table.video[row]!r}, track {table.track[row]}"
    return UserError(f"{where}: row {row} ({ids}): {problem}")
