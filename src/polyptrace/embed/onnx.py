"""Exported encoders without torch: only numpy and onnxruntime are needed.

    encoder = OnnxEncoder(Path("exported"))  # a folder that `polyptrace export --to onnx` wrote
    vectors = encoder(tracklets)             # list of (frames, height, width, 3) uint8 -> (n, D) float32
    track = encoder.track()
    vector = track.add(crop)                 # (H, W, 3) uint8 -> (D,), the vector of all frames of the track so far

`embed_export` embeds a dataset folder; it also needs what reads one (pyarrow).
"""

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from polyptrace.core.arrays import Float32s, Pixels
from polyptrace.core.errors import UserError
from polyptrace.core.files import file_hash, read_versioned
from polyptrace.core.schema import from_json
from polyptrace.embed.partial import PartialVectors

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

    from polyptrace.data import Dataset
    from polyptrace.embed.table import Embeddings

INFO_FILE = "export.json"
#: Version of the folder.
VERSION = 1
#: Frames that go through the backbone at once.
BATCH_FRAMES = 16
#: Batches at the same time: one computes while the threads of the other wait for each other.
RUNS = 2
#: Of a longer running track, the last frames are used.
LONGEST_TRACK = 1024
#: The largest width of a vector that is accepted from a file.
WIDEST = 2**20
AGAIN = "export the encoder again"


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

    def __post_init__(self) -> None:
        if not 0 < self.width <= WIDEST:
            raise ValueError(f"width: {self.width} is not in 1..{WIDEST}")


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
        crops = [np.asarray(tracklet) for tracklet in tracklets]
        for index, each in enumerate(crops):
            check_crops(each, f"tracklets[{index}]")
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
        session, size = self._features, BATCH_FRAMES

        def run(start: int) -> Float32s:
            return session.run(None, {"crops": crops[start : start + size]})[0]

        return np.concatenate(list(self._runs.map(run, range(0, len(crops), size))))

    def aggregate(self, features: Float32s) -> Float32s:
        """Vectors (B, D) of features (B, L, F), all of valid frames."""
        return self._aggregate.run(None, {"features": features, "mask": np.ones(features.shape[:2], np.bool_)})[0]

    @cached_property
    def _runs(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1 if self.threads == 1 else RUNS)

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
        new = np.asarray(crops)[None] if np.ndim(crops) == 3 else np.asarray(crops)
        check_crops(new, "crops")
        self._features = [*self._features, *self._encoder.features(new)][-LONGEST_TRACK:]
        self._count += len(new)
        return self._encoder.aggregate(np.stack(self._features)[None])[0]


def embed_export(encoder: OnnxEncoder, data: Path, *, enlarge: bool = False, out: Path | None = None) -> "Embeddings":
    """The vectors of all tracklets and tracks of a dataset folder, as `polyptrace.embed.embed` gives them.

    If `out` is given, the folder that the caller will save to, an interrupted call is resumed by the next one.
    """
    from polyptrace.core.console import progress
    from polyptrace.data import Dataset
    from polyptrace.embed.table import of_dataset

    dataset, info = Dataset.open(data), encoder.info
    tracklets = dataset.tracklets
    check_crop_size(dataset.crops.shape[1], info, str(data), enlarge=enlarge)
    tracks: dict[tuple[str, str, int], list[int]] = {}  # the tracklets of a track share frames
    for index, key in enumerate(zip(tracklets.dataset, tracklets.video, tracklets.track.tolist(), strict=True)):
        tracks.setdefault(key, []).append(index)
    partial = PartialVectors(out, dataset, {"fingerprint": info.fingerprint, "enlarge": enlarge})
    groups = list(tracks.values())
    with progress("embedding with onnxruntime", len(tracklets), "tracklets") as bar:
        bar.skip(sum(map(len, groups[: partial.finished])))
        for members in groups[partial.finished :]:
            _add_track(encoder, dataset, members, partial)
            bar.advance(len(members))
    about = {
        "encoder": info.name,
        "model_hash": info.model_hash,
        "fingerprint": info.fingerprint,
        "precision": f"{info.precision}, onnxruntime",
        "from": str(encoder.folder),
        "settings": {"enlarge": enlarge},
        "method": {"name": info.name},
    }
    return of_dataset(dataset, sorted(set(tracklets.unit.tolist())), *partial.result(), about)


def _add_track(encoder: OnnxEncoder, dataset: "Dataset", members: list[int], partial: PartialVectors) -> None:
    """Computes the vectors of the tracklets `members` of one track, continuing an interrupted run."""
    rows = [dataset.tracklets.rows[i] for i in members]
    used = np.unique(np.concatenate(rows))
    features = np.empty((0, 0), np.float32) if partial.features is None else partial.features  # (n, F)
    partial.features = None
    step = RUNS * BATCH_FRAMES
    for start in range(len(features), len(used), step):
        new = encoder.features(dataset.crops[used[start : start + step]])
        features = np.concatenate([features, new]) if len(features) else new
        partial.save_if_due(features.copy)
    vectors = np.concatenate([encoder.aggregate(features[np.searchsorted(used, each)][None]) for each in rows])
    partial.add(np.array(members), vectors.copy)


def read_export(folder: Path) -> ExportInfo:
    """`export.json` of a folder of ONNX graphs, checked."""
    path = folder / INFO_FILE
    if not path.is_file():
        raise UserError(f"{folder}: contains no {INFO_FILE} -> give a folder that `polyptrace export --to onnx` wrote")
    content = read_versioned(path, VERSION, AGAIN)
    names = {each.name for each in fields(ExportInfo)} & set(content)  # it also describes preprocessing and training
    info = from_json(ExportInfo, {name: content[name] for name in names}, str(path), AGAIN)
    if info.format != "onnx":
        raise UserError(f"{path}: an export to {info.format} -> run it with torch, or export with --to onnx")
    return info


def metadata(info: ExportInfo, graph: str) -> str:
    """What a graph says about itself: its name, and what `export.json` says about the encoder."""
    return json.dumps(asdict(replace(info, files={})) | {"graph": graph})


def _session(folder: Path, graph: str, info: ExportInfo, threads: int) -> "InferenceSession":
    """A graph, ready to run; an error if it is not the file whose hash `export.json` has."""
    try:
        import onnxruntime
    except ImportError:
        raise UserError("onnxruntime is not installed -> pip install 'polyptrace[onnx]'") from None

    path = folder / f"{graph}.onnx"
    if not path.is_file() or not path.stat().st_size:
        raise UserError(f"{path}: no such file, or it is empty -> {AGAIN}")
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        if content.find(b"location") >= 0:  # ONNX's key for the name of another file
            raise UserError(f"{path}: weights are stored in another file, which is not read -> {AGAIN}")
    if file_hash(path) != info.files.get(path.name):
        raise UserError(f"{path}: not the file that was exported (hash) -> {AGAIN}, and do not mix two exports")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4  # errors are reported below
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # it slows down shared machines
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has many exceptions for damaged files
        reason = str(error).partition("\n")[0]
        raise UserError(f"{path}: onnxruntime cannot load it ({reason}) -> {AGAIN}") from None
    if session.get_modelmeta().custom_metadata_map.get("polyptrace") != metadata(info, graph):
        raise UserError(
            f"{path}: its metadata are not those of {INFO_FILE} ({info.name}, {info.precision}, fingerprint"
            f" {info.fingerprint[:12]}) -> do not mix two exports; {AGAIN} if one of the files was changed"
        )
    return session


def check_crop_size(stored: int, info: ExportInfo, where: str, *, enlarge: bool) -> None:
    """Raises an error if crops of `stored` pixels would have to be enlarged, and that is not allowed."""
    if stored < info.size and not enlarge:
        raise UserError(
            f"{where}: crops of {stored} pixels, but the encoder takes {info.size} -> cut them with --crops.size"
            f" {info.size}, or allow enlarged crops with --embed.enlarge true"
        )


def check_crops(crops: Any, where: str) -> None:
    """Raises an error unless an array or tensor has the type and shape of the crops of a tracklet."""
    kind, shape = str(crops.dtype).removeprefix("torch."), tuple(crops.shape)
    if kind != "uint8" or len(shape) != 4 or shape[-1] != 3 or 0 in shape:
        hint = "; give a single one in a list" if len(shape) == 3 and where.startswith("tracklets") else ""
        raise UserError(
            f"{where}: {kind} of shape {shape} -> give each tracklet as uint8 of shape (frames, height, width, 3), with"
            f" at least one frame{hint}"
        )
