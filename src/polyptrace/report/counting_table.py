"""Counting as a table: a block for each clustering, the same rows in each."""

from collections.abc import Sequence

from polyptrace.evaluate import Results
from polyptrace.report.standing import CLUSTERINGS, COUNTING, Standing, figure_of, measured, standings
from polyptrace.report.tables import Column, Row, Table, figure_cell, ranking_notes, row_name, table_caption


def is_judged(rows: Sequence[Results]) -> bool:
    """Whether some procedure has labels, so that a count can be right or wrong."""
    return any(task.counts.get("labelled_videos", 0) > 0 for row in rows for task in row.tasks.values())


def counting_table(rows: Sequence[Results], shown: int) -> Table | None:
    """Methods in blocks by clustering; None where nothing was counted."""
    measures = measured(rows, COUNTING)
    if not measures:
        return None
    names = [m.name for m in COUNTING if m.task == COUNTING[0].task and m.name in {n.name for n in measures}]
    standing = dict(zip(measures, standings(rows, measures), strict=True))
    groups = []
    for task, title in CLUSTERINGS.items():
        columns = [m for m in COUNTING if m.task == task and m.name in names]
        lines = tuple(
            Row(row_name(row), tuple(figure_cell(row, n, m, standing.get(m, Standing())) for m in columns), n == shown)
            for n, row in enumerate(rows)
            if any(figure_of(row, m) is not None for m in columns)
        )
        groups += [(title, lines)] if lines else []
    heads = tuple(
        Column("", m.name, m.direction) for m in COUNTING[: len(COUNTING) // len(CLUSTERINGS)] if m.name in names
    )
    signs = [cell.note for _, lines in groups for line in lines for cell in line.cells]
    judged = (
        "Count error: polyps found minus true ones, absolute, mean over procedures. Fragments per polyp: clusters over"
        " true polyps, 1 is ideal, and comparable only at equal false positives (per cent of pairs of different polyps"
        " that were put together). Pairs found: per cent of pairs of the same polyp that were put together.",
    )
    notes = (*ranking_notes(signs, list(standing.values())), *(judged if is_judged(rows) else ()))
    caption = table_caption(rows, measures[:1]).partition(": ")[2]
    return Table("table_counting", "Counting polyps", caption, heads, tuple(groups), notes)
