"""RESULTS, the folder that `evaluate` writes and `report` reads: one row of the table.

`results.json`:

    format "polyptrace-results", version 2
    method      name, group (one of `GROUPS`), labels (one of `LABEL_USE`, or "": not stated), encoder, params
                (integer or null), flops ({convention: number} or null), trained_on_test (tasks whose test data its
                pretraining saw), seeds (number of training seeds)
    generated   whether the data were rendered by `polyptrace synth`
    settings    the section `evaluate` of the settings
    embeddings  for each input: path, sha256, info (its embeddings.json)
    provenance  versions, platform, command
    tasks       {task: status ("done" or "skipped"), reason (why it was skipped, or a remark), unit ("track" or
                "tracklet"), table (prefix of its ids in arrays.npz), datasets, metrics {name: {value, low, high, n,
                of}} with 95 % intervals, null where undefined, counts {name: integer}, protocol {setting: value},
                drawn (number of clusters that the bootstrap draws), draws_key}

Tasks: retrieval (map, hr1, hr5), reid (auroc, aupr), size and histology (f1, accuracy, f1_plain, accuracy_weighted),
counting.threshold, .affinity, .temporal and .lesions (fragmentation, fragmentation_sd, false_positive_rate, recall,
pair_f1, rand, count_error, count_bias, clusters; .lesions also covered); in addition to the paper's protocols
retrieval.within, .across, .between, .apart, size.video and histology.video. Values are
fractions, except for fragmentation and counts.

`arrays.npz` holds what plots and paired tests need (no pickles; text as unicode):

    {table}/{dataset, video, track, position, last, fps, polyp, size_mm, histology}   ids of a task's tracklets
    tracks/plane_vectors (n, D) float16, tracks/plane_index (n,)       vectors of up to 5,000 tracks, for a map
    {task}/draws/{metric} (R,)       the metric on each bootstrap draw; equal draws_key means the same draws
    {task}/draws/{metric} (S, R), {task}/seeds/{metric} (S,)           for S combined training seeds
    retrieval*/query, ap, hit1, hit5 (Q,); retrieval/top, top_score (Q, 5), nearest rows, -1 where there are fewer
    reid/roc_fpr, roc_tpr, pr_recall, pr_precision; reid/edges, same, different (pairs by cosine)
    size*, histology*: index, label (n,), probability (repeats, n) of class 1, NaN where it trained
    counting.*: index, cluster (n,); procedure, clusters, polyps (-1: unlabelled), setting (V,)

`tracks.csv` lists which tracks are counted as the same polyp; see `track_list`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_folder, read_json, write_csv, write_json, wrong_folder
from polyptrace.core.schema import from_json, read_npz
from polyptrace.core.timecode import seconds_text
from polyptrace.data.identity import TrackKey, by_appearance, codes, group_rows, join_keys
from polyptrace.embed import Embeddings
from polyptrace.encoders.encoder import LABEL_USE
from polyptrace.evaluate.bootstrap import Estimate, Paired, paired

FORMAT, VERSION = "polyptrace-results", 2
#: The groups of a table in the paper's order, with baselines first.
GROUPS = ("Baseline", "General Purpose FM", "Endoscopy FM", "Fully supervised", "Self-supervised")
BASELINE, GENERAL_FM, ENDOSCOPY_FM, SUPERVISED, SELF_SUPERVISED = GROUPS
#: The file that identifies a results folder.
RESULTS_FILE = "results.json"
#: The file by which `--overwrite` recognises it: a report has a results.json as well.
ARRAYS_FILE = "arrays.npz"
TRACK_LIST = "tracks.csv"
AGAIN = "evaluate again"

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Metric:
    """A value with its 95 % interval; n is the number of what it is computed over (queries, pairs, ...)."""

    value: float
    low: float
    high: float
    n: int
    of: str


@dataclass(frozen=True)
class Task:
    """The metrics of a task, or the reason why there are none."""

    unit: str
    table: str
    status: Literal["done", "skipped"] = "done"
    reason: str = ""
    datasets: tuple[str, ...] = ()
    metrics: dict[str, Metric] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    protocol: dict[str, Any] = field(default_factory=dict)
    drawn: int = 0
    draws_key: str = ""


@dataclass(frozen=True)
class Method:
    """Name and description of a row of the table."""

    name: str
    group: str = SELF_SUPERVISED
    labels: str = ""
    encoder: str = ""
    params: int | None = None
    flops: dict[str, float] | None = None
    trained_on_test: tuple[str, ...] = ()
    seeds: int = 1

    def __post_init__(self) -> None:
        if self.group not in GROUPS:
            raise UserError(f"method {self.name!r}: group {self.group!r} is unknown -> use {', '.join(GROUPS)}")
        if self.labels and self.labels not in LABEL_USE:
            raise UserError(f"method {self.name!r}: label use {self.labels!r} is unknown -> use {', '.join(LABEL_USE)}")


def method_of(embeddings: Embeddings, unnamed: str = "unnamed") -> Method:
    """The description of the row that the embeddings contain; `unnamed` is the name if they have none."""
    info = dict(embeddings.info.get("method") or {})
    return Method(
        name=str(info.get("name") or embeddings.info.get("encoder") or unnamed),
        group=str(info.get("group") or BASELINE),
        labels=str(info.get("labels") or ""),
        encoder=str(embeddings.info.get("encoder") or ""),
        params=info.get("params"),
        flops=info.get("flops"),
        trained_on_test=tuple(info.get("trained_on_test") or ()),
    )


@dataclass(frozen=True)
class Results:
    """One row of the table: its tasks and their arrays."""

    method: Method
    tasks: dict[str, Task]
    arrays: Arrays
    settings: dict[str, Any] = field(default_factory=dict)
    embeddings: list[dict[str, Any]] = field(default_factory=list)
    provenance: dict[str, Any] = field(default_factory=dict)
    generated: bool = False

    def described(self, **fields: Any) -> Self:
        """The results with other fields of the method, except for those that are empty or None."""
        return replace(self, method=replace(self.method, **{name: value for name, value in fields.items() if value}))

    def done(self, task: str) -> bool:
        """Whether there are results of a task."""
        return task in self.tasks and self.tasks[task].status == "done"

    def estimate(self, task: str, metric: str) -> Estimate:
        """A metric's values and bootstrap draws, for each training seed."""
        draws = np.atleast_2d(self.arrays[f"{task}/draws/{metric}"])
        alone = np.array([self.tasks[task].metrics[metric].value])
        return Estimate(self.arrays.get(f"{task}/seeds/{metric}", alone), draws, self.tasks[task].drawn)

    def columns(self, task: str, *names: str) -> list[NDArray[Any]]:
        """Columns of the table of a task."""
        return [self.arrays[f"{self.tasks[task].table}/{name}"] for name in names]

    def track_keys(self, task: str) -> list[TrackKey]:
        """The key of each row of the table of a task."""
        columns = self.columns(task, "dataset", "video", "track", "position")
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def save(self, folder: Path, *, overwrite: bool = False) -> None:
        """Writes results.json, arrays.npz and, if polyps were counted, tracks.csv, atomically."""
        content = {"format": FORMAT, "version": VERSION, **asdict(replace(self, arrays={}))}
        del content["arrays"]
        tracks = track_list(self.tasks, self.arrays)
        with atomic_folder(Path(folder), overwrite=overwrite, mark=ARRAYS_FILE) as temporary:
            write_json(temporary / RESULTS_FILE, without_nan(content))
            if tracks:
                write_csv(temporary / TRACK_LIST, tracks)
            named: dict[str, Any] = dict(self.arrays)
            np.savez_compressed(temporary / ARRAYS_FILE, **named)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The results that `save` wrote, checked; an error names the file and the field."""
        folder = Path(folder)
        if not (folder / RESULTS_FILE).is_file():
            raise wrong_folder(folder, "evaluate")
        content = read_json(folder / RESULTS_FILE)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise UserError(f"{folder}: not a results folder -> give one that 'polyptrace evaluate' wrote")
        if content.get("version") != VERSION:
            raise UserError(f"{folder}: results of version {content.get('version')}, not {VERSION} -> {AGAIN}")
        fields = {name: value for name, value in content.items() if name not in ("format", "version")}
        checked = from_json(cls, {**fields, "arrays": {}}, str(folder / RESULTS_FILE), AGAIN)
        arrays = read_npz(folder / ARRAYS_FILE, AGAIN)
        _check_arrays(checked.tasks, arrays, folder / ARRAYS_FILE)
        return replace(checked, arrays=arrays)


def load_each(folders: Sequence[Path]) -> list[Results]:
    """The results of some folders. A folder that is given twice is an error, because it would count as two seeds."""
    for number, folder in enumerate(folders):
        if folder.resolve() in [each.resolve() for each in folders[:number]]:
            raise UserError(f"{folder}: is given twice -> give each results folder once")
    return [Results.load(folder) for folder in folders]


#: Arrays of row numbers, and arrays with one entry per row number.
INDEX = {"query": ("ap", "hit1", "hit5", "top", "top_score"), "index": ("cluster", "label")}


def _check_arrays(tasks: Mapping[str, Task], arrays: Arrays, path: Path) -> None:
    """Raises an error that names the array if draws are missing or row numbers do not fit the table of their task."""

    def check(name: str, valid: bool, problem: str) -> None:
        if not valid:
            raise UserError(f"{path}: {name}: {problem} -> {AGAIN}")

    for name, task in tasks.items():
        for metric in task.metrics:
            key = f"{name}/draws/{metric}"
            check(key, key in arrays, "is missing")
            draws = arrays[key]
            check(key, draws.dtype.kind == "f" and draws.ndim in (1, 2), "is not an array of draws")
            seeds = arrays.get(f"{name}/seeds/{metric}", np.zeros(1))
            check(f"{name}/seeds/{metric}", seeds.shape == np.atleast_2d(draws).shape[:1], "does not fit the draws")
        rows = arrays.get(f"{task.table}/video")
        for key, columns in INDEX.items():
            index = arrays.get(f"{name}/{key}")
            if index is None or rows is None:
                continue
            check(f"{name}/{key}", _in_range(index, len(rows), 0), f"refers to rows outside {task.table}")
            for column in columns:
                values = arrays.get(f"{name}/{column}", index)
                check(f"{name}/{column}", values.shape[:1] == index.shape, f"does not have the length of {name}/{key}")
            nearest = arrays.get(f"{name}/top", index)
            check(f"{name}/top", _in_range(nearest, len(rows), -1), f"refers to rows outside {task.table}")


def _in_range(index: NDArray[Any], count: int, least: int) -> bool:
    return index.dtype.kind == "i" and (not index.size or bool(least <= index.min() and index.max() < count))


def without_nan(content: Any) -> Any:
    """The content as JSON returns it, with NaN and infinity as null, because JSON has neither."""
    return json.loads(json.dumps(content), parse_constant=lambda _: None)


COLUMNS = ("dataset", "video", "track", "first_frame", "last_frame", "start_s", "end_s", "polyp")


def track_list(tasks: Mapping[str, Task], arrays: Arrays) -> list[list[str]]:
    """The header and the lines of `tracks.csv`, one line per track; empty if polyps were not counted.

        dataset,video,track,first_frame,last_frame,start_s,end_s,polyp,threshold,affinity,temporal
        procedures,2024-03-11,4,600,649,24.00,25.96,,1,2,1

    The column of a clustering numbers the polyps of a video by first appearance, starting at 1: tracks of a video with
    the same number are counted as the same polyp.
    """
    counted = [name for name in tasks if f"{name}/cluster" in arrays]
    if not counted:
        return []
    table = tasks[counted[0]].table
    names = ("dataset", "video", "track", "position", "last", "fps", "polyp")
    dataset, video, track, first, last, fps, polyp = (arrays[f"{table}/{name}"] for name in names)
    order = np.lexsort((track, first, video, dataset))
    numbers = np.zeros((len(counted), len(order)), dtype=np.int64)
    for members in group_rows(codes(join_keys(dataset, video))[order]):
        rows = order[members]
        numbers[:, rows] = [1 + by_appearance(arrays[f"{task}/cluster"][rows]) for task in counted]
    lines = [[*COLUMNS, *(task.removeprefix("counting.") for task in counted)]]
    for row in order.tolist():
        times = [seconds_text(int(each[row]), float(fps[row])) for each in (first, last)]
        ids = [dataset[row], video[row], track[row], first[row], last[row], *times, polyp[row]]
        lines.append([str(each) for each in (*ids, *numbers[:, row])])
    return lines


def compare(one: Results, other: Results, task: str, metric: str) -> Paired:
    """The difference `one` - `other` of a metric, on the same draws of the same tracklets."""
    names = f"{one.method.name!r} and {other.method.name!r}: {task}"
    for results in (one, other):
        if not results.done(task):
            raise UserError(f"{names}: not done for {results.method.name!r} -> evaluate it")
        if metric not in results.tasks[task].metrics:
            raise UserError(f"{names}: no metric {metric!r} -> use {', '.join(results.tasks[task].metrics)}")
    if one.tasks[task].draws_key != other.tasks[task].draws_key:
        raise UserError(f"{names}: not the same tracklets, clusters, seed or draws -> use the same data and settings")
    return paired(one.estimate(task, metric), other.estimate(task, metric))


def combine(rows: Sequence[Results]) -> Results:
    """One row from several training seeds of one method: means, with the variance between seeds in the intervals.

    Arrays other than the draws (curves, neighbours, clusters) are those of the first seed.
    """
    if not rows:
        raise UserError("combine: no results -> give one folder per training seed")
    first = rows[0]
    if len(rows) == 1:
        return first
    names = {row.method.name for row in rows}
    if len(names) > 1:
        raise UserError(f"combine: results of {', '.join(sorted(names))} -> give seeds of one method")
    arrays: Arrays = dict(first.arrays)
    tasks: dict[str, Task] = {}
    seeds = sum(row.method.seeds for row in rows)
    for name, task in first.tasks.items():
        seeds_of_task = [row.tasks[name] for row in rows if name in row.tasks]
        if len(seeds_of_task) < len(rows) or len({(each.status, each.draws_key) for each in seeds_of_task}) > 1:
            raise UserError(f"combine: {name}: evaluated differently for some seeds -> use the same data and settings")
        metrics = {}
        for metric, of_first in task.metrics.items():
            each = [row.estimate(name, metric) for row in rows]
            values, draws = np.concatenate([e.values for e in each]), np.concatenate([e.draws for e in each])
            joined = Estimate(values, draws, task.drawn)
            arrays |= {f"{name}/seeds/{metric}": values, f"{name}/draws/{metric}": draws}
            metrics[metric] = Metric(joined.value, *joined.interval(), of_first.n, of_first.of)
        tasks[name] = replace(task, metrics=metrics, protocol=task.protocol | {"training_seeds": seeds})
    return replace(
        first,
        method=replace(first.method, seeds=seeds),
        tasks=tasks,
        arrays=arrays,
        embeddings=[source for row in rows for source in row.embeddings],
        generated=any(row.generated for row in rows),
    )
