"""One figure of several variants along a row of datasets: how much of something each of them survives."""

from collections.abc import Mapping, Sequence

from polyptrace.report.ablation import Line
from polyptrace.report.standing import Measure, standings
from polyptrace.report.tables import Cell, Column, Row, Table, describe_counts, figure_cell, ranking_notes


def sweep_table(name: str, title: str, points: Mapping[str, Sequence[Line]], measure: Measure) -> Table:
    """Variants by datasets; best and second best are of each dataset, a variant without results has no figure."""
    names = list(dict.fromkeys(line.results.method.name for lines in points.values() for line in lines))
    cells: dict[str, list[Cell]] = {variant: [] for variant in names}
    notes: list[str] = []
    captions = []
    for point, lines in points.items():
        standing = standings([line.results for line in lines], [measure])[0]
        rows = {line.results.method.name: line.results for line in lines}
        found = {name: figure_cell(row, place, measure, standing) for place, (name, row) in enumerate(rows.items())}
        for variant in names:
            cells[variant].append(found.get(variant, Cell(remark="not measured")))
        notes += ranking_notes([cell.note for cell in found.values()], [standing], "the column")
        task = lines[0].results.tasks.get(measure.task) if lines else None
        if task is not None and task.status == "done":
            seeds = " to ".join(map(str, sorted({row.method.seeds for row in rows.values()})))
            of_seeds = "" if seeds == "1" else f", {seeds} training seeds"
            captions.append(f"{point}: {describe_counts(task.counts, task.unit, task.datasets)}{of_seeds}.")
    return Table(
        name,
        title,
        " ".join(captions),
        tuple(Column(f"{measure.over} {measure.name} {measure.direction}", point) for point in points),
        (("", tuple(Row(variant, tuple(cells[variant])) for variant in names)),),
        (*dict.fromkeys(notes), "Best and second best are of each column."),
    )
