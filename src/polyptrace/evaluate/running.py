"""All the tasks on the embeddings they need: whole tracks for rankings and counting, tracklets for the probes."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from polyptrace.config import Evaluate
from polyptrace.core.errors import UserError
from polyptrace.core.files import provenance
from polyptrace.embed import Embeddings
from polyptrace.evaluate.counting_tasks import counting_tasks
from polyptrace.evaluate.probe_tasks import probe_tasks
from polyptrace.evaluate.ranking_tasks import reid_tasks, retrieval_tasks
from polyptrace.evaluate.results import Method, Results, Task
from polyptrace.evaluate.subject import Arrays, Outcome, Subject

#: Task -> the unit it takes.
TASKS = {
    "retrieval": "track",
    "reid": "track",
    "size": "tracklet",
    "histology": "tracklet",
    "counting": "track",
}
#: Tracks whose vectors are kept for a map.
PLANE = 5000


def evaluate(
    embeddings: Mapping[str, Embeddings],
    tasks: Sequence[str] = tuple(TASKS),
    settings: Evaluate | None = None,
    *,
    method: Method | None = None,
    histology: dict[str, int] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Results:
    """The results of a row, from each task's own embeddings.

    A task that cannot be done (no labels, one class, ...) is there as skipped, with its reason. `histology` maps
    names beyond the known ones; `say` is told each task's name before it starts.
    """
    settings = settings or Evaluate()
    arrays: Arrays = {}
    outcomes: dict[str, Outcome] = {}
    tables: dict[tuple[int, str], Subject] = {}
    for name in tasks:
        if name not in TASKS:
            raise UserError(f"task {name!r}: no such task -> one of {', '.join(TASKS)}")
        say(name)
        key = (id(embeddings[name]), TASKS[name])
        if key not in tables:
            earlier = sum(subject.unit == TASKS[name] for subject in tables.values())
            table = f"{TASKS[name]}s" + (f"-{earlier + 1}" if earlier else "")
            tables[key] = Subject(embeddings[name].select(TASKS[name]), TASKS[name], table, settings)
            arrays |= _table(tables[key])
        outcomes |= _run(name, tables[key], histology)
    for outcome in outcomes.values():
        arrays |= outcome.arrays
    done: dict[str, Task] = {name: outcome.task for name, outcome in outcomes.items()}
    first = next(iter(embeddings.values()))
    return Results(method or method_of(first), done, arrays, provenance=provenance())


def method_of(embeddings: Embeddings) -> Method:
    """The row as the embeddings themselves describe it."""
    told = dict(embeddings.info.get("method") or {})
    return Method(
        name=str(told.get("name") or embeddings.info.get("encoder") or "unnamed"),
        group=str(told.get("group") or "Baseline"),
        labels=str(told.get("labels") or "label-free"),
        encoder=str(embeddings.info.get("encoder") or ""),
        params=told.get("params"),
        flops=told.get("flops"),
        trained_on_test=tuple(told.get("trained_on_test") or ()),
    )


def _run(name: str, subject: Subject, histology: dict[str, int] | None) -> dict[str, Outcome]:
    match name:
        case "retrieval":
            return retrieval_tasks(subject)
        case "reid":
            return reid_tasks(subject)
        case "counting":
            return counting_tasks(subject)
        case _:
            return probe_tasks(subject, name, histology)


def _table(subject: Subject) -> Arrays:
    """Ids of the rows, and some vectors of tracks."""
    e, table = subject.embeddings, subject.table
    arrays: Arrays = {f"{table}/{name}": values for name, values in e.columns().items() if name != "unit"}
    if subject.unit == "track" and len(e):
        order = np.random.default_rng(subject.settings.seed).permutation(len(e))[:PLANE]
        index = np.sort(order)
        length = np.linalg.norm(e.vectors[index], axis=1, keepdims=True)
        arrays[f"{table}/plane_index"] = index
        arrays[f"{table}/plane_vectors"] = (e.vectors[index] / np.where(length > 0, length, 1)).astype(np.float16)
    return arrays
