"""The report folder: the page, its tables and figures as files, and all rows for machines.

report.html                      everything in one page
table1.md, .tex, .html, ...      the tables, each three times
figures/*.svg, *.png             the drawings, each twice
results.json                     every figure of every row, and the comparisons
"""

import json
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import polyptrace
from polyptrace.core.console import counted
from polyptrace.core.files import atomic_folder, provenance, write_json
from polyptrace.data import Dataset
from polyptrace.evaluate import Results
from polyptrace.report.film import Pictures
from polyptrace.report.markup import html, latex, markdown
from polyptrace.report.method_sections import ablations, protocol, training
from polyptrace.report.page import Section, notice, page, tiles
from polyptrace.report.paper import PAPER
from polyptrace.report.rows import load_rows, shown_row
from polyptrace.report.sections import (
    Subject,
    counting,
    main_results,
    maps,
    other_protocols,
    reidentification,
    retrieval_gallery,
)
from polyptrace.report.standing import BESIDE, COUNTING, MAIN, figure_of, measured, standings
from polyptrace.report.style import pens
from polyptrace.report.tables import OTHER_TEST, Table, generated

#: the file by which a report folder is known
PAGE = "report.html"


@dataclass(frozen=True)
class Choices:
    """What a report shows beyond the results themselves."""

    data: tuple[Path, ...] = ()
    runs: tuple[Path, ...] = ()
    ablations: tuple[Path, ...] = ()
    show: str | None = None
    paper: bool = False
    title: str | None = None
    say: Callable[[str], None] = field(default=lambda _: None)


def write_report(
    results: Sequence[Path], out: Path, choices: Choices | None = None, *, overwrite: bool = False
) -> Path:
    """Writes the report folder, whole or not at all; gives the page's path."""
    choices = choices or Choices()
    rows = load_rows(results)
    shown = shown_row(rows, choices.show)
    data = [Dataset.open(path) for path in choices.data]
    pictures = Pictures.of(data) if data else None
    subject = Subject(rows, shown, pens([row.method.group for row in rows], shown), pictures)
    with atomic_folder(out, overwrite=overwrite, mark=PAGE) as folder:
        _warn_of_other_tests(rows)
        sections = _sections(subject, choices, data)
        (folder / PAGE).write_text(_page(subject, sections, choices.title), encoding="utf-8")
        (folder / "figures").mkdir()
        for section in sections:
            for table in section.tables:
                _write_table(folder, table)
            for drawing in section.drawings:
                (folder / "figures" / f"{drawing.name}.svg").write_text(drawing.svg, encoding="utf-8")
                (folder / "figures" / f"{drawing.name}.png").write_bytes(drawing.png)
        write_json(folder / "results.json", machine_rows(rows, shown))
    return out / PAGE


def _warn_of_other_tests(rows: Sequence[Results]) -> None:
    """Says which rows cannot be compared with the rest, beside the sign that they have in the table."""
    columns = measured(rows, MAIN)
    other = {number for standing in standings(rows, columns) for number in standing.other_test}
    if other:
        names = ", ".join(rows[number].method.name for number in sorted(other))
        warnings.warn(
            f"{names}: measured on other tracklets or draws than the others, so marked {OTHER_TEST} and not compared"
            " -> evaluate all rows on the same dataset, with the same settings",
            stacklevel=3,
        )


def _page(subject: Subject, sections: Sequence[Section], title: str | None) -> str:
    title = title or f"{subject.row.method.name} on {_data(subject.rows)}"
    made = (
        f"Made by polyptrace {polyptrace.__version__} on {date.today():%d %B %Y}. For research; not a medical device."
    )
    return page(title, _lead(subject), _opening(subject), sections, made)


def machine_rows(rows: Sequence[Results], shown: int) -> dict[str, Any]:
    """Every figure of every row and, in each column of the tables, who is best and with which p."""
    columns = measured(rows, (*MAIN, *BESIDE, *COUNTING))
    tables = {"table1": MAIN, "table_beside": BESIDE, "table_counting": COUNTING}
    comparisons = []
    for name, measures in tables.items():
        there = [m for m in columns if m in measures]
        for measure, standing in zip(there, standings(rows, there), strict=True):
            comparisons.append(
                {
                    "table": name,
                    "task": measure.task,
                    "figure": measure.figure,
                    "best": [rows[n].method.name for n in sorted(standing.best)],
                    "second": None if standing.second is None else rows[standing.second].method.name,
                    "p_adjusted": {rows[n].method.name: p for n, p in standing.p.items()},
                }
            )
    content = {
        "format": "polyptrace-report",
        "version": 1,
        "shown": rows[shown].method.name,
        "rows": [
            {"method": asdict(row.method), "tasks": {name: asdict(task) for name, task in row.tasks.items()}}
            for row in rows
        ],
        "comparisons": comparisons,
        "provenance": provenance(),
    }
    plain = json.loads(json.dumps(content), parse_constant=lambda _: None)  # NaN and infinity: not defined
    assert isinstance(plain, dict)
    return plain


def _sections(subject: Subject, choices: Choices, data: Sequence[Dataset]) -> list[Section]:
    """The parts of the page that there is something for."""
    ablated = load_rows(choices.ablations) if choices.ablations else []
    parts: list[tuple[str, Callable[[], Section | None]]] = [
        ("table 1", lambda: main_results(subject, PAPER if choices.paper else ())),
        ("gallery", lambda: retrieval_gallery(subject)),
        ("curves", lambda: reidentification(subject)),
        ("maps", lambda: maps(subject)),
        ("counting", lambda: counting(subject)),
        ("other protocols", lambda: other_protocols(subject)),
        ("ablations", lambda: ablations(ablated, choices.runs)),
        ("training", lambda: training(choices.runs, data)),
        ("protocol", lambda: protocol(subject.rows)),
    ]
    sections = []
    for name, make in parts:
        choices.say(name)
        section = make()
        sections += [section] if section is not None else []
    return sections


def _data(rows: Sequence[Results]) -> str:
    names = _datasets(rows)
    made_up = generated(names)
    return "generated procedures" if made_up and len(made_up) == len(names) else ", ".join(names)


def _lead(subject: Subject) -> str:
    others = len(subject.rows) - 1
    against = f", beside {counted(others, 'other method')}" if others else ""
    return f"How well it recognises a polyp that comes back{against}. All figures with 95 % intervals."


def _opening(subject: Subject) -> str:
    """The warning about generated data, and the shown method's main figures."""
    names = _datasets(subject.rows)
    made_up = generated(names)
    text = ""
    if made_up:
        text += notice(
            "Generated procedures.",
            f"The pictures of {', '.join(made_up)} were rendered by polyptrace, not taken in patients. What is measured"
            " on them shows that the code works and how methods differ there; it says nothing about clinical use.",
        )
    found = [(m, figure_of(subject.row, m)) for m in MAIN]
    figures = [
        (f"{m.over} {m.name}", 100 * f.value, 100 * f.low, 100 * f.high)
        for m, f in found
        if f is not None and math.isfinite(f.low)
    ]
    return text + tiles(figures)


def _datasets(rows: Sequence[Results]) -> list[str]:
    return list(
        dict.fromkeys(name or "unnamed data" for row in rows for t in row.tasks.values() for name in t.datasets)
    )


def _write_table(folder: Path, table: Table) -> None:
    for ending, form in (("md", markdown), ("tex", latex), ("html", html)):
        (folder / f"{table.name}.{ending}").write_text(form(table), encoding="utf-8")
