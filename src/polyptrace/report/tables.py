"""A table before it is Markdown, LaTeX or HTML: columns, row groups, and cells that know how they stand."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from polyptrace.core.console import counted
from polyptrace.evaluate import GROUPS, Results
from polyptrace.report.standing import Measure, Standing, figure_of

#: The paper's row groups in its order; baselines, of which the paper has none, before them.
ORDER = ("Baseline", *(group for group in GROUPS if group != "Baseline"))

LABELS = {"label-free": "none", "label-free given tracks": "tracks", "labels": "polyps"}

#: What the counts of operations are called, with what they count.
OPERATIONS = {
    "paper_macs": (
        "MACs",
        "multiply-accumulates of convolutions and linear layers plus 4 operations per normalised element, without"
        " attention's own products, as the paper's FLOPs column counts",
    ),
    "flops": ("FLOPs", "every matrix product, attention included, a multiply-accumulate as 2"),
}

SAW_TEST = "*"
OTHER_TEST = "†"
MISSING = "–"

Mark = Literal["", "best", "second"]


@dataclass(frozen=True)
class Cell:
    """One number as it stands on the page, with its interval and how it compares."""

    text: str = MISSING
    interval: str = ""
    mark: Mark = ""
    note: str = ""  # the sign of a footnote
    remark: str = ""  # for who points at it


@dataclass(frozen=True)
class Column:
    """The head of a column: what it belongs to, its own name, and its unit or direction."""

    over: str
    name: str
    unit: str = ""


@dataclass(frozen=True)
class Row:
    """A method and its cells; the shown one is what the page is about, a quoted one was not measured here."""

    name: str
    cells: tuple[Cell, ...]
    shown: bool = False
    quoted: bool = False


@dataclass(frozen=True)
class Table:
    """Rows in groups, with a caption and the footnotes that its cells refer to."""

    name: str  # of its files
    title: str
    caption: str
    columns: tuple[Column, ...]
    groups: tuple[tuple[str, tuple[Row, ...]], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Quoted:
    """A row of somebody else's table: its numbers as printed."""

    group: str
    name: str
    params_millions: float
    macs_billions: float
    figures: dict[tuple[str, str], float]
    saw_test: tuple[str, ...] = ()


def method_table(
    name: str,
    title: str,
    rows: Sequence[Results],
    measures: Sequence[Measure],
    standings: Sequence[Standing],
    *,
    shown: int = -1,
    costs: bool = True,
    quoted: Sequence[Quoted] = (),
) -> Table:
    """Methods by measures: the paper's Table 1, and any other with the same rows."""
    counted = [convention for row in rows for convention in (row.method.flops or {})]
    conventions = list(dict.fromkeys([*(["paper_macs"] if quoted else []), *counted])) if costs else []
    columns = [Column("", "Labels")] if costs else []
    columns += [Column("", "Params", "M")] if costs else []
    columns += [Column("", OPERATIONS[c][0] if c in OPERATIONS else c, "G") for c in conventions]
    columns += [Column(m.over, m.name, m.direction) for m in measures]
    groups = []
    for group in ORDER:
        members = [number for number, row in enumerate(rows) if row.method.group == group]
        cells = [
            (_cost_cells(rows[n], conventions) if costs else [])
            + [figure_cell(rows[n], n, m, s) for m, s in zip(measures, standings, strict=True)]
            for n in members
        ]
        if members:
            lines = tuple(Row(row_name(rows[n]), tuple(c), n == shown) for n, c in zip(members, cells, strict=True))
            groups.append((group, lines))
    groups += _quoted_groups(quoted, conventions, measures) if costs else []
    texts = [c.note for _, lines in groups for line in lines for c in line.cells]
    notes = (*ranking_notes(texts, standings), *_cost_notes(conventions))
    caption = table_caption(rows, measures)
    return Table(name, title, caption, tuple(columns), tuple(groups), notes)


def number(measure: Measure, value: float, digits: int = 2) -> str:
    """A figure as it is printed: fractions in per cent, all with two decimals."""
    return f"{value * (100 if measure.percent else 1):.{digits}f}".replace("-", "−")


def span(measure: Measure, low: float, high: float) -> str:
    """An interval as it is printed, 58.2–68.9; empty where it is not defined."""
    if math.isnan(low) or math.isnan(high):
        return ""
    digits = 1 if measure.percent else 2
    dash = "–" if min(low, high) >= 0 else " to "
    return f"{number(measure, low, digits)}{dash}{number(measure, high, digits)}"


def table_caption(rows: Sequence[Results], measures: Sequence[Measure]) -> str:
    """What was measured on how many, task by task."""
    said: dict[str, list[str]] = {}
    for measure in measures:
        for row in rows:
            task = row.tasks.get(measure.task)
            if task is not None and task.status == "done":
                said.setdefault(describe_counts(task.counts, task.unit, task.datasets), []).append(measure.over)
                break
    return " ".join(f"{', '.join(dict.fromkeys(tasks))}: {counts}." for counts, tasks in said.items())


def describe_counts(counts: dict[str, int], unit: str, datasets: Sequence[str]) -> str:
    """736 tracks of 47 polyps in 19 generated procedures (synthetic)."""
    text = counted(counts.get("tracklets", 0), unit)
    if counts.get("polyps"):
        text += f" of {counted(counts['polyps'], 'polyp')}"
    if "videos" in counts:
        made_up = "generated " if datasets and len(generated(datasets)) == len(datasets) else ""
        text += f" in {counted(counts['videos'], f'{made_up}procedure')}"
    named = [name for name in datasets if name]
    return f"{text} ({', '.join(named)})" if named else text


def generated(datasets: Sequence[str]) -> list[str]:
    """The datasets whose procedures were rendered by `polyptrace synth`, by their names."""
    return [name for name in datasets if name.lower().startswith(("synth", "generated"))]


def row_name(row: Results) -> str:
    """A method's name, with its number of training seeds if there are several."""
    seeds = row.method.seeds
    return row.method.name if seeds == 1 else f"{row.method.name} ({seeds} seeds)"


def _cost_cells(row: Results, conventions: Sequence[str]) -> list[Cell]:
    method = row.method
    cells = [Cell(LABELS.get(method.labels, method.labels))]
    cells.append(Cell() if method.params is None else Cell(_short(method.params / 1e6)))
    counted = method.flops or {}
    return cells + [Cell(_short(counted[c] / 1e9)) if c in counted else Cell() for c in conventions]


def _short(value: float) -> str:
    """One decimal, none from 1,000 on, as in the paper."""
    return f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def figure_cell(row: Results, number_of_row: int, measure: Measure, standing: Standing) -> Cell:
    """A figure with its interval, its mark and its footnote."""
    figure = figure_of(row, measure)
    if figure is None:
        task = row.tasks.get(measure.task)
        return Cell(remark=task.reason if task is not None and task.reason else "not measured")
    saw, other = number_of_row in standing.saw_test, number_of_row in standing.other_test
    p = standing.p.get(number_of_row)
    return Cell(
        number(measure, figure.value),
        span(measure, figure.low, figure.high),
        standing.mark(number_of_row),
        SAW_TEST if saw else OTHER_TEST if other else "",
        "" if p is None else f"against the best: p = {p:.3g}, Holm-adjusted",
    )


def _quoted_groups(
    quoted: Sequence[Quoted], conventions: Sequence[str], measures: Sequence[Measure]
) -> list[tuple[str, tuple[Row, ...]]]:
    groups: dict[str, list[Row]] = {}
    for row in quoted:
        cells = [Cell(), Cell(_short(row.params_millions))]
        cells += [Cell(_short(row.macs_billions)) if c == "paper_macs" else Cell() for c in conventions]
        for measure in measures:
            value = row.figures.get((measure.task, measure.figure))
            note = SAW_TEST if measure.task in row.saw_test else ""
            cells.append(Cell() if value is None else Cell(f"{value:.2f}", note=note))
        groups.setdefault(row.group, []).append(Row(row.name, tuple(cells), quoted=True))
    return [(group, tuple(lines)) for group, lines in groups.items()]


def ranking_notes(signs: Sequence[str], standings: Sequence[Standing], family: str = "the column") -> list[str]:
    """What bold, underline and the signs of a table mean, as far as it has them; `family`: what is adjusted at once."""
    notes = []
    if any(len(s.p) for s in standings):
        notes.append(
            "Bold: best, shared where a paired bootstrap test sees no difference (p > 0.05, Holm-adjusted over"
            f" {family}). Underlined: second best. With each figure: its 95 % interval."
        )
    else:
        notes.append("With each figure: its 95 % interval.")
    if SAW_TEST in signs:
        notes.append(f"{SAW_TEST} Pretraining saw test data of this task: left out of best and second best.")
    if OTHER_TEST in signs:
        notes.append(f"{OTHER_TEST} Measured on other tracklets or other draws: left out of best and second best.")
    return notes


def _cost_notes(conventions: Sequence[str]) -> list[str]:
    known = [OPERATIONS[c] for c in conventions if c in OPERATIONS]
    return [f"{name}: {meaning}; of one 8-frame tracklet." for name, meaning in known]
