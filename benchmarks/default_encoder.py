"""python -m benchmarks default_encoder [--data DATASET ...] [--test DATASET ...] [--frames N] [--out FOLDER]

Trains the encoder that comes with the package: a RegNetX-200MF tracklet encoder, without labels, from random weights,
on generated procedures. Without --data, it generates and prepares every procedure of --seeds in WORK first; with it,
the given dataset folders are used. The encoder is saved as float16 with its model card. With --test, the card has its
results on these datasets, and a table compares it with the same encoder without training and with the colour grid.

Finished stages are not repeated, and training resumes. Settings of training are given as --section.key value. No table
uses the default --seeds.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks import command_line
from polyptrace.config import Config, Crops, Evaluate, Tracks, from_dict, override
from polyptrace.data import Dataset, join_datasets, prepare
from polyptrace.embed import embed_files, from_pretrained, save_pretrained
from polyptrace.encoders import ColourGrid, load_encoder, save_encoder
from polyptrace.evaluate.evaluation import evaluate_files
from polyptrace.report.tables import card_results
from polyptrace.synthetic import PRESETS, generate
from polyptrace.train import SECTIONS, train

#: How training differs from the published settings.
SETTINGS = {
    "encoder": {"backbone": "regnetx_002", "weights": "none"},
    "optimiser": {"lr": 1e-3, "schedule": "one-cycle"},
    "supervision": {"bags_per_batch": 48},
}
SEEDS = range(100, 106)
MOST_BYTES = 10_000_000
OUT = Path(__file__).parents[1] / "src/polyptrace/pretrained/default"


def main(words: list[str] | None = None) -> None:
    """Trains, saves and evaluates."""
    options, settings = parse(words)
    folders = options.data or [prepared(options, seed) for seed in options.seeds]
    data = join_datasets([Dataset.open(folder) for folder in folders])
    config = override(from_dict({**SETTINGS, "train": {"frames": options.frames}}), settings, SECTIONS)
    run = train(config, data, options.work / "run")
    untrained = train(
        replace(config, train=replace(config.train, frames=0, epochs=0)), data, options.work / "untrained"
    )
    trained = load_encoder(run)
    trained.settings["name"] = "default"
    record = replace(trained.record, data=description(data), licence="apache-2.0")
    save_encoder(trained, options.out, record=record, precision="float16", overwrite=True)
    rows = {"default": str(options.out), "untrained": str(untrained), ColourGrid.name: ColourGrid.name}
    for name in rows if options.test else ():
        results = measured(options, rows[name], name)
        print(f"{name:12}", results)
        if name == "default":
            encoder = from_pretrained(options.out)
            save_pretrained(encoder, options.out, results=results, precision="float16", overwrite=True)
    size = sum(file.stat().st_size for file in options.out.iterdir())
    print(f"{options.out}: {size / 1e6:.2f} MB, fingerprint {from_pretrained(options.out).fingerprint}")
    if size > MOST_BYTES:
        raise SystemExit(f"{options.out}: {size:,} bytes are more than {MOST_BYTES:,} -> choose a smaller encoder")


def parse(words: list[str] | None) -> tuple[argparse.Namespace, list[str]]:
    """The command line, and the settings of training in it."""
    parser = command_line.parser("default_encoder", __doc__)
    parser.add_argument("--data", type=Path, action="append", help="prepared dataset; repeat it for several")
    parser.add_argument("--test", type=Path, action="append", help="prepared dataset with labels, for the card")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, help="of the generator; without --data")
    parser.add_argument("--preset", choices=list(PRESETS), default="full", help="without --data")
    parser.add_argument("--size", type=int, default=112, help="side of a crop, pixels; without --data")
    parser.add_argument("--frames", type=int, default=20_000_000, help="frames seen in training")
    parser.add_argument("--work", type=Path, default=Path("default-encoder"), help="folder of data, run and results")
    parser.add_argument("--out", type=Path, default=OUT, help="encoder folder")
    return parser.parse_known_args(words)


def prepared(options: argparse.Namespace, seed: int) -> Path:
    """The dataset of all procedures of a seed; tracks are linked without labels."""
    generated, out = options.work / f"generated-{seed}", options.work / f"data-{seed}"
    if not out.exists():
        generate(generated, options.preset, seed)
    return prepare("coco", generated, out, Tracks(link="video"), Crops(size=options.size)).path


def description(data: Dataset) -> str:
    """The data as named on the card."""
    return f"generated procedures of `polyptrace synth` ({', '.join(np.unique(data.tracklets.dataset))})"


def measured(options: argparse.Namespace, encoder: str, name: str) -> dict[str, str | float]:
    """Retrieval and re-identification on the test datasets, with intervals."""
    settings = replace(Config().embed, enlarge=True)
    out = [options.work / "embeddings" / name / test.name for test in options.test]
    for test, folder in zip(options.test, out, strict=True):
        embed_files(encoder, test, folder, settings=settings, overwrite=True)
    results = evaluate_files(dict.fromkeys(("retrieval", "reid"), out), Evaluate())
    results.save(options.work / "results" / name, overwrite=True)
    return card_results(results, str(results.embeddings[0]["info"]["fingerprint"]))
