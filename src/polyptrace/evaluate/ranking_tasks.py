"""Retrieval and ReID as tasks: figures with intervals, variants, and why one cannot be done."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyptrace.evaluate.gallery import Scope
from polyptrace.evaluate.reid import EDGES, ReID, reid, reid_draws
from polyptrace.evaluate.results import Task
from polyptrace.evaluate.retrieval import Retrieval, retrieval
from polyptrace.evaluate.significance import mean_draws
from polyptrace.evaluate.subject import Arrays, Clusters, Outcome, Subject, figure

#: Beside the paper's protocol.
VARIANTS: dict[str, Scope] = {"within": "within", "across": "across", "between": "between", "apart": "all"}
TOP = 5


def retrieval_tasks(subject: Subject) -> dict[str, Outcome]:
    """The paper's retrieval, then within a procedure, across, between procedures, and without close neighbours."""
    variants = VARIANTS if subject.settings.variants else {}
    names = ["retrieval", *(f"retrieval.{variant}" for variant in variants)]
    missing = _without_labels(subject)
    if missing:
        return {name: subject.skipped(missing) for name in names}
    clusters = subject.clusters(subject.settings.cluster)
    outcomes = {"retrieval": _retrieval(subject, clusters, "retrieval", "all", 0.0)}
    for variant, scope in variants.items():
        name, apart = f"retrieval.{variant}", subject.settings.exclude_seconds if variant == "apart" else 0.0
        reason = _without_variant(subject, variant)
        outcomes[name] = subject.skipped(reason) if reason else _retrieval(subject, clusters, name, scope, apart)
    return outcomes


def _retrieval(subject: Subject, clusters: Clusters, name: str, scope: Scope, apart: float) -> Outcome:
    e, settings = subject.embeddings, subject.settings
    found = retrieval(
        e.vectors,
        subject.polyp,
        settings.convention,
        scope=scope,
        video=subject.video,
        start=e.position / e.fps if apart else None,
        end=e.last / e.fps if apart else None,
        apart=apart,
        top=TOP if name == "retrieval" else 0,
        device=subject.device,
    )
    if not found.queries:
        return subject.skipped("no query has another tracklet of its polyp in its gallery")
    values = {"map": found.ap, "hr1": found.hit1, "hr5": found.hit5}
    draws = {key: mean_draws(each, clusters.code[found.query], clusters.counts) for key, each in values.items()}
    own = {
        "queries": found.queries,
        "without_positive": found.without_positive,
        "zero_vectors": found.zero_vectors,
    }
    task = Task(
        subject.unit,
        subject.table,
        datasets=subject.datasets,
        metrics={
            key: figure(each.mean(), draws[key], clusters.number, found.queries, "queries")
            for key, each in values.items()
        },
        counts=subject.counts() | own,
        protocol={
            "convention": settings.convention,
            "gallery": scope,
            "apart_seconds": apart,
            "ties": "mean over orders",
            "cluster": settings.cluster,
            "draws": settings.bootstrap,
        },
        drawn=clusters.number,
        draws_key=clusters.key,
    )
    return _with_draws(name, task, _of_queries(name, found), draws)


def _of_queries(name: str, found: Retrieval) -> Arrays:
    """What is kept of each query beside the figures."""
    arrays: Arrays = {f"{name}/query": found.query}
    arrays |= {f"{name}/{key}": getattr(found, key).astype(np.float32) for key in ("ap", "hit1", "hit5")}
    if name == "retrieval":
        arrays |= {f"{name}/top": found.top, f"{name}/top_score": found.top_score}
    return arrays


def reid_tasks(subject: Subject) -> dict[str, Outcome]:
    """AUROC and AUPR over all pairs, with curves and histograms."""
    missing = _without_labels(subject)
    if missing:
        return {"reid": subject.skipped(missing)}
    e, clusters = subject.embeddings, subject.clusters(subject.settings.cluster)
    found = reid(e.vectors, subject.polyp, device=subject.device)
    if not found.same_pairs or not found.different_pairs:
        kind = "same polyp" if not found.same_pairs else "different polyps"
        return {"reid": subject.skipped(f"there is no pair of tracklets of {kind}")}
    drawn = reid_draws(e.vectors, subject.polyp, clusters.code, clusters.counts, found, device=subject.device)
    pairs = found.same_pairs + found.different_pairs
    task = Task(
        subject.unit,
        subject.table,
        datasets=subject.datasets,
        metrics={
            "auroc": figure(found.auroc, drawn[0], clusters.number, pairs, "pairs"),
            "aupr": figure(found.aupr, drawn[1], clusters.number, pairs, "pairs"),
        },
        counts=subject.counts()
        | {
            "same_pairs": found.same_pairs,
            "different_pairs": found.different_pairs,
            "zero_vectors": found.zero_vectors,
        },
        protocol={
            "pairs": "every unordered pair",
            "cluster": subject.settings.cluster,
            "draws": subject.settings.bootstrap,
        },
        drawn=clusters.number,
        draws_key=clusters.key,
    )
    return {"reid": _with_draws("reid", task, _of_pairs(found), dict(zip(("auroc", "aupr"), drawn, strict=True)))}


def _of_pairs(found: ReID) -> Arrays:
    """Histograms of both kinds of pairs, and the curves."""
    false, true = found.roc()
    recall, precision = found.precision_recall()
    same, different = found.histograms()
    curves = {"roc_fpr": false, "roc_tpr": true, "pr_recall": recall, "pr_precision": precision}
    histograms: Arrays = {"reid/edges": EDGES, "reid/same": same, "reid/different": different}
    return histograms | {f"reid/{key}": values.astype(np.float32) for key, values in curves.items()}


def _with_draws(name: str, task: Task, arrays: Arrays, draws: dict[str, NDArray[Any]]) -> Outcome:
    return Outcome(task, arrays | {f"{name}/draws/{key}": each for key, each in draws.items()})


def _without_labels(subject: Subject) -> str:
    """Why rankings cannot be judged, "" if they can."""
    if not len(subject.embeddings):
        return f"the embeddings have no {subject.unit}s"
    if not (subject.polyp != "").any():
        return "needs polyp labels, and no row has one"
    if subject.settings.cluster == "video" and (subject.video == "").any():
        return "the bootstrap over videos needs the video of each row"
    return ""


def _without_variant(subject: Subject, variant: str) -> str:
    e, labelled = subject.embeddings, subject.polyp != ""
    if (subject.video[labelled] == "").any():
        return "needs the video of each row"
    if variant in ("across", "between") and len(set(subject.video[labelled].tolist())) < 2:
        return "needs two procedures"
    if variant == "across":
        seen = {(p, v) for p, v in zip(subject.polyp[labelled].tolist(), subject.video[labelled].tolist(), strict=True)}
        if len(seen) == len({p for p, _ in seen}):
            return "no polyp is seen in two procedures"
    if variant == "apart" and (np.isnan(e.fps).any() or (e.position < 0).any()):
        return "needs the frame rate and the first and last frame of each row"
    return ""
