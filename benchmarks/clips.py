"""python -m benchmarks clips CLIPS --out FOLDER [--encoder NAME[@WEIGHTS] ...] [--train NAME ...] [--method NAME ...]

Encoders on real clips in MOT layout, one polyp per clip, with five-fold cross-validation: every clip is tested once. A
track is cut into runs of 32 frames, with 6 frames dropped between them, so that there is something to find again. The
clips of a fold are joined to artificial procedures: five in a row for the test, four in a row for training.

--encoder is used as it is; --train is trained further on the clips of the other four folds, for one epoch, by each
--method (default: ours; --section.key value changes the settings). Prints the mean and the range over the folds, and
writes the values of each fold to clips.json. Finished datasets and runs in FOLDER are used again.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks import command_line
from benchmarks.result import markdown_table
from polyptrace.compare.rows import folder_name
from polyptrace.config import Config, Crops, Embed, Evaluate, from_dict, override
from polyptrace.core.arrays import Bools
from polyptrace.core.files import provenance, write_json
from polyptrace.core.randomness import numpy_generator
from polyptrace.data import Boxes, Dataset, prepare
from polyptrace.data.identity import video_codes
from polyptrace.data.sources import read_source
from polyptrace.data.splits import join_clips
from polyptrace.embed import embed_files
from polyptrace.evaluate.evaluation import evaluate_files
from polyptrace.methods import METHODS
from polyptrace.train import SECTIONS, train, with_architecture

FOLDS, KEPT, DROPPED = 5, 32, 6
METRICS = {
    "mAP": ("retrieval", "map"),
    "HR@1": ("retrieval", "hr1"),
    "AUROC": ("reid", "auroc"),
    "AUPR": ("reid", "aupr"),
}
#: How training differs from the published settings.
SETTINGS = {
    "train": {"epochs": 1},
    "optimiser": {"lr": 3e-5},
    "supervision": {"bags_per_batch": 6},
}
Folds = dict[str, list[float]]


def main(words: list[str] | None = None) -> None:
    """Prepares the folds, and measures every encoder on them."""
    options, settings = parse(words)
    folds = prepared(options)
    rows = {name.partition("@")[0]: frozen(options, name, folds) for name in options.encoder}
    for name in options.train:
        for method in options.method or ["ours"]:
            config = override(from_dict(SETTINGS, METHODS[method].published()), settings, SECTIONS)
            rows[f"{name}, trained further with {method}"] = trained(options, name, folds, config)
    write_json(options.out / "clips.json", {"folds": rows, "made_by": provenance()})
    print(table(rows))


def parse(words: list[str] | None) -> tuple[argparse.Namespace, list[str]]:
    """The command line, and the settings of training in it."""
    parser = command_line.parser("clips", __doc__)
    parser.add_argument("clips", type=Path, help="folder of the clips")
    parser.add_argument("--out", type=Path, required=True, help="folder of data, runs and results")
    parser.add_argument("--encoder", action="append", default=[], help="known name or folder, as for embed; repeatable")
    parser.add_argument("--train", action="append", default=[], help="initial encoder of training; repeatable")
    parser.add_argument("--method", action="append", choices=list(METHODS), help="how --train trains; repeatable")
    parser.add_argument("--size", type=int, default=112, help="side of a crop, pixels")
    return parser.parse_known_args(words)


def prepared(options: argparse.Namespace) -> list[tuple[Path, Path]]:
    """The training and the test dataset of each fold."""
    boxes = read_source("mot", options.clips, {"identities": "polyp"})
    boxes = boxes.take(in_runs(boxes))
    clip = video_codes(boxes)
    parts = np.array_split(numpy_generator(0).permutation(np.unique(clip)), FOLDS)
    crops, folds = Crops(size=options.size), []
    for fold, part in enumerate(parts):
        tested, paths = np.isin(clip, part), []
        for name, mask, row in (("train", ~tested, 4), ("test", tested, len(part))):
            paths.append(options.out / f"fold{fold}" / name)
            prepare(join_clips(boxes.take(mask), row), options.clips, paths[-1], crops=crops, skip_bad=True)
        folds.append((paths[0], paths[1]))
    return folds


def in_runs(boxes: Boxes) -> Bools:
    """Mask of the boxes that are kept: of each run of consecutive frames the first 32 of every 38."""
    order = np.lexsort((boxes.frame_index, video_codes(boxes)))
    video, frame = video_codes(boxes)[order], boxes.frame_index[order]
    begins = np.append(True, (np.diff(video) != 0) | (np.diff(frame) > 1))
    since = frame - frame[begins][np.cumsum(begins) - 1]
    kept = np.empty(len(order), bool)
    kept[order] = since % (KEPT + DROPPED) < KEPT
    return kept


def frozen(options: argparse.Namespace, encoder: str, folds: Sequence[tuple[Path, Path]]) -> Folds:
    """The metrics of an encoder in each fold."""
    return measured([(encoder, test) for _, test in folds], options.out / "encoders" / folder_name(encoder))


def trained(options: argparse.Namespace, encoder: str, folds: Sequence[tuple[Path, Path]], config: Config) -> Folds:
    """The metrics of an encoder in each fold, after training on the clips of the other folds."""
    out = options.out / "trained" / folder_name(encoder) / config.train.method
    config = with_architecture(config, encoder)
    runs = [train(config, Dataset.open(data), out / f"run{fold}", encoder) for fold, (data, _) in enumerate(folds)]
    return measured([(str(run), test) for run, (_, test) in zip(runs, folds, strict=True)], out)


def measured(pairs: Sequence[tuple[str, Path]], out: Path) -> Folds:
    """Each metric in each fold, in per cent."""
    values: Folds = {name: [] for name in METRICS}
    settings, few = Embed(enlarge=True), Evaluate(bootstrap=10, variants=False)
    for fold, (encoder, test) in enumerate(pairs):
        name, _, weights = encoder.partition("@")
        vectors = out / f"vectors{fold}"
        embed_files(name, test, vectors, weights or None, settings, overwrite=True)
        results = evaluate_files({"retrieval": [vectors], "reid": [vectors]}, few)
        for metric, (task, key) in METRICS.items():
            values[metric].append(round(100 * results.tasks[task].metrics[key].value, 2))
    return values


def table(rows: dict[str, Folds]) -> str:
    """Mean and range over the folds as a Markdown table."""
    cells = [[f"{np.mean(v):.1f} ({min(v):.1f}–{max(v):.1f})" for v in folds.values()] for folds in rows.values()]
    return markdown_table([("", *METRICS), *((name, *row) for name, row in zip(rows, cells, strict=True))])
