"""Counting as tasks, one per clustering; without labels the clusters alone."""

import numpy as np
from numpy.typing import NDArray

from polyptrace.evaluate.clustering import DEFAULT, SETTINGS, Clustering
from polyptrace.evaluate.counting import TARGET, Counting, count
from polyptrace.evaluate.results import Task
from polyptrace.evaluate.subject import Arrays, Outcome, Subject, figure


def counting_tasks(subject: Subject) -> dict[str, Outcome]:
    """counting.threshold, counting.affinity, counting.temporal."""
    return {f"counting.{method}": _counting(subject, method) for method in SETTINGS}


def _counting(subject: Subject, method: Clustering) -> Outcome:
    missing = _missing(subject, method)
    if missing:
        return subject.skipped(missing)
    e = subject.embeddings
    given = _given(subject, method)
    found = count(e.vectors, subject.video, subject.polyp, method=method, first=e.position, last=e.last, setting=given)
    name, clusters = f"counting.{method}", subject.clusters("video", unlabelled=True)
    draws = _draws(found, clusters.counts)
    once = _draws(found, np.ones((1, clusters.counts.shape[1]), dtype=np.int64))
    labelled = int(found.labelled.sum())
    arrays: Arrays = {
        f"{name}/index": np.arange(len(e)),
        f"{name}/cluster": found.cluster,
        f"{name}/procedure": np.unique(subject.video),
        f"{name}/clusters": found.clusters,
        f"{name}/polyps": found.polyps,
        f"{name}/setting": found.setting,
    }
    arrays |= {f"{name}/draws/{key}": each for key, each in draws.items()}
    tuned = int(found.tuned.sum())
    task = Task(
        subject.unit,
        subject.table,
        reason="" if labelled else f"no labels, so {_standing(method, given)}, and only clusters are counted",
        datasets=subject.datasets,
        metrics={
            key: figure(once[key][0], draws[key], clusters.number, labelled or len(found.clusters), "videos")
            for key in draws
        },
        counts=subject.counts() | {"labelled_videos": labelled, "tuned_videos": tuned},
        protocol={
            "clustering": method,
            "tuning": f"leave one video out, false positive rate {TARGET}" if tuned else "none",
            "default": DEFAULT[method],
            "given": given,
            "cluster": "video",
            "draws": subject.settings.bootstrap,
        },
        drawn=clusters.number,
        draws_key=clusters.key,
    )
    return Outcome(task, arrays)


def _given(subject: Subject, method: Clustering) -> float | None:
    """The setting that the user fixed, or None."""
    settings = subject.settings
    fixed: dict[Clustering, float | None] = {
        "threshold": settings.count_threshold,
        "affinity": settings.count_preference,
        "temporal": settings.count_alpha,
    }
    return fixed[method]


def _standing(method: Clustering, given: float | None) -> str:
    """Which setting is used where there is nothing to tune it on."""
    return f"the setting is the default, {DEFAULT[method]:g}" if given is None else f"the setting is yours, {given:g}"


def _missing(subject: Subject, method: Clustering) -> str:
    """Why polyps cannot be counted, "" if they can."""
    if not len(subject.embeddings):
        return f"the embeddings have no {subject.unit}s"
    if (subject.video == "").any():
        return "needs the video of each row"
    if method == "temporal" and (subject.embeddings.position < 0).any():
        return "needs the first and last frame of each row"
    return ""


def _draws(found: Counting, counts: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
    """Each figure on draws (R, V) of videos; without labels only the number of clusters."""
    weights = counts.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        figures = {"clusters": weights @ found.clusters / weights.sum(axis=1)}
        if not found.labelled.any():
            return figures
        known = weights[:, found.labelled]
        videos = known.sum(axis=1)
        rate = found.fragmentations
        mean = known @ rate / videos
        several = weights[:, found.polyps > 1] @ found.pairs[found.polyps > 1]
        total = weights @ found.pairs
        figures |= {
            "fragmentation": mean,
            "fragmentation_sd": np.sqrt(np.maximum(known @ rate**2 / videos - mean**2, 0.0)),
            "false_positive_rate": several[:, 0] / (several[:, 0] + several[:, 1]),
            "recall": total[:, 2] / (total[:, 2] + total[:, 3]),
            "count_error": known @ np.abs(found.errors) / videos,
            "count_bias": known @ found.errors / videos,
        }
    return figures
