"""python -m benchmarks embedding

Embedding throughput with a ResNet-50 at 232 px, on random crops in a dataset folder: 2,400 tracks of 8 to 64 stored
frames, and their tracklets of 8 frames. On a GPU it takes about a minute and 14 GB of temporary disk space.

ours   `polyptrace.embed.embed`, end to end: plan, reading, normalisation, backbone, aggregation, table
limit  the compiled forward alone, repeated on one batch that is on the device
plain  each tracklet and each track separately in float32, so that shared frames go through the backbone twice

The start (moving and compiling the encoder, the first batches) happens once for any number of datasets and is reported
separately, and so is the first run, in which the store may not be in the page cache. Frames are counted once per frame
of the store, also for the plain way. The second table gives upper limits of the stream: loading crops to the device
without computing, and one thread that copies them in host memory.
"""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks.random_dataset import write_tracklets
from benchmarks.result import Cells, Result, Row, number_text
from benchmarks.timing import now
from polyptrace.config import Embed
from polyptrace.data import Dataset
from polyptrace.data.crops.loader import CropLoader
from polyptrace.embed import Embedder, Embeddings, embed
from polyptrace.embed.embedding import UNITS, encoder_info, tracklets_of
from polyptrace.embed.table import of_dataset
from polyptrace.encoders import TrackletEncoder, prepare_crops

#: Frames whose random pixels are drawn; the store repeats them.
DRAWN = 1024


def make_dataset(folder: Path, tracks: int, size: int, seed: int = 0) -> Dataset:
    """A dataset folder of random crops: tracks of 8 to 64 stored frames, and their tracklets of 8."""
    random = np.random.default_rng(seed)
    count = random.integers(8, 65, tracks)
    begin = np.concatenate([[0], np.cumsum(count)])
    rows = [np.arange(a, a + 8) for t in range(tracks) for a in range(begin[t], begin[t + 1] - 7, 8)]
    unit = ["tracklet"] * len(rows) + ["track"] * tracks
    rows += [np.arange(begin[t], begin[t + 1]) for t in range(tracks)]
    first = np.array([r[0] for r in rows])
    folder.mkdir()
    pixels = random.integers(0, 256, (DRAWN, size, size, 3), np.uint8)
    store = np.lib.format.open_memmap(folder / "crops.npy", "w+", np.uint8, (int(begin[-1]), size, size, 3))
    for start in range(0, len(store), DRAWN):
        store[start : start + DRAWN] = pixels[: len(store) - start]
    return write_tracklets(
        folder,
        rows,
        unit=np.array(unit, object),
        video=np.full(len(rows), "v", object),
        track=np.searchsorted(begin, first, "right") - 1,
        position=4 * first,
        last=4 * np.array([r[-1] for r in rows]),
    )


@torch.inference_mode()
def plain(encoder: TrackletEncoder, dataset: Dataset, chosen: Sequence[int], device: torch.device) -> np.ndarray:
    """Vectors of one tracklet after the other."""
    vectors = []
    for index in chosen:
        crops, _ = dataset.gather([index])
        vectors.append(encoder(prepare_crops(crops.to(device), encoder.preprocess)).float().cpu().numpy())
    return np.concatenate(vectors)


def forward_rate(embedder: Embedder, size: int, seconds: float) -> float:
    """Frames per second of the forward alone, on a batch that is on the device."""
    crops = torch.randint(0, 256, (embedder.settings.batch_frames, size, size, 3), dtype=torch.uint8)
    crops = crops.to(embedder.device)
    for _ in range(3):
        embedder.features(crops)
    count, begun = 0, now(embedder.device)
    while time.perf_counter() - begun < seconds:
        for _ in range(4):
            embedder.features(crops)
        count += 4 * len(crops)
        ended = now(embedder.device)
    return count / (ended - begun)


def load_seconds(dataset: Dataset, batch: int, device: torch.device) -> float:
    """Seconds for loading all crops to the device, as in `embed`, without computing."""
    crops = Dataset.open(dataset.path).crops  # opened again: pages that this process has not touched
    begun = now(device)
    parts = np.split(np.arange(len(crops)), range(batch, len(crops), batch))
    for _ in CropLoader(crops, device).stream(parts, pad=batch):
        pass
    return now(device) - begun


def one_thread_seconds(dataset: Dataset, batch: int) -> float:
    """Seconds for one thread to copy all crops into one buffer."""
    crops = Dataset.open(dataset.path).crops
    buffer = np.zeros((batch, *crops.shape[1:]), np.uint8)
    begun = time.perf_counter()
    for start in range(0, len(crops), batch):
        part = crops[start : start + batch]
        np.copyto(buffer[: len(part)], part)
    return time.perf_counter() - begun


def timed(embedder: Embedder, dataset: Dataset) -> tuple[float, Embeddings]:
    """Seconds for embedding a dataset, and the table."""
    begun = now(embedder.device)
    table = embed(embedder, dataset)
    return now(embedder.device) - begun, table


def parts_of(
    embedder: Embedder, dataset: Dataset, table: Embeddings, start: float, first: float, ours: float
) -> tuple[Cells, ...]:
    """A table of where the time goes and how fast crops can be loaded."""
    frames, gigabytes, batch = len(dataset.crops), dataset.crops.nbytes / 1e9, embedder.settings.batch_frames
    begun = time.perf_counter()
    embedder.plan(dataset, tracklets_of(dataset, UNITS))
    planned = time.perf_counter()
    order = np.arange(len(table))
    info = encoder_info(embedder.encoder, embedder.precision, embedder.weights_hash)
    of_dataset(dataset, UNITS, order, table.vectors, info)
    plan, saving = planned - begun, time.perf_counter() - planned
    streams = {
        "embed, first run": first,
        "embed, crops in the page cache": ours,
        "· without plan and table": ours - plan - saving,
        "loading crops to the device only": load_seconds(dataset, batch, embedder.device),
        "copying crops in host memory, one thread": one_thread_seconds(dataset, batch),
    }
    short = {"start, once": start, "· plan": plan, "· table": saving}
    return (
        ("", "seconds", "frames/s", "GB/s"),
        *((what, number_text(seconds), "", "") for what, seconds in short.items()),
        *((what, *map(number_text, (each, frames / each, gigabytes / each))) for what, each in streams.items()),
    )


def measure(quick: bool = False) -> Result:
    """Frames per second: ours, the plain way, and the forward alone."""
    backbone, size, tracks, batch = ("test_resnet", 32, 60, 64) if quick else ("resnet50", 232, 2_400, 512)
    torch.manual_seed(0)
    encoder = TrackletEncoder(backbone, size=size).eval()
    with tempfile.TemporaryDirectory() as name:
        warm_up = make_dataset(Path(name) / "warm-up", 40 if quick else 160, size, seed=1)
        dataset = make_dataset(Path(name) / "data", tracks, size)
        some = [i for i in range(len(dataset.tracklets)) if dataset.tracklets.track[i] < (tracks // 20)]
        begun = time.perf_counter()
        compiled = "on" if torch.cuda.is_available() else "auto"
        embedder = Embedder(encoder, Embed(batch_frames=batch, compile=compiled))
        embed(embedder, warm_up)
        start = time.perf_counter() - begun
        limit = forward_rate(embedder, size, 0.2 if quick else 3.0)
        first, _ = timed(embedder, dataset)
        ours, table = timed(embedder, dataset)
        details = parts_of(embedder, dataset, table, start, first, ours)
        plain(encoder, warm_up, range(8), embedder.device)
        begun = now(embedder.device)
        expected = plain(encoder, dataset, some, embedder.device)
        plainly = now(embedder.device) - begun
        frames, few = len(dataset.crops), len(np.unique(np.concatenate([dataset.tracklets.rows[i] for i in some])))
    row = Row(
        f"embedding, {backbone}, {size} px, {embedder.precision}",
        "frames/s",
        frames / ours,
        few / plainly,
        limit,
        more_is_better=True,
        least_share=None if quick else 0.9,
        plain_name="one tracklet at a time in float32",
        limit_name="the compiled forward alone",
    )
    note = (
        f"{frames:,} frames in {ours:.1f} s, batches of {batch}; start-up {start:.1f} s. The plain implementation"
        f" embedded {few:,} of them. Smallest cosine between the two {_smallest_cosine(table, expected, some):.5f}."
    )
    return Result("embedding", (row,), note, details)


def _smallest_cosine(table: Embeddings, expected: np.ndarray, chosen: Sequence[int]) -> float:
    a, b = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (table.vectors[np.array(chosen)], expected))
    return float((a * b).sum(1).min())
