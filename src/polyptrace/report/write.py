"""Writes a report folder:

report.html                   the page, in one self-contained file
table1.md, .tex, .html, ...   each table in three formats
figures/*.svg, *.png          each figure in two formats
results.json                  all values and comparisons
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

from polyptrace.core.console import counted
from polyptrace.core.errors import warn
from polyptrace.core.files import atomic_folder, provenance, write_json
from polyptrace.data import Dataset
from polyptrace.drawing import line_styles
from polyptrace.evaluate.results import BASELINE, Metric, Results, without_nan
from polyptrace.film_strips import TrackImages
from polyptrace.report.curves import Run
from polyptrace.report.page import Block, Page, Section, Tile, write_page, write_table
from polyptrace.report.ranking import (
    ADDITIONAL,
    COUNTING,
    MAIN,
    Measure,
    focus_row,
    has_intervals,
    in_group_order,
    measured,
    rank,
)
from polyptrace.report.sections import SECTIONS, Content
from polyptrace.report.tables import OTHER_TEST

#: The file that marks a folder as a report.
PAGE_FILE = "report.html"

#: Below this number of queries, the page shows hits as a count too.
FEW_QUERIES = 200


def write_report(
    rows: Sequence[Results],
    out: Path,
    *,
    focus: str | None = None,
    datasets: Sequence[Dataset] = (),
    runs: Sequence[Run] = (),
    training_figures: Sequence[Block] = (),
    paper: bool = False,
    title: str | None = None,
    on_progress: Callable[[str], None] = lambda _: None,
    overwrite: bool = False,
) -> Path:
    """Writes the report folder of some rows (see `load_rows`) atomically; returns the path of the page.

    The page is about the method with the name `focus`. Datasets give images, runs and `training_figures` the section
    about training. With `paper`, the paper's Table 1 is quoted. `on_progress` is called with the name of each section.
    """
    rows = in_group_order(rows)
    number = focus_row(rows, focus)
    styles = line_styles([row.method.group == BASELINE for row in rows], number)
    images = TrackImages.of(datasets) if datasets else None
    content = Content(rows, number, styles, images, runs, training_figures, paper)
    with atomic_folder(out, overwrite=overwrite, mark=PAGE_FILE) as folder:
        _warn_about_other_tests(rows)
        sections: list[Section] = []
        for make in SECTIONS:
            on_progress(make.__name__.replace("_", " "))
            section = make(content)
            sections += [section] if section is not None else []
        write_page(folder / PAGE_FILE, _page(content, sections, title))
        (folder / "figures").mkdir()
        for section in sections:
            for table in section.tables:
                write_table(folder, table)
            for drawing in section.drawings:
                drawing.save(folder / "figures")
        write_json(folder / "results.json", without_nan(machine_readable(rows, number)))
    return out / PAGE_FILE


def _warn_about_other_tests(rows: Sequence[Results]) -> None:
    """Warns about rows that cannot be compared with the others; the table marks them as well."""
    other = sorted({number for measure in measured(rows, MAIN) for number in rank(rows, measure).other_test})
    if other:
        names = ", ".join(rows[number].method.name for number in other)
        warn(f"{names}: other tracklets or draws, so not ranked ({OTHER_TEST}) -> use the same data and settings")


def _page(content: Content, sections: Sequence[Section], title: str | None) -> Page:
    names = dict.fromkeys(
        name or "unnamed data" for row in content.rows for task in row.tasks.values() for name in task.datasets
    )
    others = len(content.rows) - 1
    compared = f", compared with {counted(others, 'other method')}" if others else ""
    subject = "How well it recognises a polyp that appears again" if measured(content.rows, MAIN) else "Counted polyps"
    known = has_intervals(content.rows, (*MAIN, *COUNTING))
    intervals = "Intervals: 95 % confidence." if known else "Without confidence intervals; see Evaluation protocol."
    return Page(
        title=title or f"{content.row.method.name} on {', '.join(names)}",
        lead=f"{subject}{compared}. {intervals}",
        sections=tuple(sections),
        generated=any(row.generated for row in content.rows),
        origin=f"on {date.today():%d %B %Y}",
        tiles=tuple(_tiles(content.row)),
    )


def _tiles(row: Results) -> list[Tile]:
    """The main results of the method in focus."""
    tiles = []
    for measure in MAIN:
        metric = measure.of(row)
        if metric is not None:
            interval = measure.interval_text(metric.low, metric.high)
            bounds = (100 * metric.low, 100 * metric.value, 100 * metric.high)
            shown = bounds if math.isfinite(sum(bounds)) else None
            text = measure.value_text(metric.value, 1)
            below = (interval or "no interval") + _hits(measure, metric, row.method.seeds)
            tiles.append(Tile(f"{measure.over} {measure.name}", text, below, shown))
    return tiles


def _hits(measure: Measure, metric: Metric, seeds: int) -> str:
    """The count behind a hit rate over few queries, whose decimals say little; "" for other metrics."""
    hits = round(metric.value * metric.n)
    if measure.metric not in ("hr1", "hr5") or seeds > 1 or abs(hits - metric.value * metric.n) >= 1e-6:
        return ""
    return f"; {hits} of {metric.n}" if metric.n < FEW_QUERIES else ""


def machine_readable(rows: Sequence[Results], focus: int) -> dict[str, Any]:
    """All metrics of all rows and, for each column of the tables, the best rows and the adjusted p values."""
    comparisons = []
    for table, measures in (("table1", MAIN), ("table_additional", ADDITIONAL), ("table_counting", COUNTING)):
        for measure in measured(rows, measures):
            ranking = rank(rows, measure)
            comparisons.append(
                {
                    "table": table,
                    "task": measure.task,
                    "metric": measure.metric,
                    "best": [rows[n].method.name for n in sorted(ranking.best)],
                    "second": None if ranking.second is None else rows[ranking.second].method.name,
                    "p_adjusted": {rows[n].method.name: p for n, p in ranking.p.items()},
                }
            )
    return {
        "format": "polyptrace-report",
        "version": 2,
        "focus": rows[focus].method.name,
        "rows": [
            {"method": asdict(row.method), "tasks": {name: asdict(task) for name, task in row.tasks.items()}}
            for row in rows
        ],
        "comparisons": comparisons,
        "provenance": provenance(),
    }
