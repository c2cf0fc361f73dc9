"""The sections of a report page. A section without data is left out, or says what is missing.

Each has a template of its name in `templates/report`, with its texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polyptrace.drawing import LineStyle
from polyptrace.evaluate import Results
from polyptrace.film_strips import TrackImages
from polyptrace.report import curves
from polyptrace.report.gallery import gallery_rows, pick_queries, query_keys
from polyptrace.report.page import Block, Part, Section
from polyptrace.report.ranking import ADDITIONAL, CLUSTERINGS, MAIN, has_intervals, measured, rank
from polyptrace.report.tables import counting_table, difference_table, has_labels, method_table
from polyptrace.report.timeline import counted_procedures, draw_timeline, found_text, shown_clustering
from polyptrace.report.track_map import mapped_tracks, track_map

#: Limits: methods with a map or a gallery, procedures with a timeline, queries in a gallery.
MAX_MAPS, MAX_GALLERIES, MAX_TIMELINES, MAX_QUERIES = 6, 4, 6, 6

COLOUR_GRID = "colour-grid"


@dataclass(frozen=True)
class Content:
    """What a page is made from: its rows, the one in focus, their line styles, and what else was given."""

    rows: list[Results]
    focus: int
    styles: list[LineStyle]
    images: TrackImages | None = None
    runs: Sequence[curves.Run] = ()
    training_figures: Sequence[Block] = ()
    paper: bool = False  # quote its Table 1

    @property
    def row(self) -> Results:
        return self.rows[self.focus]

    def with_task(self, task: str) -> list[int]:
        """The rows that have results of a task."""
        return [n for n, row in enumerate(self.rows) if row.done(task)]

    def selected(self, numbers: Sequence[int], count: int) -> list[int]:
        """At most `count` of the rows in their order, with the one in focus if it is among them."""
        first = [n for n in numbers if n == self.focus] + [n for n in reversed(numbers) if n != self.focus]
        return sorted(first[:count])

    @property
    def baseline(self) -> Results | None:
        """The colour grid, which needs no training; None if it is missing or in focus itself."""
        others = (row for n, row in enumerate(self.rows) if n != self.focus)
        return next((row for row in others if row.method.encoder == COLOUR_GRID), None)


def _section(name: str, title: str, /, **values: Any) -> Section:
    """A section with a template of its own."""
    return Section(name, title, (Part(f"report/{name}.html.j2", values),))


def main_results(content: Content) -> Section:
    """Table 1, the same values as points with intervals, and paired differences to the method in focus."""
    rows, focus = content.rows, content.focus
    columns = measured(rows, MAIN)
    if not columns:
        return _section("results", "Results", table=None)
    return _section(
        "results",
        "Results",
        table=method_table("table1", "Table 1. Comparison of methods", rows, columns, focus=focus, paper=content.paper),
        intervals=curves.interval_plot(rows, columns, content.styles),
        has_intervals=has_intervals(rows, columns),
        ranked=any(rank(rows, measure).best for measure in columns),
        differences=difference_table(rows, columns, focus),
    )


def retrieval_gallery(content: Content) -> Section | None:
    """Queries and their nearest tracks as film strips."""
    title, row, images = "Retrieval gallery", content.row, content.images
    numbers = content.with_task("retrieval")
    if content.focus not in numbers:
        return None
    if images is None:
        return _section("gallery", title, queries=None)
    keys = query_keys(row)
    indices = pick_queries(row, images, MAX_QUERIES)
    queries = gallery_rows(row, indices, images)
    others = []
    for number in content.selected(numbers, MAX_GALLERIES):
        other = content.rows[number]
        index_of = {key: index for index, key in enumerate(query_keys(other))}
        same = [index_of[keys[index]] for index in indices if keys[index] in index_of]
        if number != content.focus and same:
            others.append((other.method.name, gallery_rows(other, same, images)))
    return _section("gallery", title, name=row.method.name, total=len(keys), queries=queries, others=others)


def reidentification(content: Content) -> Section | None:
    """ROC and precision-recall curves, and histograms of similarities."""
    numbers = content.with_task("reid")
    if not numbers:
        return None
    rows, styles = [content.rows[n] for n in numbers], [content.styles[n] for n in numbers]
    return _section(
        "reid",
        "Re-identification",
        counts=rows[0].tasks["reid"].counts,
        base_rate=curves.base_rate(rows[0]),
        curves=tuple(curves.pair_curves(rows, styles, measure) for measure in (curves.AUROC, curves.AUPR)),
        histograms=tuple(curves.similarity_histogram(content.rows[n], n) for n in content.selected(numbers, MAX_MAPS)),
    )


def maps(content: Content) -> Section | None:
    """Maps of tracks."""
    mapped = {n: tracks for n, row in enumerate(content.rows) if (tracks := mapped_tracks(row)) is not None}
    if not mapped:
        return None
    shown = content.selected(list(mapped), MAX_MAPS)
    drawings = tuple(track_map(mapped[n], content.rows[n].method.name, n) for n in shown)
    first = next(iter(mapped.values()))
    return _section("map", "Map of tracks", drawings=drawings, mapped=first, methods=len(mapped))


def counting(content: Content) -> Section | None:
    """The number of polyps found, and timelines of procedures."""
    table = counting_table(content.rows, content.focus)
    if table is None:
        return None
    name, task = content.row.method.name, shown_clustering(content.row)
    shown, total = counted_procedures(content.row, task, MAX_TIMELINES, content.baseline) if task else ([], 0)
    baseline = "" if content.baseline is None else content.baseline.method.name
    timelines = (
        draw_timeline(each, content.images, n, found_text(name, each.cluster), baseline) for n, each in enumerate(shown)
    )
    return _section(
        "counting",
        "Counting",
        table=table,
        labelled=has_labels(content.rows),
        colour_grid=content.row.method.encoder == COLOUR_GRID,
        baseline=baseline,
        name=name,
        clustering=CLUSTERINGS[task].lower() if task else "",
        procedures=shown,
        timelines=tuple(timelines),
        total=total,
    )


def additional_protocols(content: Content) -> Section | None:
    """Retrieval and probes under protocols that the paper does not have."""
    columns = measured(content.rows, ADDITIONAL)
    if not columns:
        return None
    title = "Additional protocols"
    table = method_table("table_additional", title, content.rows, columns, focus=content.focus, costs=False)
    return _section("additional", title, table=table)


def training(content: Content) -> Section | None:
    """Training curves, and figures of the supervision if given."""
    runs = content.runs
    if not runs:
        return None
    temperatures = [run.metrics["tau"] for run in runs if "tau" in run.metrics]
    curriculum = any(np.nanmax(each) > np.nanmin(each) for each in temperatures)
    drawings = tuple(curves.training_curves(runs))
    section = _section(
        "training", "Training", runs=runs, curves=drawings, temperatures=temperatures, curriculum=curriculum
    )
    return replace(section, blocks=(*section.blocks, *content.training_figures))


def protocol(content: Content) -> Section:
    """How the results were measured, what is missing and why, and the origin of each row."""
    rows = content.rows
    used = [task.protocol for row in rows for task in row.tasks.values() if "cluster" in task.protocol]
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for name, task in row.tasks.items():
            if task.reason:
                reasons.setdefault((name, task.reason), []).append(row.method.name)
    return _section(
        "protocol",
        "Evaluation protocol",
        rows=rows,
        clusters=dict.fromkeys(f"{each['cluster']}s" for each in used),
        draws=dict.fromkeys(f"{each['draws']:,}" for each in used),
        reasons=reasons,
    )


#: In the order of the page.
SECTIONS = (main_results, retrieval_gallery, reidentification, maps, counting, additional_protocols, training, protocol)
