"""What a report page says, part by part; each part is left out, or says why it is empty, where its data are missing."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from polyptrace.core.console import counted
from polyptrace.evaluate import Results
from polyptrace.report.counting_table import counting_table, is_judged
from polyptrace.report.curves import base_rate, precision_recall, roc, similarities
from polyptrace.report.differences import difference_table
from polyptrace.report.film import Pictures
from polyptrace.report.gallery import gallery_figure, gallery_html, look_up, pick_queries, same_queries
from polyptrace.report.intervals import forest
from polyptrace.report.markup import html
from polyptrace.report.page import Section, folded, paragraph, plots
from polyptrace.report.plane import has_map, mapped_tracks, track_map
from polyptrace.report.standing import BESIDE, CLUSTERINGS, MAIN, Measure, Standing, measured, standings
from polyptrace.report.style import Pen
from polyptrace.report.tables import Quoted, Table, method_table
from polyptrace.report.timeline import procedures, shown_way, timeline

#: Methods whose maps and galleries are drawn beside the shown one, procedures on timelines, queries in a gallery.
MAPS, GALLERIES, TIMELINES, QUERIES = 6, 3, 6, 6


@dataclass(frozen=True)
class Subject:
    """What a page is about: its rows, the shown one, how each is drawn, and pictures if there are any."""

    rows: list[Results]
    shown: int
    pens: list[Pen]
    pictures: Pictures | None

    @property
    def row(self) -> Results:
        return self.rows[self.shown]

    def done(self, task: str) -> list[int]:
        """The rows in which a task was done."""
        return [n for n, row in enumerate(self.rows) if task in row.tasks and row.tasks[task].status == "done"]

    def around(self, numbers: Sequence[int], most: int) -> list[int]:
        """At most so many of the rows, the shown one among them if it is one, in their order."""
        first = [n for n in numbers if n == self.shown] + [n for n in reversed(numbers) if n != self.shown]
        return sorted(first[:most])


def main_results(subject: Subject, quoted: Sequence[Quoted]) -> Section:
    """Table 1, the same as dots with intervals, and differences to the shown method."""
    rows, shown = subject.rows, subject.shown
    columns = measured(rows, MAIN)
    if not columns:
        text = "None of the paper's tasks was measured. They need labels: without any, polyps can be counted, below."
        return Section("table1", "Results", paragraph(text))
    standing = standings(rows, columns)
    tables = [
        method_table("table1", "Table 1. Comparison of methods", rows, columns, standing, shown=shown, quoted=quoted)
    ]
    drawing = forest(rows, columns, standing, subject.pens)
    caption = (
        "Table 1 to look at: figures in per cent with 95 % intervals, each panel on its own scale. Full dots: best, or"
        " not told apart from it."
    )
    body = html(tables[0]) + plots([drawing], caption, wide=True)
    differences = difference_table(rows, columns, shown)
    if differences is not None:
        tables.append(differences)
        body += html(differences)
    return Section("results", "Results", body, tuple(tables), (drawing,))


def other_protocols(subject: Subject) -> Section | None:
    """Retrieval and probes beside the paper's protocol."""
    columns = measured(subject.rows, BESIDE)
    if not columns:
        return None
    table = _plain_table(subject, "table_beside", "Beside the paper's protocol", columns)
    text = (
        "The same vectors under harder or narrower questions. Own procedure: the gallery is the query's own procedure."
        " Other procedures: the gallery is all the others. Against other procedures: the query's polyp against the"
        " polyps of other procedures. Neighbours left out: tracks of the same procedure close in time to the query do"
        " not count. Split by video: no procedure stands on both sides of a probe's split."
    )
    return Section("beside", "Beside the paper's protocol", paragraph(text) + html(table), (table,))


def reidentification(subject: Subject) -> Section | None:
    """ROC, precision and recall, and similarities."""
    numbers = subject.done("reid")
    if not numbers:
        return None
    rows, pens = [subject.rows[n] for n in numbers], [subject.pens[n] for n in numbers]
    curves = [roc(rows, pens), precision_recall(rows, pens)]
    counts = rows[0].tasks["reid"].counts
    caption = (
        f"Every pair of {counted(counts['tracklets'], 'track')}: the same polyp in"
        f" {counted(counts['same_pairs'], 'pair')}, different ones in {counts['different_pairs']:,}. Dotted: 5 % false"
        f" matches, and the precision of chance, {100 * base_rate(rows[0]):.1f} %."
    )
    body = plots(curves, caption)
    key = '<p><span class="key right">same polyp</span><span class="key wrong">different polyps</span></p>'
    histograms = [similarities(subject.rows[n], n) for n in subject.around(numbers, MAPS)]
    caption = (
        "Similarities of pairs, same and different polyps, each with an area of one. The less they overlap, the better."
    )
    body += plots(histograms, caption, key=key)
    return Section("reid", "Re-identification", body, drawings=(*curves, *histograms))


def maps(subject: Subject) -> Section | None:
    """Maps of tracks."""
    numbers = [n for n, row in enumerate(subject.rows) if has_map(row)]
    if not numbers:
        return None
    drawn = [track_map(subject.rows[n], n) for n in subject.around(numbers, MAPS)]
    mapped = mapped_tracks(subject.rows[numbers[0]])
    caption = f"{mapped.counted}. Each mark is a track"
    if mapped.by_polyp:
        caption += ", each polyp has a colour and a shape, and threads run from its middle to its tracks"
        caption += "; grey: the polyp is not known" if (mapped.polyp == "").any() else ""
    elif mapped.groups:
        caption += "; no polyp is known, so that each procedure has a colour and a shape"
    caption += (
        ". PCA and t-SNE, seeded: neighbours are meant to stay neighbours; distances between groups, and their sizes,"
        " mean little."
    )
    if len(numbers) > len(drawn):
        caption += f" {len(drawn)} of {len(numbers)} methods."
    return Section("map", "Map of tracks", plots(drawn, caption), drawings=tuple(drawn))


def retrieval_gallery(subject: Subject) -> Section | None:
    """Queries and what was found, as film strips."""
    numbers = subject.done("retrieval")
    if subject.shown not in numbers:
        return None
    if subject.pictures is None:
        text = "Left out: film strips need the dataset. Give it with --data."
        return Section("gallery", "Retrieval gallery", paragraph(text))
    places = pick_queries(subject.row, subject.pictures, QUERIES)
    if not places:
        text = "Left out: none of the queries is in the datasets that were given with --data."
        return Section("gallery", "Retrieval gallery", paragraph(text))
    total, name = len(subject.row.arrays["retrieval/query"]), subject.row.method.name
    asked = [query.key for query in look_up(subject.row, places)]
    text = (
        f"Each line is a query and the five tracks that {name} finds nearest. {len(places)} of"
        f" {counted(total, 'query', 'queries')}, chosen at even steps of average precision, from the best to the"
        " worst: not a selection of successes."
    )
    key = '<p><span class="key right">✓ same polyp</span><span class="key wrong">✗ other polyp, dashed</span>'
    body = paragraph(text) + key + '<span class="remark">beside the sign: the cosine</span></p>'
    drawings = []
    for n in [subject.shown, *(n for n in subject.around(numbers, GALLERIES + 1) if n != subject.shown)]:
        row = subject.rows[n]
        queries = look_up(row, same_queries(row, asked))
        if not queries:
            continue
        part = gallery_html(queries, subject.pictures)
        body += part if n == subject.shown else folded(f"The same queries with {row.method.name}", part)
        if n == subject.shown:
            drawings.append(gallery_figure(queries, subject.pictures, "gallery", row.method.name))
    return Section("gallery", "Retrieval gallery", body, drawings=tuple(drawings))


def counting(subject: Subject) -> Section | None:
    """How many polyps were found, and where in the procedures."""
    table = counting_table(subject.rows, subject.shown)
    if table is None:
        return None
    text = "The tracks of a procedure are clustered, and each cluster is a polyp that was found."
    if is_judged(subject.rows):
        text += " The setting of each procedure was tuned on the others, to 5 % false positives, where labels allow it."
    else:
        text += (
            " No polyp has a label: the settings are defaults, and nothing here says whether the count is right."
            " tracks.csv in the results folder lists the polyp of each track."
        )
    body = paragraph(text) + html(table)
    way, drawings = shown_way(subject.row), []
    if way is not None:
        shown, total = procedures(subject.row, way, TIMELINES)
        drawings = [timeline(procedure, subject.pictures, number) for number, procedure in enumerate(shown)]
        truth = any(procedure.labelled for procedure in shown)
        which = "" if len(shown) == total else f" {len(shown)} of {total} procedures, those with the most polyps."
        body += f"<h3>Timelines: {escape(subject.row.method.name)}, {CLUSTERINGS[way].lower()}</h3>" + paragraph(
            "Each bar is a track. Its colour and number are those of the cluster it was put in"
            + (", above and below: a true polyp in one colour was counted once." if truth else ".")
            + which
        )
        for procedure, drawing in zip(shown, drawings, strict=True):
            body += plots([drawing], f"Procedure {procedure.video} ({procedure.dataset})", wide=True)
    return Section("counting", "Counting", body, (table,), tuple(drawings))


def _plain_table(subject: Subject, name: str, title: str, columns: Sequence[Measure]) -> Table:
    standing: list[Standing] = standings(subject.rows, columns)
    return method_table(name, title, subject.rows, columns, standing, shown=subject.shown, costs=False)
