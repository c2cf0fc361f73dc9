"""Exported encoders without torch: only numpy and onnxruntime are needed.

    encoder = OnnxEncoder(Path("exported"))  # a folder that `polyptrace export --to onnx` wrote
    vectors = encoder(tracklets)             # list of (frames, height, width, 3) uint8 -> (n, D) float32
    track = encoder.track()
    vector = track.add(crop)                 # (H, W, 3) uint8 -> (D,), the vector of all frames of the track so far

`embed_export` embeds a dataset folder; it also needs what reads one (pyarrow).
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import polyptrace
from polyptrace.core.arrays import Pixels
from polyptrace.core.errors import UserError
from polyptrace.core.files import provenance, read_json

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

    from polyptrace.embed.table import Embeddings

INFO_FILE = "export.json"
#: Version of the folder.
VERSION = 1
GRAPHS = ("features", "aggregate", "encoder")
#: Frames that go through the backbone at once.
BATCH_FRAMES = 32
#: Of a longer running track, the last frames are used.
LONGEST_TRACK = 1024
AGAIN = "export the encoder again"

Float32s = NDArray[np.float32]


@dataclass(frozen=True)
class ExportInfo:
    """What `export.json` and the metadata of each graph say about the encoder."""

    polyptrace: int  # format version
    release: str  # version of the package that wrote it
    format: str
    precision: str
    name: str
    width: int  # of a vector (D)
    size: int  # side of the encoder's input, in pixels
    model_hash: str
    fingerprint: str  # of all that decides the vectors
    files: dict[str, str] = field(default_factory=dict)  # SHA-256 of each graph


class OnnxEncoder:
    """An exported encoder, called with a list of tracklets; the vectors are those of torch.

    `threads` is the number of CPU threads; 0: one per core.
    """

    def __init__(self, folder: Path | str, threads: int = 0) -> None:
        self.folder, self.threads = Path(folder), threads
        self.info = read_export(self.folder)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all that decides the vectors: weights, architecture, preprocessing and precision."""
        return self.info.fingerprint

    def __call__(self, tracklets: Iterable[Pixels]) -> Float32s:
        """Vectors (n, D) of n tracklets, each (frames, height, width, 3) uint8 RGB crops of any size and length."""
        crops = [_checked(tracklet, f"tracklets[{index}]") for index, tracklet in enumerate(tracklets)]
        vectors = np.empty((len(crops), self.info.width), np.float32)
        for shape in dict.fromkeys(each.shape for each in crops):
            members = [index for index, each in enumerate(crops) if each.shape == shape]
            features = self.features(np.concatenate([crops[index] for index in members]))
            vectors[members] = self.aggregate(features.reshape(len(members), shape[0], -1))
        return vectors

    def track(self) -> "OnnxTrack":
        """A new running track without frames."""
        return OnnxTrack(self)

    def features(self, crops: Pixels) -> Float32s:
        """Features (n, F) of crops (n, H, W, 3), a few at a time."""
        parts = range(0, len(crops), BATCH_FRAMES)
        run = self._features.run
        return np.concatenate([run(None, {"crops": crops[start : start + BATCH_FRAMES]})[0] for start in parts])

    def aggregate(self, features: Float32s, mask: NDArray[np.bool_] | None = None) -> Float32s:
        """Vectors (B, D) of features (B, L, F); the mask (B, L) is True for valid frames."""
        valid = np.ones(features.shape[:2], np.bool_) if mask is None else mask
        vectors: Float32s = self._aggregate.run(None, {"features": features, "mask": valid})[0]
        return vectors

    @cached_property
    def _features(self) -> "InferenceSession":
        return _session(self.folder, "features", self.info, self.threads)

    @cached_property
    def _aggregate(self) -> "InferenceSession":
        return _session(self.folder, "aggregate", self.info, self.threads)


class OnnxTrack:
    """One running track; `len(track)` is the number of its frames so far."""

    def __init__(self, encoder: OnnxEncoder) -> None:
        self._encoder = encoder
        self._features: list[Float32s] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, crops: Pixels) -> Float32s:
        """Adds a crop (H, W, 3) uint8, or several (n, H, W, 3), and returns the vector (D,) of the track."""
        new = _checked(np.asarray(crops)[None] if np.ndim(crops) == 3 else crops, "crops")
        self._features = [*self._features, *self._encoder.features(new)][-LONGEST_TRACK:]
        self._count += len(new)
        vector: Float32s = self._encoder.aggregate(np.stack(self._features)[None])[0]
        return vector


def embed_export(encoder: OnnxEncoder, data: Path, *, enlarge: bool = False) -> "Embeddings":
    """The vectors of all tracklets and tracks of a dataset folder, as `polyptrace.embed.embed` gives them."""
    from polyptrace.core.console import progress
    from polyptrace.data import Dataset
    from polyptrace.embed.table import COLUMNS, Embeddings

    dataset, info = Dataset.open(data), encoder.info
    stored, tracklets = dataset.crops.shape[1], dataset.tracklets
    if stored < info.size and not enlarge:
        raise UserError(
            f"{data}: crops of {stored} pixels, but the encoder takes {info.size} -> run `polyptrace prepare` with"
            f" --crops.size {info.size}, or allow enlarged crops with --embed.enlarge true"
        )
    tracks: dict[tuple[str, str, int], list[int]] = {}  # the tracklets of a track share frames
    for index, key in enumerate(zip(tracklets.dataset, tracklets.video, tracklets.track.tolist(), strict=True)):
        tracks.setdefault(key, []).append(index)
    vectors = np.empty((len(tracklets), info.width), np.float32)
    with progress("embedding with onnxruntime", len(tracklets), "tracklets") as bar:
        for members in tracks.values():
            used = np.unique(np.concatenate([tracklets.rows[i] for i in members]))
            features = encoder.features(dataset.crops[used])
            for i in members:
                vectors[i] = encoder.aggregate(features[np.searchsorted(used, tracklets.rows[i])][None])[0]
            bar.advance(len(members))
    about = {
        "encoder": info.name,
        "model_hash": info.model_hash,
        "fingerprint": info.fingerprint,
        "precision": f"{info.precision}, onnxruntime",
        "generated": dataset.generated,
        "dataset": {"path": str(data), **{key: dataset.info.get(key, {}) for key in ("source", "hashes")}},
        "units": sorted(set(tracklets.unit.tolist())),
        "made_by": provenance(),
        "from": str(encoder.folder),
        "method": {"name": info.name},
    }
    columns = {name: getattr(tracklets, name) for name in COLUMNS}
    return Embeddings.from_columns({"vectors": vectors, **columns}, where=str(data), info=about)


def read_export(folder: Path) -> ExportInfo:
    """`export.json` of a folder of ONNX graphs, checked."""
    path = folder / INFO_FILE
    if not path.is_file():
        raise UserError(f"{folder}: contains no {INFO_FILE} -> give a folder that `polyptrace export --to onnx` wrote")
    info = _info(read_json(path), str(path))
    if info.format != "onnx":
        raise UserError(f"{path}: an export to {info.format} -> run it with torch, or export with --to onnx")
    return info


def _info(content: Any, where: str) -> ExportInfo:
    """The information of an export; an error says what another version has."""
    if not isinstance(content, dict):
        raise UserError(f"{where}: is not an object -> {AGAIN}")
    types = {each.name: each.type for each in fields(ExportInfo)}
    version = content.get("polyptrace")
    if version != VERSION:
        lacks = ", ".join(sorted(set(types) - set(content))) or "nothing"
        raise UserError(
            f"{where}: format version {version!r}, written by release {content.get('release', 'unknown')}; this release"
            f" ({polyptrace.__version__}) reads {VERSION} (the file lacks {lacks}) -> use that release, or {AGAIN}"
        )
    known = {name: value for name, value in content.items() if name in types}
    missing = sorted(set(types) - set(known) - {"files"})
    if missing:
        raise UserError(f"{where}: {missing[0]}: is missing -> {AGAIN}")
    for name, value in known.items():
        kind = {"files": dict, "polyptrace": int, "width": int, "size": int}.get(name, str)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise UserError(f"{where}: {name}: {value!r} is not of type {kind.__name__} -> {AGAIN}")
    return ExportInfo(**known)


def _session(folder: Path, graph: str, info: ExportInfo, threads: int) -> "InferenceSession":
    """A graph, ready to run; an error if it is not the one that `export.json` names."""
    try:
        import onnxruntime
    except ImportError:
        raise UserError("onnxruntime is not installed -> pip install 'polyptrace[onnx]'") from None

    path = folder / f"{graph}.onnx"
    if not path.is_file():
        raise UserError(f"{path}: no such file -> {AGAIN}")
    content = path.read_bytes()
    _verify(path, content, info)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # it slows down shared machines
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has many exceptions for damaged files
        reason = str(error).partition("\n")[0]
        raise UserError(f"{path}: onnxruntime cannot load it ({reason}) -> {AGAIN}") from None
    return session


def _verify(path: Path, content: bytes, info: ExportInfo) -> None:
    """Raises an error unless a graph is the one that was exported with `export.json`."""
    try:
        model = _scan(content)
        described = json.loads(model.metadata.get("polyptrace", "null"))
    except (IndexError, UnicodeDecodeError, ValueError):
        raise UserError(f"{path}: not a complete ONNX file -> {AGAIN}") from None
    if model.external:
        raise UserError(f"{path}: {model.external[0]} is stored in another file, which is not read -> {AGAIN}")
    if "polyptrace" not in model.metadata:
        raise UserError(f"{path}: not written by polyptrace (no metadata) -> {AGAIN}")
    made = _info(described, f"{path}: metadata")
    if made.fingerprint != info.fingerprint:
        raise UserError(
            f"{path}: of another encoder ({made.name}, {made.precision}, fingerprint {made.fingerprint[:12]}) than"
            f" {INFO_FILE} ({info.name}, {info.precision}, {info.fingerprint[:12]}) -> do not mix two exports"
        )
    different = [
        each.name
        for each in fields(made)
        if each.name != "files" and getattr(made, each.name) != getattr(info, each.name)
    ]
    if different:
        raise UserError(f"{path}: its metadata and {INFO_FILE} differ in {', '.join(different)} -> {AGAIN}")
    if hashlib.sha256(content).hexdigest() != info.files.get(path.name):
        raise UserError(f"{path}: not the file that was exported (hash) -> {AGAIN}")


@dataclass
class _Model:
    """What is read from an ONNX file before onnxruntime loads it."""

    metadata: dict[str, str] = field(default_factory=dict)
    external: list[str] = field(default_factory=list)  # tensors whose data are in other files


#: Parts of an ONNX file (protocol buffers, onnx.proto) that contain tensors: message, field number, its message.
_PARTS = {
    "model": {7: "graph", 14: "property", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
_TENSOR_NAME, _EXTERNAL_DATA, _DATA_LOCATION = 8, 13, 14


def _scan(content: bytes) -> _Model:
    """Reads metadata, and finds external data anywhere in the file."""
    model = _Model()
    waiting = [("model", memoryview(content))]
    while waiting:
        kind, data = waiting.pop()
        if kind == "property":
            texts = {number: bytes(value).decode() for number, value in _fields(data) if not isinstance(value, int)}
            model.metadata[texts.get(1, "")] = texts.get(2, "")
        elif kind == "tensor":
            parts = dict(_fields(data))
            if _EXTERNAL_DATA in parts or parts.get(_DATA_LOCATION):
                name = parts.get(_TENSOR_NAME, b"")
                model.external.append(f"tensor {bytes(name).decode(errors='replace')!r}")
        else:
            inner = _PARTS[kind]
            waiting += [(inner[n], v) for n, v in _fields(data) if n in inner and not isinstance(v, int)]
    return model


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Number and value of each field of a message: an integer, or the bytes of text, a message or packed numbers."""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        match key & 7:
            case 0:
                value, position = _varint(data, position)
                yield key >> 3, value
                continue
            case 1:
                length = 8
            case 2:
                length, position = _varint(data, position)
            case 5:
                length = 4
            case _:
                raise ValueError(f"wire type {key & 7}")
        if position + length > len(data):
            raise ValueError("truncated")
        yield key >> 3, data[position : position + length]
        position += length


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7


def _checked(tracklet: Pixels, where: str) -> Pixels:
    """A tracklet (L, H, W, 3) uint8; an error if it has another type or shape."""
    crops = np.asarray(tracklet)
    if crops.dtype != np.uint8 or crops.ndim != 4 or crops.shape[-1] != 3 or not crops.size:
        raise UserError(
            f"{where}: {crops.dtype} of shape {crops.shape} -> give uint8 of shape (frames, height, width, 3), with at"
            " least one frame"
        )
    return crops
