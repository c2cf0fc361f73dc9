"""The sections of a report page. A section without data is left out, or says what is missing."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polyptrace.core.console import counted
from polyptrace.drawing import LineStyle
from polyptrace.evaluate import Results
from polyptrace.evaluate.results import Task
from polyptrace.film_strips import TrackImages
from polyptrace.report.curves import (
    Run,
    base_rate,
    interval_plot,
    precision_recall,
    roc,
    similarity_histogram,
    training_curves,
)
from polyptrace.report.gallery import gallery_figure, gallery_rows, pick_queries, query_keys
from polyptrace.report.page import Block, Details, Facts, Heading, Legend, Paragraph, Plots, Section, Strips
from polyptrace.report.ranking import ADDITIONAL, CLUSTERINGS, MAIN, is_done, measured, rank
from polyptrace.report.tables import counting_table, difference_table, has_labels, method_table
from polyptrace.report.timeline import counted_procedures, draw_timeline, shown_clustering
from polyptrace.report.track_map import has_map, mapped_tracks, track_map

#: Limits: methods with a map or a gallery, procedures with a timeline, queries in a gallery.
MAX_MAPS, MAX_GALLERIES, MAX_TIMELINES, MAX_QUERIES = 6, 4, 6, 6

SAME_OR_DIFFERENT = (("right", "same polyp"), ("wrong", "different polyps"))
COLOUR_GRID = "colour-grid"


@dataclass(frozen=True)
class Content:
    """What a page is made from: its rows, the one in focus, their line styles, and images if given."""

    rows: list[Results]
    focus: int
    styles: list[LineStyle]
    images: TrackImages | None

    @property
    def row(self) -> Results:
        return self.rows[self.focus]

    def with_task(self, task: str) -> list[int]:
        """The rows that have results of a task."""
        return [n for n, row in enumerate(self.rows) if is_done(row, task)]

    def selected(self, numbers: Sequence[int], count: int) -> list[int]:
        """At most `count` of the rows in their order, with the one in focus if it is among them."""
        first = [n for n in numbers if n == self.focus] + [n for n in reversed(numbers) if n != self.focus]
        return sorted(first[:count])

    @property
    def baseline(self) -> Results | None:
        """The colour grid, which needs no training; None if it is missing or in focus itself."""
        others = (row for n, row in enumerate(self.rows) if n != self.focus)
        return next((row for row in others if row.method.encoder == COLOUR_GRID), None)


def main_results(content: Content, *, paper: bool) -> Section:
    """Table 1, the same values as points with intervals, and paired differences to the method in focus."""
    rows, focus = content.rows, content.focus
    columns = measured(rows, MAIN)
    if not columns:
        text = "The paper's tasks need polyp labels, and there are none. Polyps can still be counted, see below."
        return Section("results", "Results", (Paragraph(text),))
    caption = "The values of Table 1 in per cent with 95 % intervals. Each panel has its own scale."
    if any(rank(rows, measure).best for measure in columns):
        caption += " Filled points: best, or not distinguishable from the best."
    blocks: list[Block] = [
        method_table("table1", "Table 1. Comparison of methods", rows, columns, focus=focus, paper=paper),
        Plots((interval_plot(rows, columns, content.styles),), caption, wide=True),
    ]
    differences = difference_table(rows, columns, focus)
    if differences is not None:
        blocks.append(differences)
    return Section("results", "Results", tuple(blocks))


def retrieval_gallery(content: Content) -> Section | None:
    """Queries and their nearest tracks as film strips."""
    numbers = content.with_task("retrieval")
    if content.focus not in numbers:
        return None
    title = "Retrieval gallery"
    if content.images is None:
        text = "Film strips need the dataset: polyptrace report RESULTS --data DATASET --out REPORT."
        return Section("gallery", title, (Paragraph(text),))
    indices = pick_queries(content.row, content.images, MAX_QUERIES)
    if not indices:
        text = "The datasets given with --data contain none of the queries."
        return Section("gallery", title, (Paragraph(text),))
    total, name = len(content.row.arrays["retrieval/query"]), content.row.method.name
    text = (
        f"Each line shows a query and the five nearest tracks according to {name}. These {len(indices)} of"
        f" {counted(total, 'query', 'queries')} were chosen at even steps of average precision, from the highest to"
        " the lowest. Each crop shows its detection box."
    )
    legend = Legend((("right", "✓ same polyp"), ("wrong", "✗ other polyp (dashed)"), ("plain", "number: cosine")))
    queries = gallery_rows(content.row, indices, content.images)
    blocks: list[Block] = [Paragraph(text), legend, Strips(queries, gallery_figure(queries, name))]
    all_keys = query_keys(content.row)
    keys = [all_keys[index] for index in indices]
    for number in content.selected(numbers, MAX_GALLERIES):
        row = content.rows[number]
        index_of = {key: index for index, key in enumerate(query_keys(row))}
        same = [index_of[key] for key in keys if key in index_of]
        if number != content.focus and same:
            strips = Strips(gallery_rows(row, same, content.images))
            blocks.append(Details(f"The same queries with {row.method.name}", (strips,)))
    return Section("gallery", title, tuple(blocks))


def reidentification(content: Content) -> Section | None:
    """ROC and precision-recall curves, and histograms of similarities."""
    numbers = content.with_task("reid")
    if not numbers:
        return None
    rows, styles = [content.rows[n] for n in numbers], [content.styles[n] for n in numbers]
    counts = rows[0].tasks["reid"].counts
    caption = (
        f"All pairs of {counted(counts['tracklets'], 'track')}: {counted(counts['same_pairs'], 'pair')} of the same"
        f" polyp, {counts['different_pairs']:,} of different polyps. Dotted lines: 5 % false positives, and the"
        f" precision of random matching ({100 * base_rate(rows[0]):.1f} %)."
    )
    curves = Plots((roc(rows, styles), precision_recall(rows, styles)), caption)
    histograms = tuple(similarity_histogram(content.rows[n], n) for n in content.selected(numbers, MAX_MAPS))
    caption = "Similarities of pairs, each histogram with an area of one. Less overlap is better."
    blocks = (curves, Plots(histograms, caption, legend=SAME_OR_DIFFERENT))
    return Section("reid", "Re-identification", blocks)


def maps(content: Content) -> Section | None:
    """Maps of tracks."""
    numbers = [n for n, row in enumerate(content.rows) if has_map(row)]
    if not numbers:
        return None
    drawings = tuple(track_map(content.rows[n], n) for n in content.selected(numbers, MAX_MAPS))
    mapped = mapped_tracks(content.rows[numbers[0]])
    caption = f"{mapped.summary}. Each marker is a track."
    if mapped.by_polyp:
        caption += " Each polyp has a colour and a marker, with lines from its median to its tracks."
        caption += " Grey: unknown polyp." if (mapped.polyp == "").any() else ""
    elif mapped.groups:
        caption += " Each procedure has a colour and a marker, because no polyp is labelled."
    caption += (
        " PCA and t-SNE with a fixed seed. Neighbourhoods are meaningful; distances between groups and the sizes of"
        " groups are not."
    )
    if len(numbers) > len(drawings):
        caption += f" {len(drawings)} of {len(numbers)} methods are shown."
    return Section("map", "Map of tracks", (Plots(drawings, caption),))


def counting(content: Content) -> Section | None:
    """The number of polyps found, and timelines of procedures."""
    table = counting_table(content.rows, content.focus)
    if table is None:
        return None
    text = "The tracks of a procedure are clustered; each cluster counts as one polyp."
    if has_labels(content.rows):
        text += (
            " The setting for each procedure is tuned on the other procedures to 5 % false positives; where no other"
            " procedure has two labelled polyps, the default is used."
        )
    else:
        text += (
            " No polyp is labelled: the settings are defaults, and nothing here shows whether the count is right. The"
            " file tracks.csv in the results folder lists the cluster of each track."
        )
        if content.baseline is not None:
            text += (
                " The colour grid, which only compares average colours, is shown for comparison. Agreement with it is"
                " no evidence that the encoder recognises more than colour."
            )
        elif content.row.method.encoder != COLOUR_GRID:
            text += (
                " For comparison, add the colour-grid baseline: give the dataset with --data, or evaluate the vectors"
                " of 'polyptrace embed colour-grid' and add the results."
            )
    return Section("counting", "Counting", (Paragraph(text), table, *_timelines(content)))


def _timelines(content: Content) -> list[Block]:
    task = shown_clustering(content.row)
    if task is None:
        return []
    shown, total = counted_procedures(content.row, task, MAX_TIMELINES, content.baseline)
    text = "Each bar is a track. Colour and number give its cluster"
    if any(procedure.labelled for procedure in shown):
        text += " in both panels, so a true polyp in one colour was counted once."
    elif any(procedure.baseline is not None for procedure in shown):
        text += " in both panels. A lane of the colour grid in one colour is a polyp on which both agree."
    else:
        text += "."
    if len(shown) < total:
        text += f" {len(shown)} of {total} procedures are shown, those with the most polyps."
    name = content.row.method.name
    blocks: list[Block] = [Heading(f"Timelines: {name}, {CLUSTERINGS[task].lower()}"), Paragraph(text)]
    baseline = "" if content.baseline is None else content.baseline.method.name
    for number, procedure in enumerate(shown):
        drawing = draw_timeline(procedure, content.images, number, name, baseline)
        where = f" ({procedure.dataset})" if procedure.dataset else ""
        blocks.append(Plots((drawing,), f"Procedure {procedure.video}{where}", wide=True))
    return blocks


def additional_protocols(content: Content) -> Section | None:
    """Retrieval and probes under protocols that the paper does not have."""
    columns = measured(content.rows, ADDITIONAL)
    if not columns:
        return None
    title = "Additional protocols"
    table = method_table("table_additional", title, content.rows, columns, focus=content.focus, costs=False)
    text = (
        "The same vectors under harder or narrower protocols. Same procedure: the gallery is the query's own procedure."
        " Other procedures: the gallery is all other procedures. Against other procedures: the tracks of the query's"
        " polyp against the polyps of other procedures. Without neighbours: tracks of the same procedure close in time"
        " to the query are ignored. Split by video: no procedure is in both parts of a probe's split."
    )
    return Section("additional", title, (Paragraph(text), table))


def training(runs: Sequence[Run], figures: Sequence[Block]) -> Section | None:
    """Training curves, and figures of the supervision if given."""
    if not runs:
        return None
    temperatures = [run.metrics["tau"] for run in runs if "tau" in run.metrics]
    if any(np.nanmax(each) > np.nanmin(each) for each in temperatures):
        curriculum = " The task becomes harder as τ grows, so the loss need not fall."
    else:
        curriculum = " τ is constant: this training had only the start of the curriculum." if temperatures else ""
    caption = (
        f"{', '.join(run.name for run in runs)}: every step (faint) and a running mean.{curriculum} Condition (from the"
        " paper): at least one member of the bag is nearer to its anchor than any member is to another anchor."
    )
    return Section("training", "Training", (Plots(tuple(training_curves(runs)), caption), *figures))


def protocol(rows: Sequence[Results]) -> Section:
    """How the results were measured, what is missing and why, and the origin of each row."""
    done = [task for row in rows for task in row.tasks.values() if task.status == "done"]
    clusters = dict.fromkeys(f"{task.protocol['cluster']}s" for task in done if "cluster" in task.protocol)
    draws = dict.fromkeys(f"{task.protocol['draws']:,}" for task in done if "draws" in task.protocol)
    text = (
        "Vectors are compared by cosine similarity. Retrieval: each track is a query for the other tracks of its polyp."
        " Re-identification: all pairs of tracks. Size and histology: a small probe on frozen vectors, with the polyps"
        " split into training and test sets."
    )
    if clusters:
        text += (
            f" Confidence intervals (95 %) and tests: bootstrap over {' or '.join(clusters)} with {' or '.join(draws)}"
            " draws; methods are compared on the same draws."
        )
    settings = [(name, _settings(task)) for name, task in rows[0].tasks.items() if task.status == "done"]
    blocks: list[Block] = [Paragraph(text), Facts(tuple(settings))]
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for name, task in row.tasks.items():
            if task.reason:
                reasons.setdefault((name, task.reason), []).append(row.method.name)
    if reasons:
        missing = tuple(
            (name, reason + ("" if len(names) == len(rows) else f" ({', '.join(names)})"))
            for (name, reason), names in reasons.items()
        )
        blocks.append(Facts(missing, "Not measured, or only in part"))
    origins = Facts(tuple((row.method.name, _origin(row)) for row in rows))
    blocks.append(Details("Origin of each row", (origins,)))
    return Section("protocol", "Evaluation protocol", tuple(blocks))


def _settings(task: Task) -> str:
    """The protocol of a task, "draws: 1000; cluster: video"."""
    values = {name: f"{value:g}" if isinstance(value, float) else value for name, value in task.protocol.items()}
    return "; ".join(f"{name.replace('_', ' ')}: {value}" for name, value in values.items() if value is not None)


def _origin(row: Results) -> str:
    sources = [f"{one.get('path', '')} (sha256 {str(one.get('sha256', ''))[:12]})" for one in row.embeddings]
    command = " ".join(map(str, row.provenance.get("command", [])))
    parts = [row.method.encoder and f"encoder {row.method.encoder}", *sources, command and f"command: {command}"]
    return "; ".join(part for part in parts if part) or "not recorded"
