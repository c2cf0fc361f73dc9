"""The evaluation of one method: all tasks on embeddings in memory, or on saved ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from polyptrace.config import Config, Evaluate, as_dict
from polyptrace.core.errors import UserError
from polyptrace.core.files import file_hash, provenance
from polyptrace.embed import VECTORS_FILE, Embeddings
from polyptrace.evaluate.inputs import TaskInput, join_inputs, task_input
from polyptrace.evaluate.results import Arrays, Method, Results, method_of
from polyptrace.evaluate.tasks import RATES, TASKS, Outcome, check_task, run_task


def evaluate(
    embeddings: Mapping[str, Embeddings],
    tasks: Sequence[str] = tuple(TASKS),
    settings: Evaluate | None = None,
    *,
    method: Method | None = None,
    histology: Mapping[str, int] | None = None,
    train: Mapping[str, Embeddings] | None = None,
    on_task: Callable[[str], None] = lambda _: None,
) -> Results:
    """The results of one method, from the embeddings of each task.

    `histology` maps names beyond the known ones to 1, 0 or -1. `train` gives the training part of a published split
    for size or histology; the embeddings of the task are then the test part. `on_task` is called with the name of each
    task before it starts.
    """
    settings, train = settings or Evaluate(), train or {}
    for name in map(check_task, (*tasks, *train)):
        if name in train and name not in RATES:
            raise UserError(f"train: {name} trains nothing -> give a training part for {' or '.join(RATES)}")
    arrays: Arrays = {}
    outcomes: dict[str, Outcome] = {}
    inputs: dict[tuple[int, int, str], TaskInput] = {}
    for name in tasks:
        on_task(name)
        unit = TASKS[name]
        key = (id(embeddings[name]), id(train.get(name)), unit)
        if key not in inputs:
            earlier = sum(data.unit == unit for data in inputs.values())
            table = f"{unit}s" + (f"-{earlier + 1}" if earlier else "")
            inputs[key] = task_input(embeddings[name], train.get(name), unit, table, settings)
            arrays |= inputs[key].ids()
        outcomes |= run_task(name, inputs[key], histology)
    for _, of_task in outcomes.values():
        arrays |= of_task
    used = [*(embeddings[name] for name in tasks), *train.values()]
    return Results(
        method or method_of(next(iter(embeddings.values()))),
        {name: task for name, (task, _) in outcomes.items()},
        arrays,
        provenance=provenance(),
        generated=any(each.generated for each in used),
    )


def evaluate_files(
    paths: Mapping[str, Sequence[Path]],
    settings: Evaluate,
    *,
    histology: Mapping[str, int] | None = None,
    train: Mapping[str, Sequence[Path]] | None = None,
    on_task: Callable[[str], None] = lambda _: None,
) -> Results:
    """The results of each task on the embeddings at its paths, with the settings and the hashes of the files.

    `train` gives the training part of a published split; `histology` and `on_task` are as in `evaluate`.
    """
    tables: dict[tuple[Path, ...], Embeddings] = {}
    sources: dict[Path, dict[str, Any]] = {}

    def table(paths: Sequence[Path], where: str) -> Embeddings:
        key = tuple(paths)
        if key not in tables:
            loaded = [(path, Embeddings.load(path)) for path in key]
            tables[key] = join_inputs([(str(path), each) for path, each in loaded], where)
            for path, each in loaded:
                file = path / VECTORS_FILE if path.is_dir() else path
                sources[path] = {"path": str(path), "sha256": file_hash(file), "info": each.info}
        return tables[key]

    by_task = {task: table(some, f"embeddings of {task}") for task, some in paths.items()}
    parts = {task: table(some, f"training part of {task}") for task, some in (train or {}).items()}
    first = next(iter(paths))
    results = evaluate(
        by_task,
        list(paths),
        settings,
        method=method_of(by_task[first], unnamed=paths[first][0].stem),
        histology=histology,
        train=parts,
        on_task=on_task,
    )
    recorded = as_dict(Config(evaluate=settings), ("evaluate",))
    return replace(results, settings=recorded, embeddings=list(sources.values()))
