"""RESULTS, the folder that `evaluate` writes and `report` reads: one row of the table, on its datasets.

`results.json` is for machines:

    format "polyptrace-results", version 2
    method      name, group (one of `GROUPS`), labels (one of `LABEL_USE`), encoder (what made the vectors), params
                (whole number or null), flops ({convention: number} or null), trained_on_test (tasks whose test data its
                pretraining saw), seeds (training seeds behind the row)
    settings    the section `evaluate` of the settings
    embeddings  for each input: path, sha256, tasks, info (its embeddings.json)
    provenance  versions, platform, command
    tasks       {task: status ("done" or "skipped"), reason (why, in a sentence), unit ("track" or "tracklet"), table
                (prefix of its ids in arrays.npz), datasets, metrics {name: {value, low, high, n, of}} with 95 %
                intervals, null where undefined, counts {name: whole number}, protocol {what was done}, drawn
                (polyps or videos that a draw takes), draws_key}

Tasks: retrieval (map, hr1, hr5), reid (auroc, aupr), size and histology (f1, accuracy, f1_plain, accuracy_weighted),
counting.threshold, .affinity and .temporal (fragmentation, fragmentation_sd, false_positive_rate, recall, count_error,
count_bias, clusters); beside the paper's protocols retrieval.within, .across, .between, .apart, size.video and
histology.video. Values are fractions, except fragmentation and the counts.

`arrays.npz` holds what figures and paired tests need (no pickles; strings as unicode):

    {table}/{dataset, video, track, position, last, fps, polyp, size_mm, histology}   ids of a task's tracklets
    tracks/plane_vectors (n, D) float16, tracks/plane_index (n,)       vectors of up to 5,000 tracks, for a map
    {task}/draws/{figure} (R,)       the figure on each bootstrap draw; equal draws_key: drawn on the same clusters
    retrieval*/query, ap, hit1, hit5 (Q,); retrieval/top, top_score (Q, 5), rows of the nearest, -1: none
    reid/roc_fpr, roc_tpr, pr_recall, pr_precision; reid/edges, same, different (pairs by cosine)
    size*, histology*: index, label (n,), probability (repeats, n) of class 1, NaN where it trained; f1s, accuracies
    counting.*: index, cluster (n,); procedure, clusters, polyps (-1: unlabelled), setting (V,)

`tracks.csv` (`track_list.py`) says in words of its own which tracks were taken for the same polyp.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_folder, read_json, write_csv, write_json
from polyptrace.evaluate.track_list import track_list

GROUPS = ("General Purpose FM", "Endoscopy FM", "Fully supervised", "Self-supervised", "Baseline")
#: the file by which a results folder is known
RESULTS_FILE = "results.json"
#: which tracks were taken for the same polyp
TRACK_LIST = "tracks.csv"
LABEL_USE = ("label-free", "label-free given tracks", "labels")


@dataclass(frozen=True)
class Metric:
    """A value with its 95 % interval; n of what (queries, pairs, tracklets, videos) it is over."""

    value: float
    low: float
    high: float
    n: int
    of: str


@dataclass(frozen=True)
class Task:
    """One task's outcome, or why there is none."""

    unit: str
    table: str
    status: str = "done"
    reason: str = ""
    datasets: tuple[str, ...] = ()
    metrics: dict[str, Metric] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    protocol: dict[str, Any] = field(default_factory=dict)
    drawn: int = 0
    draws_key: str = ""


@dataclass(frozen=True)
class Method:
    """The row's name and place in the table."""

    name: str
    group: str = "Self-supervised"
    labels: str = "label-free"
    encoder: str = ""
    params: int | None = None
    flops: dict[str, float] | None = None
    trained_on_test: tuple[str, ...] = ()
    seeds: int = 1

    def __post_init__(self) -> None:
        if self.group not in GROUPS:
            raise UserError(f"method {self.name!r}: group {self.group!r} is not known -> one of {', '.join(GROUPS)}")
        if self.labels not in LABEL_USE:
            raise UserError(
                f"method {self.name!r}: label use {self.labels!r} is not known -> one of {', '.join(LABEL_USE)}"
            )


@dataclass(frozen=True)
class Results:
    """One row: its tasks, and the arrays behind them."""

    method: Method
    tasks: dict[str, Task]
    arrays: dict[str, NDArray[Any]]
    settings: dict[str, Any] = field(default_factory=dict)
    embeddings: list[dict[str, Any]] = field(default_factory=list)
    provenance: dict[str, Any] = field(default_factory=dict)

    def draws(self, task: str, figure: str) -> NDArray[np.float64]:
        """A figure on each bootstrap draw (R,)."""
        return self.arrays[f"{task}/draws/{figure}"]

    def save(self, folder: Path, *, overwrite: bool = False) -> None:
        """Writes results.json, arrays.npz and, where polyps were counted, tracks.csv; whole or not at all."""
        content = {
            "format": "polyptrace-results",
            "version": 2,
            "method": asdict(self.method),
            "settings": self.settings,
            "embeddings": self.embeddings,
            "provenance": self.provenance,
            "tasks": {name: asdict(task) for name, task in self.tasks.items()},
        }
        tracks = track_list(self.arrays)
        with atomic_folder(Path(folder), overwrite=overwrite, mark=RESULTS_FILE) as temporary:
            write_json(temporary / RESULTS_FILE, _without_nan(content))
            if tracks:
                write_csv(temporary / TRACK_LIST, tracks)
            with ZipFile(temporary / "arrays.npz", "w", ZIP_DEFLATED) as archive:
                for name, values in self.arrays.items():
                    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                        np.lib.format.write_array(member, values, allow_pickle=False)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """What `save` wrote, or an error that says what is wrong with it."""
        folder = Path(folder)
        if not folder.exists():
            raise UserError(f"{folder}: no such folder -> check the path")
        if not (folder / RESULTS_FILE).is_file():
            raise UserError(
                f"{folder}: no results in it ({RESULTS_FILE}) -> give a folder that 'polyptrace evaluate' wrote"
            )
        content = read_json(folder / RESULTS_FILE)
        if not isinstance(content, dict) or content.get("format") != "polyptrace-results":
            raise UserError(f"{folder}: not a results folder -> give one made by 'polyptrace evaluate'")
        if content.get("version") != 2:
            raise UserError(f"{folder}: results of version {content.get('version')} -> this polyptrace reads version 2")
        try:
            with np.load(folder / "arrays.npz", allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
        except (OSError, ValueError, BadZipFile) as error:
            raise UserError(f"{folder / 'arrays.npz'}: cannot be read ({error}) -> evaluate again") from None
        method = content["method"]
        return cls(
            method=Method(**{**method, "trained_on_test": tuple(method["trained_on_test"])}),
            tasks={name: _task(task) for name, task in content["tasks"].items()},
            arrays=arrays,
            settings=content["settings"],
            embeddings=content["embeddings"],
            provenance=content["provenance"],
        )


def _task(content: Mapping[str, Any]) -> Task:
    figures = {}
    for name, figure in content["metrics"].items():
        value, low, high = (math.nan if figure[key] is None else figure[key] for key in ("value", "low", "high"))
        figures[name] = Metric(value, low, high, figure["n"], figure["of"])
    return Task(**{**content, "metrics": figures, "datasets": tuple(content["datasets"])})


def _without_nan(content: Any) -> Any:
    """NaN and infinity as null, since JSON has neither."""
    if isinstance(content, float) and not math.isfinite(content):
        return None
    if isinstance(content, dict):
        return {key: _without_nan(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_without_nan(value) for value in content]
    return content
