"""Results tables, independent of their format: columns, row groups, values with intervals, ranking and footnotes.

The paper's Tables 1 (`method_table`) and 2 (`ablation_table`), paired differences, counting, and sweeps over datasets.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files

from polyptrace.config import Config
from polyptrace.core.console import counted
from polyptrace.core.errors import UserError
from polyptrace.evaluate import Results
from polyptrace.evaluate.bootstrap import Paired, holm
from polyptrace.evaluate.results import GROUPS, SELF_SUPERVISED, SUPERVISED, compare
from polyptrace.report.page import MISSING, Cell, Column, Table, TableRow, table_notes
from polyptrace.report.ranking import CLUSTERINGS, COUNTING, MAIN, SIGNIFICANCE, Measure, Ranking, measured, rank

#: Column headings of the known ways to count operations, which the notes explain.
OPERATIONS = {"paper_macs": "MACs", "flops": "FLOPs"}

#: The four parts of the method that the paper's Table 2 switches on and off.
SWITCHES = ("Exp. sampling", "Curriculum", "Frame", "Tracklet")

SAW_TEST = "*"
OTHER_TEST = "†"
#: What the column of labels says about `LABEL_USE`.
LABELS = {"": MISSING, "label-free": "none", "label-free given tracks": "tracks", "labels": "polyps"}

#: The title of a group, and its rows.
Group = tuple[str, tuple[TableRow, ...]]

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
        columns += [Column("", OPERATIONS.get(c, c), "G", cost=True) for c in conventions]
        cells = [[*_cost_cells(row, conventions), *each] for row, each in zip(rows, cells, strict=True)]
    groups = _grouped(rows, dict(enumerate(cells)), focus)
    if paper:
        groups.append((PAPER_GROUP, tuple(_paper_rows(conventions, measures))))
    notes = ranking_notes(groups, rankings) + single_seed_notes(rows)
    notes += table_notes("costs", conventions=conventions) if costs else ()
    columns += value_columns(measures)
    return Table(name, title, table_caption(rows, measures), tuple(columns), tuple(groups), notes)


def difference_table(rows: Sequence[Results], measures: Sequence[Measure], focus: int) -> Table | None:
    """The method in focus minus each other method, paired on the same draws; None if nothing can be compared."""
    cells: dict[int, dict[Measure, Cell]] = {}
    for measure in measures:
        others = [n for n, row in enumerate(rows) if n != focus and _comparable(rows[focus], row, measure)]
        pairs = [compare(rows[focus], rows[n], measure.task, measure.metric) for n in others]
        for n, pair, p in zip(others, pairs, holm([pair.p for pair in pairs]), strict=True):
            cells.setdefault(n, {})[measure] = _difference_cell(measure, pair, p)
    if not cells:
        return None
    groups = _grouped(rows, {n: [of_row.get(m, Cell()) for m in measures] for n, of_row in cells.items()})
    name = rows[focus].method.name
    columns = tuple(Column(m.over, m.name) for m in measures)
    title = f"{name} minus each other method, in points"
    intervals = any(cell.interval for row in cells.values() for cell in row.values())
    notes = table_notes("differences", name=name, intervals=intervals, significance=SIGNIFICANCE) + single_seed_notes(
        rows
    )
    return Table("differences", title, "", columns, tuple(groups), notes)


def counting_table(rows: Sequence[Results], focus: int) -> Table | None:
    """Methods in blocks by clustering algorithm; None if nothing was counted."""
    measures = measured(rows, COUNTING)
    if not measures:
        return None
    names = {measure.name for measure in measures}
    groups: list[Group] = []
    rankings: list[Ranking] = []
    for task, title in CLUSTERINGS.items():
        block = [m for m in COUNTING if m.task == task and m.name in names]
        cells, ranked = ranked_cells(rows, block)
        rankings += ranked
        counted_rows = [n for n, row in enumerate(rows) if any(m.of(row) is not None for m in block)]
        lines = tuple(TableRow(row_name(rows[n]), tuple(cells[n]), n == focus) for n in counted_rows)
        groups += [(title, lines)] if lines else []
    affinity = next(m for m in COUNTING if (m.task, m.metric) == ("counting.affinity", "recall"))
    alone = any((metric := affinity.of(row)) is not None and metric.value == 0 for row in rows)
    notes = ranking_notes(groups, rankings) + table_notes("counting", labelled=has_labels(rows), alone=alone)
    first = next(iter(CLUSTERINGS))  # all clusterings have the same columns
    heads = tuple(Column("", m.name, m.direction) for m in COUNTING if m.task == first and m.name in names)
    caption = f"{counts_text(rows, measures[0])}."
    return Table("table_counting", "Counting polyps", caption, heads, tuple(groups), notes)


def ablation_table(blocks: Mapping[str, Sequence[tuple[Results, Config]]], measures: Sequence[Measure]) -> Table:
    """The paper's Table 2: rows with their settings, in blocks that are ranked separately."""
    groups: list[Group] = []
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
    every = [results for members in blocks.values() for results, _ in members]
    caption = table_caption(every, measures)
    notes = [*dict.fromkeys(notes), *single_seed_notes(every), "Best and second best are marked in each block."]
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


def sweep_difference_table(
    points: Mapping[str, Sequence[Results]], measures: Sequence[Measure], focus: str
) -> Table | None:
    """The method named `focus` minus each other one at each point of a sweep; None if nothing can be compared."""
    tables: dict[str, Table] = {}
    for point, rows in points.items():
        names = [row.method.name for row in rows]
        if focus in names and (table := difference_table(rows, measures, names.index(focus))):
            tables[point] = table
    if not tables:
        return None
    first = next(iter(tables.values()))
    groups = tuple((point, tuple(row for _, rows in table.groups for row in rows)) for point, table in tables.items())
    notes = (*first.notes, "Each point of the sweep is adjusted separately.")
    return replace(first, name="sweep-differences", groups=groups, notes=notes)


def has_labels(rows: Sequence[Results]) -> bool:
    """Whether polyps are labelled in some procedure, so that a count can be checked."""
    return any(task.counts.get("labelled_videos", 0) > 0 for row in rows for task in row.tasks.values())


def card_results(results: Results, fingerprint: str) -> dict[str, str | float]:
    """The main measures with their 95 % intervals, for the model card of the encoder with this fingerprint."""
    for source in results.embeddings:
        made = str(source.get("info", {}).get("fingerprint", ""))
        if made != fingerprint:
            raise UserError(
                f"{source['path']}: vectors of another encoder -> embed and evaluate with the one that is saved"
            )
    card: dict[str, str | float] = {
        f"{m.over} {m.name}": m.metric_text(metric) for m in MAIN if (metric := m.of(results)) is not None
    }
    return card | {"Measured on": table_caption([results], MAIN)}


def table_caption(rows: Sequence[Results], measures: Sequence[Measure]) -> str:
    """The number of tracklets, polyps and procedures behind each task."""
    tasks_of: dict[str, list[str]] = {}
    for measure in measures:
        if text := counts_text(rows, measure):
            tasks_of.setdefault(text, []).append(measure.over)
    return " ".join(f"{', '.join(dict.fromkeys(tasks))}: {counts}." for counts, tasks in tasks_of.items())


def counts_text(rows: Sequence[Results], measure: Measure) -> str:
    """The data behind a measure, of the first row that has it: 736 tracks of 47 polyps in 19 procedures (SUN)."""
    row = next((row for row in rows if row.done(measure.task)), None)
    if row is None:
        return ""
    task = row.tasks[measure.task]
    text = counted(task.counts.get("tracklets", 0), task.unit)
    if task.counts.get("polyps"):
        text += f" of {counted(task.counts['polyps'], 'polyp')}"
    if "videos" in task.counts:
        text += f" in {counted(task.counts['videos'], 'generated procedure' if row.generated else 'procedure')}"
    names = ", ".join(filter(None, task.datasets))
    return f"{text} ({names})" if names else text


def row_name(row: Results) -> str:
    """A method's name, with its number of training seeds if there are several."""
    seeds = row.method.seeds
    return row.method.name if seeds == 1 else f"{row.method.name} ({seeds} seeds)"


def single_seed_notes(rows: Sequence[Results]) -> tuple[str, ...]:
    """Which trained rows have one training seed, where others have several: their variance between seeds is unknown."""
    if all(row.method.seeds == 1 for row in rows):
        return ()
    trained = [row.method for row in rows if row.method.group in (SUPERVISED, SELF_SUPERVISED)]
    names = dict.fromkeys(method.name for method in trained if method.seeds == 1)
    return table_notes("single_seed", names=list(names)) if names else ()


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
    metric = measure.of(row)
    if metric is None:
        task = row.tasks.get(measure.task)
        return Cell(remark=task.reason if task is not None and task.reason else "not measured")
    p = ranking.p.get(number)
    return Cell(
        measure.value_text(metric.value),
        measure.interval_text(metric.low, metric.high),
        ranking.mark(number),
        SAW_TEST if number in ranking.saw_test else OTHER_TEST if number in ranking.other_test else "",
        "" if p is None else f"against the best: p = {p:.3g}, Holm-adjusted",
    )


def _grouped(rows: Sequence[Results], cells: Mapping[int, Sequence[Cell]], focus: int = -1) -> list[Group]:
    """The rows that have cells, by their number, in the table's order of groups."""
    groups = []
    for group in GROUPS:
        members = [n for n, row in enumerate(rows) if row.method.group == group and n in cells]
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
    if measure.of(one) is None or measure.of(other) is None:
        return False
    return one.tasks[measure.task].draws_key == other.tasks[measure.task].draws_key


def _difference_cell(measure: Measure, pair: Paired, p: float) -> Cell:
    sign = "+" if pair.difference > 0 else ""
    return Cell(
        sign + measure.value_text(pair.difference),
        measure.interval_text(pair.low, pair.high),
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
) -> tuple[str, ...]:
    """What bold, underline and the footnote signs of a table mean, as far as they occur."""
    cells = [cell for _, rows in groups for row in rows for cell in row.cells]
    signs, intervals = {cell.note for cell in cells}, any(cell.interval for cell in cells)
    tested = any(ranking.p for ranking in rankings)
    return table_notes(
        "ranking", tested=tested, intervals=intervals, significance=SIGNIFICANCE, family=family, signs=signs
    )
