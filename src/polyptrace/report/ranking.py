"""Which methods are best in each column of a table, by paired bootstrap tests with Holm's adjustment per column.

The leader of a column is the method with the best value. Every other method is compared with it on the same bootstrap
draws. Methods whose adjusted p is above 0.05 share the first place; if the leader has it alone, the next method is
second. A method whose pretraining saw the test data, or that was evaluated on other tracklets, is not ranked.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from polyptrace.core.errors import UserError
from polyptrace.evaluate import Results
from polyptrace.evaluate.bootstrap import holm
from polyptrace.evaluate.results import GROUPS, SELF_SUPERVISED, Metric, combine, compare, load_each

#: Significance level.
SIGNIFICANCE = 0.05


@dataclass(frozen=True)
class Measure:
    """A column of a results table: task and metric, with their names as printed."""

    task: str
    metric: str
    over: str  # heading that spans the columns of a task
    name: str
    higher: bool = True  # whether higher is better
    percent: bool = True
    ranked: bool = True

    @property
    def direction(self) -> str:
        return "" if not self.ranked else "↑" if self.higher else "↓"

    def of(self, row: Results) -> Metric | None:
        """The value of a row with its interval; None if it was not measured or is undefined."""
        metric = row.tasks[self.task].metrics.get(self.metric) if row.done(self.task) else None
        return None if metric is None or math.isnan(metric.value) else metric

    def value_text(self, value: float, digits: int = 2) -> str:
        """A value as printed: fractions in per cent."""
        return f"{value * (100 if self.percent else 1):.{digits}f}".replace("-", "−")

    def interval_text(self, low: float, high: float) -> str:
        """An interval as printed, 58.2–68.9; "" if it is undefined."""
        if math.isnan(low) or math.isnan(high):
            return ""
        digits = 1 if self.percent else 2
        dash = "–" if min(low, high) >= 0 else " to "
        return f"{self.value_text(low, digits)}{dash}{self.value_text(high, digits)}"

    def metric_text(self, metric: Metric) -> str:
        """A value with its interval as printed, 63.4 [58.2–68.9]."""
        interval = self.interval_text(metric.low, metric.high)
        return self.value_text(metric.value, 1) + (f" [{interval}]" if interval else "")


#: The paper's Table 1.
MAIN = (
    Measure("retrieval", "map", "Retrieval", "mAP"),
    Measure("retrieval", "hr1", "Retrieval", "HR@1"),
    Measure("retrieval", "hr5", "Retrieval", "HR@5"),
    Measure("reid", "auroc", "ReID", "AUROC"),
    Measure("reid", "aupr", "ReID", "AUPR"),
    Measure("size", "f1", "Size", "F1-Score"),
    Measure("histology", "accuracy", "Histology", "Acc"),
)

#: Protocols that the paper does not have.
ADDITIONAL = (
    Measure("retrieval.within", "map", "Same procedure", "mAP"),
    Measure("retrieval.within", "hr1", "Same procedure", "HR@1"),
    Measure("retrieval.across", "map", "Other procedures", "mAP"),
    Measure("retrieval.across", "hr1", "Other procedures", "HR@1"),
    Measure("retrieval.between", "map", "Against other procedures", "mAP"),
    Measure("retrieval.between", "hr1", "Against other procedures", "HR@1"),
    Measure("retrieval.apart", "map", "Without neighbours", "mAP"),
    Measure("retrieval.apart", "hr1", "Without neighbours", "HR@1"),
    Measure("size.video", "f1", "Size, split by video", "F1-Score"),
    Measure("histology.video", "accuracy", "Histology, split by video", "Acc"),
)

#: Titles of the clusterings; the first of them that a row has is drawn.
CLUSTERINGS = {
    "counting.lesions": "Lesions, without labels",
    "counting.temporal": "Temporal affinity propagation",
    "counting.affinity": "Affinity propagation",
    "counting.threshold": "Cosine threshold",
}

#: Fragmentation is comparable only at equal false-positive rates, so it is not ranked.
COUNTING = tuple(
    measure
    for task, name in CLUSTERINGS.items()
    for measure in (
        Measure(task, "count_error", name, "Count error", higher=False, percent=False),
        Measure(task, "fragmentation", name, "Fragments per polyp", percent=False, ranked=False),
        Measure(task, "false_positive_rate", name, "False positives", ranked=False),
        Measure(task, "recall", name, "Pairs found", ranked=False),
        Measure(task, "pair_f1", name, "Pair F1"),
        Measure(task, "clusters", name, "Found per procedure", percent=False, ranked=False),
    )
)


@dataclass(frozen=True)
class Ranking:
    """The ranking of one column; rows are given by their index."""

    best: frozenset[int] = frozenset()
    second: int | None = None
    p: dict[int, float] = field(default_factory=dict)  # of the other rows against the leader, adjusted
    saw_test: frozenset[int] = frozenset()
    other_test: frozenset[int] = frozenset()

    def mark(self, row: int) -> Literal["", "best", "second"]:
        return "best" if row in self.best else "second" if row == self.second else ""


def load_rows(folders: Sequence[Path]) -> list[Results]:
    """One row per method, in the order of groups. Results with the same name and group are seeds of one method."""
    if not folders:
        raise UserError("report: no results -> give folders written by 'polyptrace evaluate'")
    seeds_of: dict[tuple[str, str], list[Results]] = {}
    for results in load_each(folders):
        seeds_of.setdefault((results.method.group, results.method.name), []).append(results)
    return in_group_order([combine(seeds) for seeds in seeds_of.values()])


def in_group_order(rows: Sequence[Results]) -> list[Results]:
    """The rows in the order of a table."""
    return sorted(rows, key=lambda row: GROUPS.index(row.method.group))


def focus_row(rows: Sequence[Results], name: str | None = None) -> int:
    """The row in focus: the named one; else the last self-supervised one; else the one with the highest mAP."""
    names = [row.method.name for row in rows]
    if name is not None:
        if name not in names:
            raise UserError(f"--show {name}: no such method -> one of {', '.join(names)}")
        return names.index(name)
    self_supervised = [number for number, row in enumerate(rows) if row.method.group == SELF_SUPERVISED]
    if self_supervised:
        return self_supervised[-1]
    values = {n: metric.value for n, row in enumerate(rows) if (metric := MAIN[0].of(row)) is not None}
    return max(values, key=values.__getitem__) if values else 0


def measured(rows: Sequence[Results], measures: Sequence[Measure]) -> list[Measure]:
    """The measures that at least one row has."""
    return [m for m in measures if any(m.of(row) is not None for row in rows)]


def has_intervals(rows: Sequence[Results], measures: Sequence[Measure]) -> bool:
    """Whether any of these values has a confidence interval; with one procedure, none has."""
    metrics = [metric for row in rows for measure in measures if (metric := measure.of(row)) is not None]
    return any(math.isfinite(metric.low + metric.high) for metric in metrics)


def rank(rows: Sequence[Results], measure: Measure) -> Ranking:
    """Ranks the rows in one column."""
    value = {n: metric.value for n, row in enumerate(rows) if (metric := measure.of(row)) is not None}
    base_task = measure.task.partition(".")[0]
    saw_test = frozenset(n for n in value if {base_task, measure.task} & set(rows[n].method.trained_on_test))
    keys = {n: rows[n].tasks[measure.task].draws_key for n in value}
    usual = Counter(keys[n] for n in value if n not in saw_test).most_common(1)
    other_test = frozenset(n for n in value if usual and keys[n] != usual[0][0]) - saw_test
    unranked = Ranking(saw_test=saw_test, other_test=other_test)
    competing = sorted(value.keys() - saw_test - other_test)
    competing.sort(key=value.__getitem__, reverse=measure.higher)
    if not measure.ranked or len({value[n] for n in competing}) < 2:  # where all are equal, none is best
        return unranked
    leader, *others = competing
    pairs = [compare(rows[leader], rows[n], measure.task, measure.metric) for n in others]
    if all(math.isnan(pair.low) for pair in pairs):  # no test is possible, for example with one procedure
        return unranked
    p = dict(zip(others, holm([pair.p for pair in pairs]), strict=True))
    best = {leader} | {n for n in others if p[n] > SIGNIFICANCE}
    second = others[0] if len(best) == 1 else None
    return Ranking(frozenset(best), second, p, saw_test, other_test)
