"""From results folders to the rows of a page: seeds of a method put together, and which row the page is about."""

from collections.abc import Sequence
from pathlib import Path

from polyptrace.core.errors import UserError
from polyptrace.evaluate import Results, combine
from polyptrace.report.standing import MAIN, figure_of
from polyptrace.report.tables import ORDER


def load_rows(folders: Sequence[Path]) -> list[Results]:
    """One row per method, in the table's order of groups; several results of one name are its training seeds."""
    if not folders:
        raise UserError("report: no results given -> give folders that 'polyptrace evaluate' wrote")
    by_name: dict[tuple[str, str], list[Results]] = {}
    for folder in folders:
        results = Results.load(folder)
        by_name.setdefault((results.method.group, results.method.name), []).append(results)
    rows = [seeds[0] if len(seeds) == 1 else combine(seeds) for seeds in by_name.values()]
    return sorted(rows, key=lambda row: ORDER.index(row.method.group))


def shown_row(rows: Sequence[Results], name: str | None = None) -> int:
    """The row that the page is about: the one that is named, else the last self-supervised, else the best in mAP."""
    names = [row.method.name for row in rows]
    if name is not None:
        if name not in names:
            raise UserError(f"--show {name}: no such method -> one of {', '.join(names)}")
        return names.index(name)
    own = [number for number, row in enumerate(rows) if row.method.group == "Self-supervised"]
    if own:
        return own[-1]
    found = {n: figure.value for n, row in enumerate(rows) if (figure := figure_of(row, MAIN[0])) is not None}
    return max(found, key=found.__getitem__) if found else 0
