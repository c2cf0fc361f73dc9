"""python -m benchmarks regime --preset full --seed N [--view-change 0.65 ...] [--weights FILE] --out DIR

Calibration of the generated procedures: generates one candidate, prepares it, and writes OUT/regime.json with
- the statistics of its boxes, compared with REAL-Colon's;
- mAP, HR@1, AUROC and AUPR over whole test tracks for the colour grid, for a frozen ResNet-50 (mean of its frame
  features, with --weights) and, with --sup-epochs, for the supervised baseline.

Only baselines are measured. The methods that are compared later (SFE, MVE, TPC, ours) are never trained here, so that
the data cannot be tuned in their favour. Seeds 0-99 are for development. Candidates are independent processes and can
share one GPU. Cost of `full`: about 70,000 pictures; on an H200 four and a half minutes without Sup, three more with
12 epochs of Sup.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks import command_line
from benchmarks.realism import PUBLISHED, box_statistics
from polyptrace.config import Config, Crops, Embed
from polyptrace.core.device import choose_device
from polyptrace.core.files import provenance, write_json
from polyptrace.data import Boxes, Dataset, prepare, read_coco
from polyptrace.embed import embed
from polyptrace.encoders import ColourGrid, Preprocess, load_encoder, prepare_crops
from polyptrace.encoders.encoder import create_backbone
from polyptrace.evaluate import reid, retrieval
from polyptrace.synthetic import PRESETS, Difficulty, find_preset, generate, with_difficulty
from polyptrace.train import train

#: REAL-Colon's published numbers: frozen foundation models and Sup, in per cent.
BANDS = {
    "resnet50": {"mAP": (28, 49), "HR@1": (63, 90), "AUROC": (68, 80), "AUPR": (17, 32)},
    "sup": {"mAP": (47, 62), "AUROC": (91, 97)},
}
OPTIONS = [field.name for field in fields(Difficulty)]
BATCH = 512


def main(words: list[str] | None = None) -> None:
    """Measure one candidate; finished stages are not repeated."""
    options = parse(words)
    changes = {name: getattr(options, name) for name in OPTIONS}
    preset = find_preset(options.preset, options.regime)
    preset = with_difficulty(preset, tracklets=options.tracklets, **changes)
    if options.track_frames:
        preset = replace(preset, track_frames=tuple(options.track_frames))
    clock = time.perf_counter()
    generate(options.out / "generated", preset, options.seed, workers=options.workers, device=options.device)
    seconds = {"generate": time.perf_counter() - clock}
    clock = time.perf_counter()
    parts = {split: prepared(options, split) for split in ("train", "test")}
    seconds["prepare"] = time.perf_counter() - clock
    device = choose_device(options.device, "--device")[0]
    rows = {}
    clock = time.perf_counter()
    rows["colour-grid"] = scores(parts["test"], colour_grids(device), device)
    if options.weights is not None:
        rows["resnet50"] = scores(parts["test"], frozen_features(options.weights, options.size, device), device)
    seconds["baselines"] = time.perf_counter() - clock
    clock = time.perf_counter()
    if options.sup_epochs:
        rows["sup"] = supervised(options, parts)
        seconds["sup"] = time.perf_counter() - clock
    boxes = Boxes.concatenate([dataset.boxes() for dataset in parts.values()])
    report = {
        "preset": options.preset,
        "regime": options.regime,
        "seed": options.seed,
        "options": {name: value for name, value in changes.items() if value is not None}
        | {name: value for name in ("tracklets", "track_frames") if (value := getattr(options, name)) is not None},
        "difficulty": {name: getattr(preset.difficulty, name) for name in OPTIONS},
        "statistics": [
            {"name": name, "here": value, "REAL-Colon": PUBLISHED[name]}
            for name, value in box_statistics(boxes).items()
        ],
        "rows": rows,
        "bands": {name: band for name, band in BANDS.items() if name in rows},
        "inside": {
            name: {key: bool(low <= rows[name][key] <= high) for key, (low, high) in band.items()}
            for name, band in BANDS.items()
            if name in rows
        },
        "seconds": {name: round(value, 1) for name, value in seconds.items()},
        "made_by": provenance(),
    }
    write_json(options.out / "regime.json", report)
    print(text(report), flush=True)


def parse(words: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = command_line.parser("regime", __doc__)
    parser.add_argument("--preset", choices=list(PRESETS), default="full")
    parser.add_argument("--regime", choices=["real-colon", "hard"], default="real-colon")
    parser.add_argument("--seed", type=int, default=0, help="0-99: development")
    parser.add_argument("--tracklets", type=float, help="mean number per polyp")
    parser.add_argument("--track-frames", type=float, nargs=2, metavar=("MEDIAN", "LOG_DEVIATION"))
    for name in OPTIONS:
        parser.add_argument(f"--{name.replace('_', '-')}", type=float)
    parser.add_argument("--size", type=int, default=112, help="side of a crop, pixels")
    parser.add_argument("--weights", type=Path, help="ResNet-50 weights (safetensors or torch file)")
    parser.add_argument("--sup-epochs", type=int, default=0, help="train Sup for this many epochs; 0: no Sup row")
    parser.add_argument("--sup-lr", type=float, help="learning rate of Sup; default: that of the paper")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--workers", type=int, default=0, help="0: one per core")
    parser.add_argument("--out", type=Path, required=True, help="folder of the candidate")
    options = parser.parse_args(words)
    if options.seed > 99:
        parser.error(f"--seed {options.seed}: seeds above 99 are for final results -> choose 0-99")
    return options


def prepared(options: argparse.Namespace, split: str) -> Dataset:
    """The prepared split of the candidate."""
    generated = options.out / "generated"
    settings = Crops(size=options.size, workers=options.workers)
    return prepare(read_coco(generated, split=split), generated, options.out / split, crops=settings)


def colour_grids(device: torch.device) -> Callable[[Tensor], Tensor]:
    """The colour-grid features (n, D) of crops (n, S, S, 3)."""
    grid = ColourGrid()
    return lambda crops: grid.frame_features(prepare_crops(crops[None].to(device), grid.preprocess)[0])


def frozen_features(weights: Path, size: int, device: torch.device) -> Callable[[Tensor], Tensor]:
    """The ResNet-50 features (n, 2048) of crops (n, S, S, 3), with ImageNet's mean and standard deviation."""
    network: nn.Module = create_backbone("resnet50", str(weights), size).eval().to(device)
    preprocess = Preprocess(size, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    half = device.type == "cuda"

    def features(crops: Tensor) -> Tensor:
        with torch.autocast(device.type, torch.bfloat16, enabled=half):
            vectors: Tensor = network(prepare_crops(crops[None].to(device), preprocess)[0])
        return vectors.float()

    return features


def scores(dataset: Dataset, features: Callable[[Tensor], Tensor], device: torch.device) -> dict[str, float]:
    """Scores of the mean of frame features over whole tracks."""
    tracklets = dataset.tracklets
    chosen = dataset.select("track")
    length = tracklets.length[chosen]
    rows = np.concatenate([tracklets.rows[i] for i in chosen])
    owner = torch.from_numpy(np.repeat(np.arange(len(chosen)), length)).to(device)
    total = None
    with torch.inference_mode():
        for start in range(0, len(rows), BATCH):
            part = rows[start : start + BATCH]
            vectors = features(torch.from_numpy(np.ascontiguousarray(dataset.crops[part])))
            if total is None:
                total = torch.zeros(len(chosen), vectors.shape[1], device=device)
            total.index_add_(0, owner[start : start + BATCH], vectors)
    assert total is not None
    mean = total / torch.from_numpy(length).to(device)[:, None]
    return metrics(mean.cpu().numpy(), tracklets.polyp[chosen])


def supervised(options: argparse.Namespace, parts: dict[str, Dataset]) -> dict[str, float]:
    """Scores of the supervised baseline, trained on the training procedures."""
    config = Config()
    config = replace(
        config,
        train=replace(config.train, method="sup", epochs=options.sup_epochs, device=options.device),
        encoder=replace(config.encoder, weights=str(options.weights) if options.weights else "none"),
        optimiser=replace(config.optimiser, lr=options.sup_lr or config.optimiser.lr),
    )
    folder = train(config, parts["train"], options.out / "sup")
    table = embed(load_encoder(folder), parts["test"], ("track",), Embed(device=options.device))
    return metrics(table.vectors, table.polyp)


def metrics(vectors: Any, polyp: Any) -> dict[str, float]:
    """Retrieval and re-identification, in per cent."""
    ranking, pairs = retrieval(vectors, polyp), reid(vectors, polyp)
    values = {"mAP": ranking.map, "HR@1": ranking.hr1, "AUROC": pairs.auroc, "AUPR": pairs.aupr}
    return {name: round(100 * value, 2) for name, value in values.items()} | {"tracks": len(vectors)}


def text(report: dict[str, Any]) -> str:
    """The report for a terminal."""
    lines = [f"{row['name']:40} {row['here']:24} {row['REAL-Colon']}" for row in report["statistics"]]
    for name, row in report["rows"].items():
        cells = []
        for key in ("mAP", "HR@1", "AUROC", "AUPR"):
            band = BANDS.get(name, {}).get(key)
            cells.append(f"{key} {row[key]:5.1f}" + (f" [{band[0]}-{band[1]}]" if band else ""))
        lines.append(f"{name:12} " + "  ".join(cells))
    return "\n".join([*lines, f"seconds: {report['seconds']}"])
