"""Rows of a table against each other: a paired test on the same draws, and several training seeds as one row."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from polyptrace.core.errors import UserError
from polyptrace.evaluate.bootstrap import Estimate, Paired, paired
from polyptrace.evaluate.results import Arrays, Metric, Results, Task


def compare(one: Results, other: Results, task: str, metric: str) -> Paired:
    """The difference `one` - `other` of a metric, on the same draws of the same tracklets."""
    names = f"{one.method.name!r} and {other.method.name!r}: {task}"
    for results in (one, other):
        if task not in results.tasks or results.tasks[task].status != "done":
            raise UserError(f"{names}: not done for {results.method.name!r} -> evaluate it")
        if metric not in results.tasks[task].metrics:
            raise UserError(f"{names}: no metric {metric!r} -> use {', '.join(results.tasks[task].metrics)}")
    if one.tasks[task].draws_key != other.tasks[task].draws_key:
        raise UserError(
            f"{names}: not the same tracklets, clusters, seed or number of draws -> evaluate both with the same"
            " data and settings"
        )
    return paired(one.estimate(task, metric), other.estimate(task, metric))


def combine(rows: Sequence[Results]) -> Results:
    """One row from several training seeds of one method: means, with the variance between seeds in the intervals.

    Arrays other than the draws (curves, neighbours, clusters) are those of the first seed.
    """
    if not rows:
        raise UserError("combine: no results -> give one folder per training seed")
    first = rows[0]
    names = {row.method.name for row in rows}
    if len(names) > 1:
        raise UserError(f"combine: results of {', '.join(sorted(names))} -> give seeds of one method")
    arrays: Arrays = dict(first.arrays)
    tasks: dict[str, Task] = {}
    for name, task in first.tasks.items():
        others = [row.tasks.get(name) for row in rows]
        alike = [
            other is not None and (other.status, other.draws_key) == (task.status, task.draws_key) for other in others
        ]
        if not all(alike):
            raise UserError(f"combine: {name}: evaluated differently for some seeds -> use the same data and settings")
        metrics = {}
        for metric, of_first in task.metrics.items():
            each = [row.estimate(name, metric) for row in rows]
            joined = Estimate(
                np.concatenate([estimate.values for estimate in each]),
                np.concatenate([estimate.draws for estimate in each]),
                task.drawn,
            )
            arrays[f"{name}/seeds/{metric}"], arrays[f"{name}/draws/{metric}"] = joined.values, joined.draws
            metrics[metric] = Metric(joined.value, *joined.interval(), of_first.n, of_first.of)
        seeds = sum(row.method.seeds for row in rows)
        tasks[name] = replace(task, metrics=metrics, protocol=task.protocol | {"training_seeds": seeds})
    return replace(
        first,
        method=replace(first.method, seeds=sum(row.method.seeds for row in rows)),
        tasks=tasks,
        arrays=arrays,
        embeddings=[source for row in rows for source in row.embeddings],
        generated=any(row.generated for row in rows),
    )
