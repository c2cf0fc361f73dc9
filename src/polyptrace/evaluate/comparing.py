"""Rows against each other: a paired test on the same draws, and several training seeds as one row."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from polyptrace.core.errors import UserError
from polyptrace.evaluate.results import Metric, Results, Task
from polyptrace.evaluate.significance import Paired, interval, nested_draws, paired
from polyptrace.evaluate.subject import Arrays


def compare(one: Results, other: Results, task: str, figure: str) -> Paired:
    """How much higher `one`'s figure is than `other`'s, on the same draws of the same tracklets."""
    names = f"{one.method.name!r} and {other.method.name!r}: {task}"
    for results in (one, other):
        if task not in results.tasks or results.tasks[task].status != "done":
            raise UserError(f"{names}: not done for {results.method.name!r} -> evaluate it")
        if figure not in results.tasks[task].metrics:
            raise UserError(f"{names}: no figure {figure!r} -> {', '.join(results.tasks[task].metrics)}")
    a, b = one.tasks[task], other.tasks[task]
    if a.draws_key != b.draws_key:
        raise UserError(
            f"{names}: not the same tracklets, cluster, seed or number of draws -> evaluate both alike to compare them"
        )
    value, other_value = a.metrics[figure].value, b.metrics[figure].value
    return paired(value, other_value, one.draws(task, figure), other.draws(task, figure), a.drawn)


def combine(rows: Sequence[Results]) -> Results:
    """One row from several training seeds of one method: means, with seeds drawn outside and polyps inside.

    The arrays behind figures (curves, neighbours, clusters) are those of the first seed.
    """
    if not rows:
        raise UserError("combine: no results given -> give one folder per training seed")
    first = rows[0]
    names = {row.method.name for row in rows}
    if len(names) > 1:
        raise UserError(f"combine: results of {', '.join(sorted(names))} -> give seeds of one method")
    arrays: Arrays = dict(first.arrays)
    tasks: dict[str, Task] = {}
    for name, task in first.tasks.items():
        others = [row.tasks.get(name) for row in rows]
        known = [other for other in others if other is not None and other.status == task.status]
        if len(known) < len(rows) or {other.draws_key for other in known} != {task.draws_key}:
            raise UserError(f"combine: {name} was not evaluated alike for all seeds -> same data, settings and tasks")
        # as many seeds as clusters are not drawn by the same number: they would be taken together, draw by draw
        seed = first.settings.get("evaluate", {}).get("seed", 0) + 1 if task.drawn == len(rows) else 0
        figures = {}
        for figure, told in task.metrics.items():
            draws = nested_draws([row.draws(name, figure) for row in rows], seed)
            arrays[f"{name}/draws/{figure}"] = draws
            arrays[f"{name}/seeds/{figure}"] = np.array([other.metrics[figure].value for other in known])
            low, high = interval(draws, task.drawn)
            figures[figure] = Metric(float(arrays[f"{name}/seeds/{figure}"].mean()), low, high, told.n, told.of)
        tasks[name] = replace(task, metrics=figures, protocol=task.protocol | {"training_seeds": len(rows)})
    return replace(
        first,
        method=replace(first.method, seeds=sum(row.method.seeds for row in rows)),
        tasks=tasks,
        arrays=arrays,
        embeddings=[source for row in rows for source in row.embeddings],
    )
