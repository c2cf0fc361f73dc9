"""Which figures of a table are best: paired tests on the same draws, Holm's adjustment within each column.

In each column the best method is the one with the best figure among those that compete. Each other competitor is
compared with it, draw by draw; where the adjusted p is above 0.05 it shares the first place. The second best is the
best of those that do not. A method whose pretraining saw the test data, or that was measured on other tracklets, does
not compete.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from polyptrace.evaluate import Metric, Results, compare, holm

LEVEL = 0.05


@dataclass(frozen=True)
class Measure:
    """A column of figures: the task and the figure, and how people read it."""

    task: str
    figure: str
    over: str
    name: str
    higher: bool = True
    percent: bool = True
    ranked: bool = True

    @property
    def direction(self) -> str:
        return "" if not self.ranked else "↑" if self.higher else "↓"


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

#: Beside the paper's protocol.
BESIDE = (
    Measure("retrieval.within", "map", "Own procedure", "mAP"),
    Measure("retrieval.within", "hr1", "Own procedure", "HR@1"),
    Measure("retrieval.across", "map", "Other procedures", "mAP"),
    Measure("retrieval.across", "hr1", "Other procedures", "HR@1"),
    Measure("retrieval.between", "map", "Against other procedures", "mAP"),
    Measure("retrieval.between", "hr1", "Against other procedures", "HR@1"),
    Measure("retrieval.apart", "map", "Neighbours left out", "mAP"),
    Measure("retrieval.apart", "hr1", "Neighbours left out", "HR@1"),
    Measure("size.video", "f1", "Size, split by video", "F1-Score"),
    Measure("histology.video", "accuracy", "Histology, split by video", "Acc"),
)

#: Counting: the clusterings, and what is measured of each. Fewer fragments are better only at the same rate of false
#: positives, so they are not ranked.
CLUSTERINGS = {
    "counting.threshold": "Threshold on the cosine",
    "counting.affinity": "Affinity propagation",
    "counting.temporal": "Temporal affinity propagation",
}
COUNTING = tuple(
    measure
    for task, name in CLUSTERINGS.items()
    for measure in (
        Measure(task, "count_error", name, "Count error", higher=False, percent=False),
        Measure(task, "fragmentation", name, "Fragments per polyp", percent=False, ranked=False),
        Measure(task, "false_positive_rate", name, "False positives", ranked=False),
        Measure(task, "recall", name, "Pairs found", ranked=False),
        Measure(task, "clusters", name, "Found per procedure", percent=False, ranked=False),
    )
)


@dataclass(frozen=True)
class Standing:
    """How the rows of a table stand in one column; rows are numbers."""

    best: frozenset[int] = frozenset()
    second: int | None = None
    p: dict[int, float] = field(default_factory=dict)  # of the others against the best, adjusted
    saw_test: frozenset[int] = frozenset()
    other_test: frozenset[int] = frozenset()

    def mark(self, row: int) -> Literal["", "best", "second"]:
        return "best" if row in self.best else "second" if row == self.second else ""


def figure_of(row: Results, measure: Measure) -> Metric | None:
    """The figure of a row, if its task was done and it is defined."""
    task = row.tasks.get(measure.task)
    if task is None or task.status != "done":
        return None
    figure = task.metrics.get(measure.figure)
    return None if figure is None or math.isnan(figure.value) else figure


def measured(rows: Sequence[Results], measures: Sequence[Measure]) -> list[Measure]:
    """The measures that at least one row has."""
    return [m for m in measures if any(figure_of(row, m) is not None for row in rows)]


def standings(rows: Sequence[Results], measures: Sequence[Measure]) -> list[Standing]:
    """How the rows stand in each column of one table; Holm's adjustment is over the comparisons of a column."""
    return [_standing(rows, measure, _field(rows, measure)) for measure in measures]


@dataclass(frozen=True)
class _Field:
    """Who competes in a column: the leader and the others; and who does not."""

    leader: int
    others: list[int]
    saw_test: frozenset[int]
    other_test: frozenset[int]


def _field(rows: Sequence[Results], measure: Measure) -> _Field:
    present = [n for n, row in enumerate(rows) if figure_of(row, measure) is not None]
    base = measure.task.partition(".")[0]
    saw = frozenset(n for n in present if {base, measure.task} & set(rows[n].method.trained_on_test))
    keys = {n: rows[n].tasks[measure.task].draws_key for n in present}
    usual = Counter(keys[n] for n in present if n not in saw).most_common(1)
    other = frozenset(n for n in present if usual and keys[n] != usual[0][0]) - saw
    competing = [n for n in present if n not in saw and n not in other]
    if not measure.ranked or len(competing) < 2:
        return _Field(-1, [], saw, other)
    competing.sort(key=lambda n: _order(rows[n], measure))
    return _Field(competing[0], competing[1:], saw, other)


def _order(row: Results, measure: Measure) -> float:
    figure = figure_of(row, measure)
    assert figure is not None, "only rows that have the figure compete"
    return -figure.value if measure.higher else figure.value


def _standing(rows: Sequence[Results], measure: Measure, field: _Field) -> Standing:
    if field.leader < 0:
        return Standing(saw_test=field.saw_test, other_test=field.other_test)
    leader = rows[field.leader]
    raw = [compare(leader, rows[row], measure.task, measure.figure).p for row in field.others]
    p = dict(zip(field.others, holm(raw), strict=True))
    best = {field.leader} | {row for row in field.others if p[row] > LEVEL}
    rest = [row for row in field.others if row not in best]  # in order of their figures
    return Standing(frozenset(best), rest[0] if rest else None, p, field.saw_test, field.other_test)
