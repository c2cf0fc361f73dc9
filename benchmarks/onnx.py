"""python -m benchmarks onnx: exported encoders compared with eager torch, on the CPU.

Both use all cores. The two are measured in turns, and the ratio is the median of the ratios of neighbouring
measurements. Before each there is a pause, because torch's threads keep a core busy for some time after they have
finished. On a shared machine processor time says more than time: it is measured as well, for all threads together.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from benchmarks.result import Result, Row, number_text
from benchmarks.timing import best_of
from polyptrace.config import Embed
from polyptrace.embed import OnlineEncoder, OnlineTrack, OnnxEncoder, OnnxTrack, PretrainedEncoder, export_encoder
from polyptrace.encoders import TrackletEncoder

#: Backbone and input size: those of the default encoder, and the paper's.
ENCODERS = {"RegNetX-200MF, 112 px": ("regnetx_002", 112), "ResNet-50, 232 px": ("resnet50", 232)}
QUICK = {"test": ("test_resnet", 32)}
TRACKLETS, LENGTH, BEFORE = 4, 8, 64
#: Seconds before each measurement.
PAUSE = 0.05


def measure(quick: bool = False) -> Result:
    """Time to load, and milliseconds of a batch and of one more frame of a running track."""
    torch.manual_seed(0)
    rows, details = [], [("", "precision", "MB", "ms per tracklet", "cosine with torch")]
    with tempfile.TemporaryDirectory() as folder:
        for title, (backbone, size) in (QUICK if quick else ENCODERS).items():
            encoder = TrackletEncoder(backbone, size=size).eval()
            out = Path(folder) / backbone
            for precision in ("float32",) if quick else ("float32", "float16", "int8"):
                export_encoder(encoder, out / precision, precision=precision)
                details.append((title, precision, *_costs(encoder, out / precision)))
            rows += _rows(encoder, out / "float32", title, turns=3 if quick else 15)
    note = (
        f"{TRACKLETS} tracklets of {LENGTH} frames at once; a running track of {BEFORE} frames. Weights are random: the"
        " cosine only shows rounding. MB: the graphs features and aggregate."
    )
    return Result("onnx", tuple(rows), note, tuple(details))


def _rows(encoder: TrackletEncoder, folder: Path, title: str, turns: int) -> list[Row]:
    crops = np.random.default_rng(0).integers(0, 256, (BEFORE + 1, *(encoder.preprocess.size,) * 2, 3), np.uint8)
    settings = Embed(device="cpu")
    torch_whole, onnx_whole = PretrainedEncoder(encoder, settings), OnnxEncoder(folder)
    online = OnlineEncoder(encoder, settings)
    tracklets = [crops[i * LENGTH : (i + 1) * LENGTH] for i in range(TRACKLETS)]

    def one_more(track: OnlineTrack | OnnxTrack) -> Callable[[], object]:
        track.add(crops[:BEFORE])
        return lambda: track.add(crops[BEFORE])

    timed = {
        f"vectors of {TRACKLETS} tracklets": (lambda: onnx_whole(tracklets), lambda: torch_whole(tracklets)),
        "running track, one more frame": (one_more(onnx_whole.track()), one_more(online.track())),
    }
    rows = [Row(f"{title}: loading", "ms", 1e3 * best_of(turns, lambda: _load(folder))[0], most=300)]
    for what, (ours, plain) in timed.items():
        name = "eager torch"
        own, ratio = _in_turns(ours, plain, turns, time.perf_counter)
        rows.append(Row(f"{title}: {what}", "ms", own, own * ratio, least_ratio=1.3, plain_name=name))
        own, ratio = _in_turns(ours, plain, turns, time.process_time)
        rows.append(Row(f"{title}: {what}, processor time", "ms", own, own * ratio, plain_name=name))
    return rows


def _load(folder: Path) -> None:
    """Both graphs, ready to run."""
    encoder = OnnxEncoder(folder)
    encoder.aggregate(encoder.features(np.zeros((1, 8, 8, 3), np.uint8))[None])


def _in_turns(
    ours: Callable[[], object], plain: Callable[[], object], turns: int, clock: Callable[[], float]
) -> tuple[float, float]:
    """Milliseconds of ours, and how many times as long the other takes; medians."""
    measured = np.array([[_seconds(function, clock) for function in (ours, plain)] for _ in range(turns + 2)])
    own, other = measured[2:].T
    return 1e3 * float(np.median(own)), float(np.median(other / own))


def _seconds(function: Callable[[], object], clock: Callable[[], float]) -> float:
    time.sleep(PAUSE)
    begun = clock()
    function()
    return clock() - begun


def _costs(encoder: TrackletEncoder, folder: Path) -> tuple[str, str, str]:
    crops = np.random.default_rng(0).integers(0, 256, (LENGTH, *(encoder.preprocess.size,) * 2, 3), np.uint8)
    exported = OnnxEncoder(folder)
    seconds, (given,) = best_of(5, lambda: exported([crops]))
    (wanted,) = PretrainedEncoder(encoder, Embed(device="cpu"))([crops])
    cosine = float(given @ wanted / np.linalg.norm(given) / np.linalg.norm(wanted))
    size = sum((folder / f"{graph}.onnx").stat().st_size for graph in ("features", "aggregate"))
    return number_text(size / 1e6), number_text(1e3 * seconds), f"{cosine:.5f}"
