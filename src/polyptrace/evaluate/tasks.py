"""The evaluation tasks: retrieval, ReID, size, histology and counting, each with confidence intervals.

Retrieval, ReID and counting take whole tracks, size and histology tracklets. A task that cannot be done (no labels, one
class, ...) is part of the results as skipped, with the reason.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from polyptrace.core.arrays import Floats, Ints
from polyptrace.core.console import counted
from polyptrace.core.errors import UserError, warn
from polyptrace.evaluate.bootstrap import interval, mean_draws
from polyptrace.evaluate.counting import DEFAULT_SETTING, SETTINGS, TARGET, Clustering, count, count_lesions
from polyptrace.evaluate.inputs import Clusters, TaskInput
from polyptrace.evaluate.probe import METRICS, Probe, adenoma, larger, probe
from polyptrace.evaluate.reid import EDGES, ReID, reid
from polyptrace.evaluate.results import Arrays, Metric, Task
from polyptrace.evaluate.retrieval import Scope, retrieval

#: Task -> its unit.
TASKS = {"retrieval": "track", "reid": "track", "size": "tracklet", "histology": "tracklet", "counting": "track"}
#: Gallery of each retrieval task; the first is the paper's.
SCOPES: dict[str, Scope] = {
    "retrieval": "all",
    "retrieval.within": "within",
    "retrieval.across": "across",
    "retrieval.between": "between",
    "retrieval.apart": "all",
}
#: How polyps are counted: the published clusterings, and as `polyptrace lesions` does.
Counter = Clustering | Literal["lesions"]
COUNTERS: tuple[Counter, ...] = (*SETTINGS, "lesions")
#: Nearest neighbours that are stored per query.
TOP = 5
#: Learning rate of each probe, as in the paper, and the meaning of its classes.
RATES = {"size": 1e-4, "histology": 1e-5}
CLASSES = {"size": "1 above 5.0 mm, 0 up to it", "histology": "1 adenoma, 0 not"}
#: A task and its arrays.
Outcome = tuple[Task, Arrays]


@dataclass(frozen=True)
class Measured:
    """What a task measures: the value and the draws of each metric, over `n` of what `of` names."""

    clusters: Clusters
    metrics: dict[str, tuple[float, Floats]]
    n: int
    of: str
    counts: dict[str, int]
    protocol: dict[str, Any]
    arrays: Arrays
    drawn: int | None = None  # number of clusters that are drawn, if not all
    reason: str = ""


def check_task(name: str) -> str:
    """The name, or an error if it is not one of `TASKS`."""
    if name not in TASKS:
        raise UserError(f"task {name!r}: no such task -> use {', '.join(TASKS)}")
    return name


class ImpossibleTaskError(Exception):
    """Why a task cannot be done."""


def run_task(name: str, data: TaskInput, histology: Mapping[str, int] | None = None) -> dict[str, Outcome]:
    """The outcomes of a task of `TASKS` and its variants, by name; one that cannot be done is skipped."""
    outcomes: dict[str, Outcome] = {}
    for variant, measure in _variants(name, data, histology).items():
        try:
            _require(len(data) > 0, f"the embeddings have no {data.unit}s")
            outcomes[variant] = _outcome(variant, data, measure())
        except ImpossibleTaskError as error:
            skipped = Task(data.unit, data.table, status="skipped", reason=str(error), datasets=data.datasets)
            outcomes[variant] = skipped, {}
    return outcomes


def _outcome(name: str, data: TaskInput, measured: Measured) -> Outcome:
    """The task with confidence intervals; the names of its arrays get the name of the task as a prefix."""
    clusters, metrics = measured.clusters, measured.metrics
    drawn = clusters.number if measured.drawn is None else measured.drawn
    n, of = int(measured.n), measured.of
    task = Task(
        data.unit,
        data.table,
        reason="; ".join(filter(None, [measured.reason, data.cluster_remark(clusters)])),
        datasets=data.datasets,
        metrics={key: Metric(float(v), *interval(draws, drawn), n, of) for key, (v, draws) in metrics.items()},
        counts=data.counts() | measured.counts,
        protocol={**measured.protocol, "cluster": clusters.kind, "draws": data.settings.bootstrap},
        drawn=drawn,
        draws_key=clusters.key,
    )
    arrays = measured.arrays | {f"draws/{key}": draws for key, (_, draws) in metrics.items()}
    return task, {f"{name}/{key}": values for key, values in arrays.items()}


def _variants(name: str, data: TaskInput, histology: Mapping[str, int] | None) -> dict[str, Callable[[], Measured]]:
    """The paper's protocol of a task and, with `variants`, the others."""
    every = data.settings.variants
    match name:
        case "retrieval":
            return {task: partial(_retrieval_task, data, task) for task in (SCOPES if every else ("retrieval",))}
        case "reid":
            return {"reid": partial(_reid_task, data)}
        case "counting":
            return {f"counting.{method}": partial(_counting_task, data, method) for method in COUNTERS}
        case _:
            e = data.embeddings
            label = larger(e.size_mm) if name == "size" else adenoma(e.histology, histology)
            groups = {name: data.polyp} | ({f"{name}.video": data.video} if every and data.test is None else {})
            return {task: partial(_probe_task, data, task, label, group) for task, group in groups.items()}


def _require(condition: bool, reason: str) -> None:
    if not condition:
        raise ImpossibleTaskError(reason)


def _require_labels(data: TaskInput) -> None:
    _require(bool(data.labelled.any()), "needs polyp labels, but no row has one")


def _require_gallery(data: TaskInput, name: str) -> None:
    e = data.embeddings
    video, polyp = data.video[data.labelled], data.polyp[data.labelled]
    _require(not (video == "").any(), "needs the video of each row")
    if SCOPES[name] in ("across", "between"):
        _require(len(set(video.tolist())) > 1, "needs two procedures")
    if SCOPES[name] == "across":
        seen_again = len(set(zip(polyp, video, strict=True))) > len(set(polyp.tolist()))
        _require(seen_again, "no polyp is seen in two procedures")
    if name == "retrieval.apart":
        timed = not (np.isnan(e.fps).any() or (e.position < 0).any())
        _require(timed, "needs the frame rate and the first and last frame of each row")


def _retrieval_task(data: TaskInput, name: str) -> Measured:
    _require_labels(data)
    if name != "retrieval":
        _require_gallery(data, name)
    e, clusters = data.embeddings, data.default_clusters
    apart = data.settings.exclude_seconds if name == "retrieval.apart" else 0.0
    result = retrieval(
        e.vectors,
        data.polyp,
        data.settings.convention,
        scope=SCOPES[name],
        video=data.video,
        start=e.position / e.fps if apart else None,
        end=e.last / e.fps if apart else None,
        apart=apart,
        top=TOP if name == "retrieval" else 0,
        device=data.device,
    )
    _require(result.queries > 0, "no query has another tracklet of its polyp in its gallery")
    values = {"map": result.ap, "hr1": result.hit1, "hr5": result.hit5}
    cluster = clusters.code[result.query]
    arrays: Arrays = {"query": result.query}
    arrays |= {key: getattr(result, key).astype(np.float32) for key in ("ap", "hit1", "hit5")}
    if name == "retrieval":
        arrays |= {"top": result.top, "top_score": result.top_score}
    return Measured(
        clusters,
        {key: (each.mean(), mean_draws(each, cluster, clusters.counts)) for key, each in values.items()},
        n=result.queries,
        of="queries",
        counts={key: getattr(result, key) for key in ("queries", "without_positive", "zero_vectors")},
        protocol={
            "convention": data.settings.convention,
            "gallery": SCOPES[name],
            "apart_seconds": apart,
            "ties": "mean over orders",
        },
        arrays=arrays,
    )


def _reid_task(data: TaskInput) -> Measured:
    """AUROC and AUPR over all pairs, with curves and histograms."""
    _require_labels(data)
    e, clusters = data.embeddings, data.default_clusters
    result = reid(e.vectors, data.polyp, device=data.device)
    _require(result.same_pairs > 0, "there is no pair of tracklets of the same polyp")
    _require(result.different_pairs > 0, "there is no pair of tracklets of different polyps")
    auroc, aupr = result.draws(clusters.code, clusters.counts)
    return Measured(
        clusters,
        {"auroc": (result.auroc, auroc), "aupr": (result.aupr, aupr)},
        n=result.same_pairs + result.different_pairs,
        of="pairs",
        counts={key: getattr(result, key) for key in ("same_pairs", "different_pairs", "zero_vectors")},
        protocol={"pairs": "every unordered pair"},
        arrays=_pair_arrays(result),
    )


def _pair_arrays(result: ReID) -> Arrays:
    false, true = result.roc()
    recall, precision = result.precision_recall()
    same, different = result.histograms()
    curves = {"roc_fpr": false, "roc_tpr": true, "pr_recall": recall, "pr_precision": precision}
    histograms: Arrays = {"edges": EDGES, "same": same, "different": different}
    return histograms | {key: values.astype(np.float32) for key, values in curves.items()}


def _probe_task(data: TaskInput, name: str, label: Ints, group: NDArray[Any]) -> Measured:
    """`size` or `histology`; the groups stay together in the split. A given split is used as it is."""
    e, settings, base = data.embeddings, data.settings, name.partition(".")[0]
    column = "size_mm" if base == "size" else "histology"
    _require(bool((label >= 0).any()), f"needs labels in column {column}, but no row has one")
    usable = (label >= 0) & data.labelled & (group != "")
    _require(bool(usable.any()), "needs the polyp and video of each labelled row")
    _require(len(set(label[usable].tolist())) == 2, "needs both classes, but all labelled rows are of one")
    try:
        result = probe(
            e.vectors,
            label,
            data.polyp,
            by=group,
            dataset=e.dataset,
            test=data.test,
            lr=RATES[base],
            repeats=settings.repeats,
            seed=settings.seed,
            device=data.device,
        )
    except UserError as error:  # too few polyps to split is a reason to skip, not a failure
        raise ImpossibleTaskError(str(error)) from None
    clusters = data.default_clusters
    if name.endswith(".video"):
        clusters = data.clusters("video", data.labelled)
    elif data.test is not None:
        clusters = data.clusters(clusters.kind, data.labelled & data.test)
    tested, index = ~np.isnan(result.probability), np.flatnonzero(result.label >= 0)  # (S, N), (n,)
    split = "70/30 by video" if name.endswith(".video") else "70/30 by polyp"
    draws = {key: result.draws(key, clusters.code, clusters.counts, settings.seed) for key in METRICS}
    return Measured(
        clusters,
        {key: (result.each(key).mean(), draws[key]) for key in METRICS},
        n=round(float(tested.sum(axis=1).mean())),
        of="tracklets",
        counts=_probe_counts(data, result),
        protocol={
            "label": CLASSES[base],
            "split": split if data.test is None else "given",
            "stratified": "label and dataset" if data.test is None else "",
            "lr": RATES[base],
            "repeats": settings.repeats,
        },
        arrays={
            "index": index,
            "label": result.label[index].astype(np.int8),
            "probability": result.probability[:, index],
        },
        drawn=len(np.unique(clusters.code[tested.any(axis=0)])),
    )


def _probe_counts(data: TaskInput, result: Probe) -> dict[str, int]:
    """Numbers of tracklets and polyps with the label and without; of a given split also the polyps in both parts."""
    used = result.label >= 0
    polyps = set(data.polyp[used].tolist())
    counts = {
        "labelled": int(used.sum()),
        "left_out": int((~used).sum()),
        "labelled_polyps": len(polyps),
        "polyps_of_class_1": len(set(data.polyp[result.label == 1].tolist())),
        "polyps_left_out": len(set(data.polyp.tolist()) - polyps - {""}),
    }
    if data.test is None:
        return counts
    shared = set(data.polyp[used & data.test].tolist()) & set(data.polyp[used & ~data.test].tolist())
    if shared:
        warn(f"the given split has {counted(len(shared), 'polyp')} in both parts, for example {min(shared)!r}")
    return counts | {"polyps_in_both_parts": len(shared)}


def _counting_task(data: TaskInput, method: Counter) -> Measured:
    """Clusters of each video compared with its polyps; without labels only the number of clusters."""
    e, settings = data.embeddings, data.settings
    _require(not (data.video == "").any(), "needs the video of each row")
    if method in ("temporal", "lesions"):
        _require(not (e.position < 0).any(), "needs the first and last frame of each row")
    if method == "lesions":
        result = count_lesions(e, data.video, data.polyp)
        protocol: dict[str, Any] = {"clustering": method, "tuning": "none", "labels": "none"}
        unlabelled = "no labels, so only lesions are counted"
    else:
        given = {
            "threshold": settings.count_threshold,
            "affinity": settings.count_preference,
            "temporal": settings.count_alpha,
        }[method]
        default = DEFAULT_SETTING[method]
        result = count(e.vectors, data.video, data.polyp, method=method, first=e.position, last=e.last, setting=given)
        tuning = f"leave one video out, false positive rate {TARGET}" if result.tuned.any() else "none"
        protocol = {"clustering": method, "tuning": tuning, "default": default, "given": given}
        used = f"the default, {default:g}" if given is None else f"yours, {given:g}"
        unlabelled = f"no labels, so the setting is {used}, and only clusters are counted"
    clusters = data.clusters("video", np.ones(len(data), dtype=bool))
    values = result.draws(np.ones((1, clusters.number), dtype=np.int64))
    draws = result.draws(clusters.counts)
    labelled = int(result.labelled.sum())
    return Measured(
        clusters,
        {key: (values[key][0], draws[key]) for key in draws},
        n=labelled or len(result.clusters),
        of="videos",
        counts={"labelled_videos": labelled, "tuned_videos": int(result.tuned.sum())},
        protocol=protocol,
        arrays={
            "index": np.arange(len(data)),
            "cluster": result.cluster,
            "procedure": np.unique(data.video.astype(str)),
            "clusters": result.clusters,
            "polyps": result.polyps,
            "setting": result.setting,
        },
        reason="" if labelled else unlabelled,
    )
