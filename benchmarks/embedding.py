"""How fast a dataset becomes vectors: ours beside one tracklet after the other.

python benchmarks/embedding.py             # on a GPU: about a minute
python benchmarks/embedding.py --tiny      # checks the script itself on a CPU

plain  each tracklet and each track by itself, float32: frames that both share go through the backbone twice
ours   `polyptrace.embed.embed`: each frame once, batches of 512 frames, bf16 on a GPU
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from polyptrace.data import Dataset, Tracklets
from polyptrace.data.dataset import FORMAT, save_tracklets
from polyptrace.embed import embed
from polyptrace.encoders import TrackletEncoder, prepare_crops
from polyptrace.files import write_json


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
    np.save(folder / "crops.npy", random.integers(0, 256, (begin[-1], size, size, 3), np.uint8))
    table = Tracklets(
        unit=np.array(unit, object),
        dataset=np.full(len(rows), "random", object),
        video=np.full(len(rows), "v", object),
        track=np.searchsorted(begin, first, "right") - 1,
        position=4 * first,
        last=4 * np.array([r[-1] for r in rows]),
        fps=np.full(len(rows), np.nan),
        flat=np.concatenate(rows),
        offset=np.cumsum([0, *map(len, rows)]),
        polyp=np.full(len(rows), "", object),
        size_mm=np.full(len(rows), np.nan),
        histology=np.full(len(rows), "", object),
    )
    save_tracklets(table, folder / "tracklets.parquet")
    write_json(folder / "dataset.json", {"format": FORMAT})
    return Dataset.open(folder)


@torch.inference_mode()
def plain(encoder: TrackletEncoder, dataset: Dataset, device: torch.device) -> np.ndarray:
    """One tracklet after the other."""
    vectors = []
    for index in range(len(dataset.tracklets)):
        crops, _ = dataset.gather([index])
        vectors.append(encoder(prepare_crops(crops.to(device), encoder.preprocess)).float().cpu().numpy())
    return np.concatenate(vectors)


def main() -> None:
    """Times both and prints frames per second, and how far the vectors are apart."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="small everything, on a CPU, to check the script")
    tiny = parser.parse_args().tiny
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    backbone, size, tracks = ("test_resnet", 32, 6) if tiny else ("resnet50", 232, 400)
    torch.manual_seed(0)
    encoder = TrackletEncoder(backbone, size=size).eval().to(device)
    with tempfile.TemporaryDirectory() as name:
        warm_up = make_dataset(Path(name) / "warm-up", 2, size, seed=1)
        dataset = make_dataset(Path(name) / "data", tracks, size)
        results = {}
        for label, run in (
            ("plain", lambda data: plain(encoder, data, device)),
            ("ours", lambda data: embed(encoder, data).vectors),
        ):
            run(warm_up)
            begun = time.perf_counter()
            vectors = run(dataset)
            results[label] = (time.perf_counter() - begun, vectors)
    frames = len(dataset.crops)
    kind = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    print(f"\n{kind}, torch {torch.__version__}; {frames:,} frames of {size} px, {backbone}\n")
    for label, (seconds, _) in results.items():
        print(f"{label:8}{seconds:8.2f} s{frames / seconds:12,.0f} frames/s")
    a, b = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for _, vectors in results.values())
    ratio = results["plain"][0] / results["ours"][0]
    print(f"\nours is {ratio:.1f}x as fast; smallest cosine between the two {(a * b).sum(1).min():.5f}")


if __name__ == "__main__":
    main()
