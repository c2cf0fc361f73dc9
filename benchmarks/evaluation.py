"""python -m benchmarks evaluation

Measures retrieval (mAP, HR@1, HR@5), ReID (AUROC, AUPR), its 1,000 bootstrap draws and the size probe for 1k and 10k
tracklets of width 256 (20 of each polyp), and the lesions of one procedure of 1k and 5k tracks. The plain
implementation computes the full similarity matrix, scikit-learn's average precision query by query, and its areas over
all pairs. For 100k tracklets, which are measured as well, it has not enough memory.

On a CPU each measurement runs in its own process on one core. On a GPU all run in one process, and the plain
implementation, which cannot use the GPU, runs at 1k only. Memory is the peak in addition to imports and vectors; on a
GPU it is GPU memory. Expected: time grows with the square of the number of tracklets, memory does not; 100k take
minutes on a CPU and seconds on a GPU.
"""

import sys
import time

import numpy as np
import torch
from sklearn.metrics import average_precision_score, roc_auc_score

from benchmarks.result import Result, Row, number_text
from benchmarks.timing import apart, forget_peak, mebibytes
from polyptrace.embed import Embeddings
from polyptrace.evaluate import probe, reid, retrieval
from polyptrace.evaluate.bootstrap import draw_counts
from polyptrace.lesions import lesions

WIDTH, PER_POLYP, DRAWS = 256, 20, 1000
#: Sizes of each measurement, and further ones on a GPU (those of BOUNDED on a CPU as well).
MEASURED = {
    "retrieval": ((1_000, 10_000), (100_000,)),
    "retrieval, plain": ((1_000, 10_000), ()),
    "reid": ((1_000, 10_000), (100_000,)),
    "reid, plain": ((1_000, 10_000), ()),
    "reid draws": ((1_000, 10_000), (100_000,)),
    "probe": ((1_000, 10_000), (100_000,)),
    "lesions": ((1_000, 5_000), ()),
}

#: Measurements that are also made at 100k tracklets on one core, to show that memory is bounded.
BOUNDED = ("retrieval", "reid")

PLAIN_NAME = "full matrices and scikit-learn"

#: Maximum seconds for the lesions of a procedure of 5,000 tracks.
MOST_SECONDS = 20

#: Maximum MiB at 100k tracklets, whose full matrix has 38,147; blocks are larger on a GPU.
MOST_MEMORY = {"cpu": 1024, "cuda": 4096}


def table(tracklets: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of overlapping polyps, so that rankings are neither perfect nor random."""
    random = np.random.default_rng(0)
    polyp = np.arange(tracklets) // PER_POLYP
    vectors = random.standard_normal((tracklets, WIDTH), dtype=np.float32)
    vectors += 0.5 * random.standard_normal((polyp[-1] + 1, WIDTH), dtype=np.float32)[polyp]
    return vectors, polyp


def procedure(tracks: int) -> Embeddings:
    """One procedure whose polyps are visited one after the other, a track per second, with a pause of 40 s between."""
    vectors, polyp = table(tracks)
    position = 25 * (np.arange(tracks) + 40 * polyp)
    columns = {"vectors": vectors, "position": position, "last": position + 20, "track": np.arange(tracks)}
    texts = {name: np.full(tracks, name, object) for name in ("video", "dataset")}
    return Embeddings.from_columns(
        {**columns, **texts, "unit": np.full(tracks, "track", object), "fps": np.full(tracks, 25.0)}
    )


def plain_retrieval(vectors: np.ndarray, polyp: np.ndarray) -> None:
    """The full similarity matrix, then query by query."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    scores = unit @ unit.T
    figures = []
    for query in range(len(polyp)):
        others = np.arange(len(polyp)) != query
        same = polyp[others] == polyp[query]
        best = same[np.argsort(-scores[query][others])]
        figures.append((average_precision_score(same, scores[query][others]), best[0], best[:5].any()))
    np.mean(figures, axis=0)


def plain_reid(vectors: np.ndarray, polyp: np.ndarray) -> None:
    """The scores of all pairs in one array."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    one, other = np.triu_indices(len(polyp), k=1)
    scores, same = (unit @ unit.T)[one, other], polyp[one] == polyp[other]
    roc_auc_score(same, scores)
    average_precision_score(same, scores)


def timed(way: str, tracklets: int, device: str) -> tuple[float, float]:
    """Seconds and peak MiB of one measurement."""
    torch.set_num_threads(1)
    vectors, polyp = table(tracklets)
    counts = draw_counts(int(polyp[-1]) + 1, DRAWS, seed=0)
    judged = reid(vectors, polyp, device=device) if way == "reid draws" else None
    retrieval(vectors[:100], polyp[:100], device=device)  # initialises libraries and the GPU
    tracks = procedure(tracklets) if way == "lesions" else None
    label = (np.random.default_rng(1).random(polyp[-1] + 1) < 0.5).astype(np.int64)[polyp]
    before = _forget_peak(device)
    clock = time.perf_counter if device == "cuda" else time.process_time
    start = clock()
    match way:
        case "retrieval":
            retrieval(vectors, polyp, device=device)
        case "retrieval, plain":
            plain_retrieval(vectors, polyp)
        case "reid":
            reid(vectors, polyp, device=device)
        case "reid, plain":
            plain_reid(vectors, polyp)
        case "reid draws":
            assert judged is not None
            judged.draws(polyp, counts)
        case "probe":
            probe(vectors, label, polyp, device=device)
        case "lesions":
            assert tracks is not None
            lesions(tracks)
    peak = _peak(device)  # synchronises the GPU
    return clock() - start, peak - before


def _forget_peak(device: str) -> float:
    """Resets the peak; returns the MiB in use."""
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated() / 2**20
    return forget_peak()


def _peak(device: str) -> float:
    """Peak MiB since the reset; of the GPU if it is used."""
    if device == "cuda":
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() / 2**20
    return mebibytes("VmHWM")


def measure(quick: bool = False) -> Result:
    """Seconds and memory of each measurement, and the exponent of its growth with the number of tracklets."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    details = [("", "tracklets", "seconds", "MiB", "exponent of growth")]
    results: dict[tuple[str, int], tuple[float, float]] = {}
    for way, (sizes, more) in MEASURED.items():
        last = None
        largest = more if device == "cuda" or way in BOUNDED else ()
        alone = quick or (device == "cuda" and way.endswith("plain"))
        for tracklets in sizes[:1] if alone else sizes + largest:
            if device == "cuda":
                seconds, memory = timed(way, tracklets, device)
            else:
                ((seconds, memory),) = apart("benchmarks.evaluation", way, tracklets)
            power = "" if last is None else f"{np.log(seconds / last[1]) / np.log(tracklets / last[0]):.2f}"
            measured = device == "cpu" or not way.endswith("plain")  # the plain implementation uses no GPU memory
            details.append(
                (way, f"{tracklets:,}", number_text(seconds), number_text(memory) if measured else "", power)
            )
            results[way, tracklets] = seconds, memory
            last = tracklets, seconds
    rows = []
    for (way, tracklets), (seconds, memory) in results.items():
        if way.endswith("plain"):
            continue
        plain = results.get((f"{way}, plain", tracklets), (None, None))
        what, most = f"{way}, {tracklets:,} tracklets", None
        if way == "lesions":
            what, most = f"lesions of a procedure, {tracklets:,} tracks", MOST_SECONDS
        rows.append(Row(what, "s", seconds, plain[0], plain_name=PLAIN_NAME, most=most))
        if tracklets == 100_000 and way in BOUNDED:
            most = MOST_MEMORY[device]
            rows.append(Row(f"{way}, {tracklets:,} tracklets, memory", "MiB", memory, most=most))
    where = "On the GPU" if device == "cuda" else "On one core, one process each"
    note = f"{where}; vectors of width {WIDTH}, {PER_POLYP} tracklets of each polyp."
    return Result("evaluation", tuple(rows), note, tuple(details))


if __name__ == "__main__":  # the measurement of one process
    print(*timed(sys.argv[1], int(sys.argv[2]), "cpu"))
