"""From a frozen encoder and a dataset to vectors, for tracklets and whole tracks.

    embeddings = embed(load_encoder("runs/ours"), Dataset.open("data/test"))

A frame that a tracklet and its track share goes through the backbone once, where the encoder works frame by frame:
features of a block of frames first, then the vectors of the tracklets in it. Other encoders get whole tracklets, those
of similar length together.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from polyptrace.config import Embed
from polyptrace.data import Dataset
from polyptrace.embed.table import COLUMNS, Embeddings
from polyptrace.encoders import Preprocess, check_crop_size, prepare_crops, weights_hash
from polyptrace.encoders.foundation import FoundationEncoder
from polyptrace.errors import UserError
from polyptrace.files import provenance
from polyptrace.progress import Bar, progress

Ints = NDArray[np.int64]

#: Frames whose features are held at a time: a few videos' worth.
BLOCK = 32_768

#: Frames from which a GPU wins back the time that compiling a foundation model takes.
COMPILE_FROM = 50_000


@runtime_checkable
class FrameByFrame(Protocol):
    """An encoder whose backbone sees each frame on its own."""

    def frame_features(self, frames: Tensor) -> Tensor:
        """Features (n, F) of frames (n, 3, H, W)."""

    def aggregate(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Vectors (B, D) of features (B, L, F)."""


def embed(
    encoder: nn.Module,
    dataset: Dataset,
    units: Sequence[str] = ("tracklet", "track"),
    settings: Embed | None = None,
) -> Embeddings:
    """The vectors of all tracklets of the units, in the dataset's order, with their ids and labels."""
    settings = settings or Embed()
    chosen = np.flatnonzero(np.isin(dataset.tracklets.unit, list(units)))
    if not len(chosen):
        raise UserError(f"{dataset.path}: has no {' or '.join(units)} -> was it prepared to the end?")
    preprocess = preprocess_of(encoder)
    check_crop_size(dataset.crops.shape[1], preprocess, enlarge=settings.enlarge)
    device = choose_device(settings.device)
    precision = choose_precision(settings.precision, device)
    encoder = encoder.eval().to(device)
    work = _Work(encoder, dataset, preprocess, device, settings)
    frames = np.unique(np.concatenate([dataset.tracklets.rows[i] for i in chosen]))
    by_frame = isinstance(encoder, FrameByFrame)
    count = len(frames) if by_frame else int(dataset.tracklets.length[chosen].sum())
    worth_it = device.type == "cuda" and count >= COMPILE_FROM
    if isinstance(encoder, FoundationEncoder) and (
        settings.compile == "on" or (settings.compile == "auto" and worth_it)
    ):
        encoder.compile()
    with (
        torch.inference_mode(),
        torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"),
        progress(f"embedding on {device.type}, {precision}", count, "frames") as bar,
    ):
        vectors = work.frame_by_frame(chosen, bar) if by_frame else work.whole_tracklets(chosen, bar)
    return _table(dataset, chosen, vectors, encoder, precision, units)


class _Work:
    """One embedding job: what both ways of doing it share."""

    def __init__(
        self, encoder: nn.Module, dataset: Dataset, preprocess: Preprocess, device: torch.device, settings: Embed
    ) -> None:
        self.encoder, self.dataset, self.preprocess = encoder, dataset, preprocess
        self.device, self.settings = device, settings
        if isinstance(encoder, FrameByFrame):  # video models have weights of five dimensions, which it does not take
            encoder.to(memory_format=torch.channels_last)

    def frame_by_frame(self, chosen: Ints, bar: Bar) -> NDArray[np.float32]:
        """Vectors (N, D): features of the frames of a block, then its tracklets."""
        assert isinstance(self.encoder, FrameByFrame)
        rows = self.dataset.tracklets.rows
        vectors: dict[int, NDArray[np.float32]] = {}
        for block in blocks(rows, chosen, BLOCK):
            frames = np.unique(np.concatenate([rows[i] for i in block]))
            parts = []
            for prepared in self._prepared(np.array_split(frames, -(-len(frames) // self.settings.batch_frames))):
                parts.append(self.encoder.frame_features(prepared))
                bar.advance(len(prepared))
            features = torch.cat(parts)  # (n, F)
            for batch in batches_by_length(self.dataset.tracklets.length, block, 8 * self.settings.batch_frames):
                place, mask = _padded([np.searchsorted(frames, rows[i]) for i in batch])
                real = torch.from_numpy(mask).to(self.device)
                gathered = features[torch.from_numpy(place).to(self.device)]  # (B, L, F)
                found = self.encoder.aggregate(gathered * real[..., None], None if mask.all() else real)
                vectors |= dict(zip(batch.tolist(), found.float().cpu().numpy(), strict=True))
        return np.stack([vectors[i] for i in chosen.tolist()])

    def whole_tracklets(self, chosen: Ints, bar: Bar) -> NDArray[np.float32]:
        """Vectors (N, D): tracklets of similar length together."""
        rows = self.dataset.tracklets.rows
        vectors: dict[int, NDArray[np.float32]] = {}
        batches = list(batches_by_length(self.dataset.tracklets.length, chosen, self.settings.batch_frames))
        tables = [_padded([rows[i] for i in batch]) for batch in batches]
        prepared = self._prepared([place.reshape(-1) for place, _ in tables])
        for batch, (_, mask), frames in zip(batches, tables, prepared, strict=True):
            frames = frames.reshape(*mask.shape, *frames.shape[1:])  # (B, L, 3, H, W)
            found = self.encoder(frames, None if mask.all() else torch.from_numpy(mask).to(self.device))
            vectors |= dict(zip(batch.tolist(), found.float().cpu().numpy(), strict=True))
            bar.advance(int(mask.sum()))
        return np.stack([vectors[i] for i in chosen.tolist()])

    def _prepared(self, parts: Sequence[Ints]) -> Iterator[Tensor]:
        """Frames (n, 3, H, W) of each part, rows of the crop store, as the encoder wants them; read one part ahead."""
        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(self._read, parts[0])
            for following in (*parts[1:], None):
                crops = coming.result()
                if following is not None:
                    coming = reader.submit(self._read, following)
                crops = crops.to(self.device, non_blocking=True)
                yield prepare_crops(crops, self.preprocess, enlarge=self.settings.enlarge)

    def _read(self, rows: Ints) -> Tensor:
        """Crops (n, S, S, 3) on the host, where a GPU can fetch them from."""
        shape = (len(rows), *self.dataset.crops.shape[1:])
        crops = torch.empty(shape, dtype=torch.uint8, pin_memory=self.device.type == "cuda")
        np.take(self.dataset.crops, rows, axis=0, out=crops.numpy(), mode="clip")
        return crops


def blocks(rows: Sequence[Ints], chosen: Ints, size: int) -> Iterator[Ints]:
    """Tracklets in groups whose frames lie together in the store, about `size` frames each."""
    order = chosen[np.argsort([rows[i][0] for i in chosen], kind="stable")]
    begin, first = 0, int(rows[order[0]][0])
    reached = first
    for place, i in enumerate(order):
        here = int(rows[i][0])
        if here - first >= size and here > reached:
            yield order[begin:place]
            begin, first = place, here
        reached = max(reached, int(rows[i].max()))
    yield order[begin:]


def batches_by_length(length: Ints, chosen: Ints, frames: int) -> Iterator[Ints]:
    """Tracklets of similar length together, as many as have about so many frames when padded, one at least."""
    order = chosen[np.argsort(-length[chosen], kind="stable")]
    begin = 0
    while begin < len(order):
        count = max(1, frames // int(length[order[begin]]))
        yield order[begin : begin + count]
        begin += count


def preprocess_of(encoder: nn.Module) -> Preprocess:
    """What an encoder says about its input."""
    preprocess = encoder.preprocess
    assert isinstance(preprocess, Preprocess)
    return preprocess


def choose_device(wanted: str) -> torch.device:
    """The device to embed on."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise UserError("--embed.device cuda: torch sees no GPU -> check the driver, or use --embed.device cpu")
    return torch.device("cuda" if torch.cuda.is_available() and wanted != "cpu" else "cpu")


def choose_precision(wanted: str, device: torch.device) -> str:
    """bf16 or float32."""
    if wanted != "auto":
        return wanted
    return "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False) else "float32"


def _padded(places: Sequence[Ints]) -> tuple[Ints, NDArray[np.bool_]]:
    """Places (B, L) of frames, and where they are real (B, L); the others repeat the first, and count for nothing."""
    length = np.array([len(p) for p in places])
    mask = np.arange(length.max()) < length[:, None]
    table = np.repeat(np.array([p[0] for p in places])[:, None], length.max(), axis=1)
    table[mask] = np.concatenate(places)
    return table, mask


def _table(
    dataset: Dataset,
    chosen: Ints,
    vectors: NDArray[np.float32],
    encoder: nn.Module,
    precision: str,
    units: Sequence[str],
) -> Embeddings:
    """The vectors with their ids, labels and provenance."""
    broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(broken):
        row = chosen[broken[0]]
        raise UserError(
            f"{dataset.path}: the vector of tracklet {row} (video {dataset.tracklets.video[row]}) is not finite"
            " -> try --embed.precision float32; if it stays, the encoder itself is broken"
        )
    info = {
        "encoder": str(encoder.name),
        "model_hash": weights_hash(encoder),
        "precision": precision,
        "dataset": {"path": str(dataset.path), **{k: dataset.info.get(k, {}) for k in ("source", "hashes")}},
        "units": list(units),
        "made_by": provenance(),
    }
    columns = {name: getattr(dataset.tracklets, name)[chosen] for name in COLUMNS}
    return Embeddings(vectors=vectors, **columns, info=info)
