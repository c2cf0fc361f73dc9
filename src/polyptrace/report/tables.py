"""Results tables, independent of their format: columns, row groups, values with intervals, ranking and footnotes.

The paper's Tables 1 (`method_table`) and 2 (`ablation_table`), paired differences, counting, and sweeps over datasets.
"""

import csv
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib.resources import files

from polyptrace.config import Config
from polyptrace.core.console import counted
from polyptrace.core.errors import UserError
from polyptrace.evaluate import Results
from polyptrace.evaluate.bootstrap import Paired, holm
from polyptrace.evaluate.results import compare
from polyptrace.report.page import MISSING, Cell, Column, Table, TableRow
from polyptrace.report.ranking import (
    CLUSTERINGS,
    COUNTING,
    GROUP_ORDER,
    MAIN,
    SIGNIFICANCE,
    Measure,
    Ranking,
    interval_text,
    is_done,
    measured,
    metric_of,
    metric_text,
    rank,
    value_text,
)

#: How operations are counted: column heading and explanation.
OPERATIONS = {
    "paper_macs": (
        "MACs",
        "multiply-accumulates of convolutions and linear layers plus 4 operations per normalised element, without the"
        " products inside attention, as in the paper's FLOPs column",
    ),
    "flops": ("FLOPs", "all matrix products including attention, with 2 operations per multiply-accumulate"),
}

#: The four parts of the method that the paper's Table 2 switches on and off.
SWITCHES = ("Exp. sampling", "Curriculum", "Frame", "Tracklet")

SAW_TEST = "*"
OTHER_TEST = "†"
#: What the column of labels says about `LABEL_USE`.
LABELS = {"": MISSING, "label-free": "none", "label-free given tracks": "tracks", "labels": "polyps"}
LABELS_NOTE = f"Labels: what training used of polyp labels (tracks: only to link boxes; {MISSING}: not stated)."

PAPER_GROUP = "As printed in the paper, on its four public datasets; not measured here"


def method_table(
    name: str,
    title: str,
    rows: Sequence[Results],
    measures: Sequence[Measure],
    *,
    focus: int = -1,
    costs: bool = True,
    paper: bool = False,
) -> Table:
    """Methods by measures, as in the paper's Table 1; with `paper`, the paper's own rows are quoted below."""
    cells, rankings = ranked_cells(rows, measures)
    conventions: list[str] = []
    columns: list[Column] = []
    if costs:
        counted_by = [convention for row in rows for convention in (row.method.flops or {})]
        conventions = list(dict.fromkeys([*(["paper_macs"] if paper else []), *counted_by]))
        columns = [Column("", "Labels", cost=True), Column("", "Params", "M", cost=True)]
        columns += [Column("", OPERATIONS[c][0] if c in OPERATIONS else c, "G", cost=True) for c in conventions]
        cells = [[*_cost_cells(row, conventions), *each] for row, each in zip(rows, cells, strict=True)]
    groups = _grouped(rows, cells, focus)
    if paper:
        groups.append((PAPER_GROUP, tuple(_paper_rows(conventions, measures))))
    notes = [*ranking_notes(groups, rankings), *([LABELS_NOTE] if costs else []), *_cost_notes(conventions)]
    columns += value_columns(measures)
    return Table(name, title, table_caption(rows, measures), tuple(columns), tuple(groups), tuple(notes))


def difference_table(rows: Sequence[Results], measures: Sequence[Measure], focus: int) -> Table | None:
    """The method in focus minus each other method, paired on the same draws; None if nothing can be compared."""
    pairs = {
        (n, m): compare(rows[focus], rows[n], m.task, m.metric)
        for m in measures
        for n in range(len(rows))
        if n != focus and _comparable(rows[focus], rows[n], m)
    }
    if not pairs:
        return None
    adjusted: dict[tuple[int, Measure], float] = {}
    for measure in measures:
        column = [key for key in pairs if key[1] == measure]
        adjusted |= zip(column, holm([pairs[key].p for key in column]), strict=True)
    cells = [[_difference_cell(m, pairs.get((n, m)), adjusted.get((n, m))) for m in measures] for n in range(len(rows))]
    groups = _grouped(rows, cells, only={n for n, _ in pairs})
    name = rows[focus].method.name
    note = (
        f"Positive values: {name} is higher. Bold: p ≤ {SIGNIFICANCE}, Holm-adjusted within the column. Intervals: 95 %"
        " confidence interval of the difference, with both methods on the same bootstrap draws."
    )
    columns = tuple(Column(m.over, m.name) for m in measures)
    title = f"{name} minus each other method, in points"
    return Table("differences", title, "", columns, tuple(groups), (note,))


def counting_table(rows: Sequence[Results], focus: int) -> Table | None:
    """Methods in blocks by clustering algorithm; None if nothing was counted."""
    measures = measured(rows, COUNTING)
    if not measures:
        return None
    names = {measure.name for measure in measures}
    groups: list[tuple[str, tuple[TableRow, ...]]] = []
    rankings: list[Ranking] = []
    for task, title in CLUSTERINGS.items():
        block = [m for m in COUNTING if m.task == task and m.name in names]
        cells, ranked = ranked_cells(rows, block)
        rankings += ranked
        counted_rows = [n for n, row in enumerate(rows) if any(metric_of(row, m) is not None for m in block)]
        lines = tuple(TableRow(row_name(rows[n]), tuple(cells[n]), n == focus) for n in counted_rows)
        groups += [(title, lines)] if lines else []
    notes = ranking_notes(groups, rankings)
    if has_labels(rows):
        notes.append(
            "Count error: absolute difference between found and true polyps, mean over procedures. Fragments per"
            " polyp: clusters divided by true polyps (ideal: 1), comparable only at equal false positives. False"
            " positives: per cent of pairs of different polyps in one cluster. Pairs found: per cent of pairs of the"
            " same polyp in one cluster. Pair F1: harmonic mean of their precision and recall. The lesions are counted"
            " without labels; the settings of the other clusterings are tuned on labels."
        )
    found = [
        metric_of(row, m) for row in rows for m in COUNTING if m.task == "counting.affinity" and m.metric == "recall"
    ]
    if any(metric is not None and metric.value == 0 for metric in found):
        notes.append(
            "Affinity propagation leaves every track alone where none of its published settings is close to 5 % false"
            " positives."
        )
    first = next(iter(CLUSTERINGS))  # all clusterings have the same columns
    heads = tuple(Column("", m.name, m.direction) for m in COUNTING if m.task == first and m.name in names)
    caption = f"{counts_text(rows, measures[0])}."
    return Table("table_counting", "Counting polyps", caption, heads, tuple(groups), tuple(notes))


def ablation_table(blocks: Mapping[str, Sequence[tuple[Results, Config]]], measures: Sequence[Measure]) -> Table:
    """The paper's Table 2: rows with their settings, in blocks that are ranked separately."""
    groups: list[tuple[str, tuple[TableRow, ...]]] = []
    notes: list[str] = []
    for title, members in blocks.items():
        cells, rankings = ranked_cells([results for results, _ in members], measures)
        rows = [
            TableRow(row_name(results), (*(Cell("✓" if on else "✗") for on in switches(config)), *values))
            for (results, config), values in zip(members, cells, strict=True)
        ]
        groups.append((title, tuple(rows)))
        notes += ranking_notes(groups[-1:], rankings, "within the column of a block")
    columns = (*(Column("", switch) for switch in SWITCHES), *value_columns(measures))
    caption = table_caption([results for members in blocks.values() for results, _ in members], measures)
    notes = [*dict.fromkeys(notes), "Best and second best are marked in each block."]
    return Table("table2", "Table 2. Ablations", caption, columns, tuple(groups), tuple(notes))


def switches(config: Config) -> tuple[bool, bool, bool, bool]:
    """Whether exponential sampling, the curriculum, the frame loss and the tracklet loss are on."""
    sampled = config.supervision.sampling == "exponential"
    curriculum = sampled and config.supervision.curriculum == "cosine"
    return sampled, curriculum, config.loss.frame_weight > 0, config.loss.tracklet_weight > 0


def sweep_table(name: str, points: Mapping[str, Sequence[Results]], measure: Measure) -> Table:
    """Methods by datasets, for one measure. Each dataset is ranked separately."""
    cells: dict[str, dict[str, Cell]] = {row.method.name: {} for rows in points.values() for row in rows}
    notes: list[str] = []
    captions = []
    for point, rows in points.items():
        column, rankings = ranked_cells(rows, [measure])
        for row, (cell,) in zip(rows, column, strict=True):
            cells[row.method.name][point] = cell
        notes += ranking_notes([("", [TableRow("", tuple(each)) for each in column])], rankings)
        counts = counts_text(rows[:1], measure)
        if counts:
            seeds = " to ".join(map(str, sorted({row.method.seeds for row in rows})))
            of_seeds = "" if seeds == "1" else f", {seeds} training seeds"
            captions.append(f"{point}: {counts}{of_seeds}.")
    title = f"{measure.over} {measure.name}"
    columns = tuple(Column(f"{title} {measure.direction}", point) for point in points)
    missing = Cell(remark="not measured")
    lines = tuple(
        TableRow(each, tuple(values.get(point, missing) for point in points)) for each, values in cells.items()
    )
    notes = [*dict.fromkeys(notes), "Best and second best are marked in each column."]
    return Table(name, f"Sweep: {title}", " ".join(captions), columns, (("", lines),), tuple(notes))


def has_labels(rows: Sequence[Results]) -> bool:
    """Whether polyps are labelled in some procedure, so that a count can be checked."""
    return any(task.counts.get("labelled_videos", 0) > 0 for row in rows for task in row.tasks.values())


def card_results(results: Results, fingerprint: str) -> dict[str, str | float]:
    """The main measures with their 95 % intervals, for the model card of the encoder with this fingerprint."""
    for source in results.embeddings:
        made = str(source.get("info", {}).get("fingerprint", ""))
        if made != fingerprint:
            raise UserError(
                f"{source['path']}: vectors of another encoder (fingerprint {made[:12] or 'unknown'}, not"
                f" {fingerprint[:12]}) -> embed and evaluate with the encoder that is saved"
            )
    card: dict[str, str | float] = {}
    for measure in MAIN:
        task = results.tasks.get(measure.task)
        if task is not None and measure.metric in task.metrics:
            card[f"{measure.over} {measure.name}"] = metric_text(measure, task.metrics[measure.metric])
    return card | {"Measured on": table_caption([results], MAIN)}


def table_caption(rows: Sequence[Results], measures: Sequence[Measure]) -> str:
    """The number of tracklets, polyps and procedures behind each task."""
    tasks_of: dict[str, list[str]] = {}
    for measure in measures:
        if text := counts_text(rows, measure):
            tasks_of.setdefault(text, []).append(measure.over)
    return " ".join(f"{', '.join(dict.fromkeys(tasks))}: {counts}." for counts, tasks in tasks_of.items())


def counts_text(rows: Sequence[Results], measure: Measure) -> str:
    """The number of tracklets, polyps and procedures behind a measure, of the first row that has it; "" if none has."""
    for row in rows:
        if is_done(row, measure.task):
            task = row.tasks[measure.task]
            return describe_counts(task.counts, task.unit, task.datasets, generated=row.generated)
    return ""


def describe_counts(counts: dict[str, int], unit: str, datasets: Sequence[str], *, generated: bool) -> str:
    """736 tracks of 47 polyps in 19 generated procedures (synthetic)."""
    text = counted(counts.get("tracklets", 0), unit)
    if counts.get("polyps"):
        text += f" of {counted(counts['polyps'], 'polyp')}"
    if "videos" in counts:
        text += f" in {counted(counts['videos'], 'generated procedure' if generated else 'procedure')}"
    named = [name for name in datasets if name]
    return f"{text} ({', '.join(named)})" if named else text


def row_name(row: Results) -> str:
    """A method's name, with its number of training seeds if there are several."""
    seeds = row.method.seeds
    return row.method.name if seeds == 1 else f"{row.method.name} ({seeds} seeds)"


def value_columns(measures: Sequence[Measure]) -> list[Column]:
    """The headings of some measures."""
    return [Column(m.over, m.name, m.direction) for m in measures]


def ranked_cells(rows: Sequence[Results], measures: Sequence[Measure]) -> tuple[list[list[Cell]], list[Ranking]]:
    """The cells of each row, and the ranking of each measure."""
    rankings = [rank(rows, measure) for measure in measures]
    columns = list(zip(measures, rankings, strict=True))
    cells = [[value_cell(row, n, measure, ranking) for measure, ranking in columns] for n, row in enumerate(rows)]
    return cells, rankings


def value_cell(row: Results, number: int, measure: Measure, ranking: Ranking) -> Cell:
    """The value of row `number` with its interval, rank and footnote."""
    metric = metric_of(row, measure)
    if metric is None:
        task = row.tasks.get(measure.task)
        return Cell(remark=task.reason if task is not None and task.reason else "not measured")
    p = ranking.p.get(number)
    return Cell(
        value_text(measure, metric.value),
        interval_text(measure, metric.low, metric.high),
        ranking.mark(number),
        SAW_TEST if number in ranking.saw_test else OTHER_TEST if number in ranking.other_test else "",
        "" if p is None else f"against the best: p = {p:.3g}, Holm-adjusted",
    )


def _grouped(
    rows: Sequence[Results], cells: Sequence[Sequence[Cell]], focus: int = -1, only: Collection[int] | None = None
) -> list[tuple[str, tuple[TableRow, ...]]]:
    """The rows, or `only` some of them, with their cells, in the table's order of groups."""
    groups = []
    for group in GROUP_ORDER:
        members = [n for n, row in enumerate(rows) if row.method.group == group and (only is None or n in only)]
        if members:
            groups.append((group, tuple(TableRow(row_name(rows[n]), tuple(cells[n]), n == focus) for n in members)))
    return groups


def _cost_cells(row: Results, conventions: Sequence[str]) -> list[Cell]:
    method = row.method
    cells = [Cell(LABELS[method.labels])]
    cells.append(Cell() if method.params is None else Cell(_cost_text(method.params / 1e6)))
    flops = method.flops or {}
    return cells + [Cell(_cost_text(flops[c] / 1e9)) if c in flops else Cell() for c in conventions]


def _cost_text(value: float) -> str:
    """One decimal, none from 1,000 on, as in the paper."""
    return f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def _comparable(one: Results, other: Results, measure: Measure) -> bool:
    if metric_of(one, measure) is None or metric_of(other, measure) is None:
        return False
    return one.tasks[measure.task].draws_key == other.tasks[measure.task].draws_key


def _difference_cell(measure: Measure, pair: Paired | None, p: float | None) -> Cell:
    if pair is None or p is None:
        return Cell()
    sign = "+" if pair.difference > 0 else ""
    return Cell(
        sign + value_text(measure, pair.difference),
        interval_text(measure, pair.low, pair.high),
        "best" if p <= SIGNIFICANCE else "",
        remark=f"p = {p:.3g}, Holm-adjusted",
    )


def _paper_rows(conventions: Sequence[str], measures: Sequence[Measure]) -> list[TableRow]:
    """The paper's own Table 1, on REAL-Colon, SUN, PolypSize and PolypsSet."""
    rows = []
    with files("polyptrace.report").joinpath("paper_table1.csv").open(encoding="utf-8") as file:
        for line in csv.DictReader(file):
            cells = [Cell(), Cell(_cost_text(float(line["params_millions"])))]
            macs = Cell(_cost_text(float(line["macs_billions"])))
            cells += [macs if convention == "paper_macs" else Cell() for convention in conventions]
            for measure in measures:
                value = line.get(f"{measure.task}/{measure.metric}")
                note = SAW_TEST if measure.task == line["saw_test"] else ""
                cells.append(Cell(value, note=note) if value else Cell())
            rows.append(TableRow(line["method"], tuple(cells), quoted=True))
    return rows


def ranking_notes(
    groups: Sequence[tuple[str, Sequence[TableRow]]], rankings: Iterable[Ranking], family: str = "within the column"
) -> list[str]:
    """What bold, underline and the footnote signs of a table mean, as far as they occur."""
    signs = {cell.note for _, rows in groups for row in rows for cell in row.cells}
    if any(ranking.p for ranking in rankings):
        notes = [
            "Bold: best, and all methods that a paired bootstrap test cannot distinguish from it"
            f" (p > {SIGNIFICANCE}, Holm-adjusted {family}). Underlined: second best, if one method alone is best."
            " Intervals: 95 % confidence."
        ]
    else:
        notes = ["Intervals: 95 % confidence."]
    if SAW_TEST in signs:
        notes.append(f"{SAW_TEST} Pretrained on test data of this task; not ranked.")
    if OTHER_TEST in signs:
        notes.append(f"{OTHER_TEST} Evaluated on other tracklets or other bootstrap draws; not ranked.")
    return notes


def _cost_notes(conventions: Sequence[str]) -> list[str]:
    known = [OPERATIONS[c] for c in conventions if c in OPERATIONS]
    return [f"{name}, for one 8-frame tracklet at the input size used: {explanation}." for name, explanation in known]
