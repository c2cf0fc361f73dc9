"""How much better one method is than each other: paired on the same draws, so far sharper than two intervals."""

from collections.abc import Sequence

from polyptrace.evaluate import Paired, Results, compare, holm
from polyptrace.report.standing import LEVEL, Measure, figure_of
from polyptrace.report.tables import ORDER, Cell, Column, Row, Table, number, row_name, span


def difference_table(rows: Sequence[Results], measures: Sequence[Measure], shown: int) -> Table | None:
    """The shown method minus each other, in points; None where there is nothing to compare."""
    pairs = {
        (n, m): compare(rows[shown], rows[n], m.task, m.figure)
        for n in range(len(rows))
        for m in measures
        if n != shown and _comparable(rows[shown], rows[n], m)
    }
    if not pairs:
        return None
    adjusted: dict[tuple[int, Measure], float] = {}
    for m in measures:
        column = [key for key in pairs if key[1] == m]
        adjusted |= zip(column, holm([pairs[key].p for key in column]), strict=True)
    others = [n for n in range(len(rows)) if any((n, m) in pairs for m in measures)]
    groups = []
    for group in ORDER:
        lines = tuple(
            Row(
                f"{row_name(rows[n])}",
                tuple(_cell(m, pairs.get((n, m)), adjusted.get((n, m), 1.0)) for m in measures),
            )
            for n in others
            if rows[n].method.group == group
        )
        groups += [(group, lines)] if lines else []
    name = rows[shown].method.name
    return Table(
        "differences",
        f"{name} minus each other method, in points",
        "",
        tuple(Column(m.over, m.name) for m in measures),
        tuple(groups),
        (
            f"Above 0: {name} is higher. Bold: p ≤ {LEVEL}, Holm-adjusted within each column. With each: the 95 %"
            " interval of the difference, both methods on the same draws.",
        ),
    )


def _comparable(one: Results, other: Results, measure: Measure) -> bool:
    if figure_of(one, measure) is None or figure_of(other, measure) is None:
        return False
    return one.tasks[measure.task].draws_key == other.tasks[measure.task].draws_key


def _cell(measure: Measure, pair: Paired | None, p: float) -> Cell:
    if pair is None:
        return Cell()
    sign = "+" if pair.difference > 0 else ""
    return Cell(
        sign + number(measure, pair.difference),
        span(measure, pair.low, pair.high),
        "best" if p <= LEVEL else "",
        remark=f"p = {p:.3g}, Holm-adjusted",
    )
