"""Size and histology as tasks: the probe by polyp as in the paper, and by video beside it."""

import numpy as np
from numpy.typing import NDArray

from polyptrace.core.errors import UserError
from polyptrace.evaluate.histology import adenoma, larger
from polyptrace.evaluate.probe import FIGURES, Probe, probe
from polyptrace.evaluate.results import Task
from polyptrace.evaluate.subject import Arrays, Outcome, Subject, figure

#: Learning rates of the paper.
RATES = {"size": 1e-4, "histology": 1e-5}
RULES = {"size": "1 above 5.0 mm, 0 up to it", "histology": "1 adenoma, 0 not"}


def probe_tasks(subject: Subject, name: str, histology: dict[str, int] | None = None) -> dict[str, Outcome]:
    """`size` or `histology`, split by polyp and by video."""
    if not len(subject.embeddings):
        return {name: subject.skipped(f"the embeddings have no {subject.unit}s")}
    if name == "size":
        label = larger(subject.embeddings.size_mm)
        column = "size_mm"
    else:
        label = adenoma(subject.embeddings.histology, histology)
        column = "histology"
    outcomes = {}
    groups = {name: subject.polyp} | ({f"{name}.video": subject.video} if subject.settings.variants else {})
    for task_name, group in groups.items():
        reason = _missing(subject, label, group, column)
        outcomes[task_name] = subject.skipped(reason) if reason else _probe(subject, task_name, label, group)
    return outcomes


def _missing(subject: Subject, label: NDArray[np.int64], group: NDArray[np.str_], column: str) -> str:
    if not (label >= 0).any():
        return f"needs labels in column {column}, and no row has one"
    usable = (label >= 0) & (subject.polyp != "") & (group != "")
    if not usable.any():
        return "needs the polyp and video of each labelled row"
    if len(set(label[usable].tolist())) < 2:
        return "needs both classes, and all labelled rows are of one"
    return ""


def _probe(subject: Subject, name: str, label: NDArray[np.int64], group: NDArray[np.str_]) -> Outcome:
    e, settings = subject.embeddings, subject.settings
    rate = RATES[name.partition(".")[0]]
    try:
        found = probe(
            e.vectors,
            label,
            subject.polyp,
            by=group,
            dataset=e.dataset,
            lr=rate,
            repeats=settings.repeats,
            seed=settings.seed,
            device=subject.device,
        )
    except UserError as error:  # too few polyps to split is an outcome, not a failure
        return subject.skipped(str(error))
    clusters = subject.clusters("video" if name.endswith(".video") else settings.cluster)
    draws = {key: found.draws(key, clusters.code, clusters.counts, settings.seed) for key in FIGURES}
    tested = round(float((~np.isnan(found.probability)).sum(axis=1).mean()))
    tested_clusters = len(np.unique(clusters.code[(~np.isnan(found.probability)).any(axis=0)]))
    task = Task(
        subject.unit,
        subject.table,
        datasets=subject.datasets,
        metrics={
            key: figure(found.each(key).mean(), draws[key], tested_clusters, tested, "tracklets") for key in FIGURES
        },
        counts=subject.counts() | _labelled(subject, found),
        protocol={
            "label": RULES[name.partition(".")[0]],
            "split": "70/30 by video" if name.endswith(".video") else "70/30 by polyp",
            "stratified": "label and dataset",
            "lr": rate,
            "repeats": settings.repeats,
            "draws": settings.bootstrap,
        },
        drawn=tested_clusters,
        draws_key=clusters.key,
    )
    return Outcome(task, _arrays(name, found) | {f"{name}/draws/{key}": each for key, each in draws.items()})


def _labelled(subject: Subject, found: Probe) -> dict[str, int]:
    """How many tracklets and polyps have the label, and how many were left out."""
    index = np.flatnonzero(found.label >= 0)
    used = subject.polyp[index]
    return {
        "labelled": len(index),
        "left_out": len(found.label) - len(index),
        "labelled_polyps": len(set(used.tolist())),
        "polyps_of_class_1": len(set(used[found.label[index] == 1].tolist())),
        "polyps_left_out": len(set(subject.polyp.tolist()) - set(used.tolist()) - {""}),
    }


def _arrays(name: str, found: Probe) -> Arrays:
    """What is kept of a probe beside its figures."""
    index = np.flatnonzero(found.label >= 0)
    return {
        f"{name}/index": index,
        f"{name}/label": found.label[index].astype(np.int8),
        f"{name}/probability": found.probability[:, index],
        f"{name}/f1s": found.each("f1"),
        f"{name}/accuracies": found.each("accuracy"),
    }
