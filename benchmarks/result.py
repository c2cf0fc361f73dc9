"""The result of a benchmark: measurements compared with a baseline, a limit and a target; as text, Markdown and JSON.

Each benchmark is a module with a function `measure(quick: bool) -> Result`; `python -m benchmarks` calls it.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

Cells = tuple[str, ...]
HEADER: Cells = ("", "unit", "ours", "plain", "limit", "ratio", "of the limit", "target", "met")
PAGE_HEADER: Cells = ("stage", "figure", "compared with", "target", "met", "benchmark", "measured")


@dataclass(frozen=True)
class Row:
    """One measurement; the plain implementation and the limit are measured in the same run."""

    what: str
    unit: str  # "ms", "pictures/s", ...; "" for a number without a unit
    ours: float
    plain: float | None = None  # a careful researcher's script
    limit: float | None = None  # an upper limit, such as a copy of the bytes or the forward pass alone
    more_is_better: bool = False  # for rates; False for times and memory
    least_ratio: float | None = None  # target: at least this many times as good as the plain implementation
    least_share: float | None = None  # target: at least this share of the limit
    most: float | None = None  # target: at most this value
    plain_name: str = "the plain implementation"
    limit_name: str = "the limit"

    @property
    def ratio(self) -> float | None:
        """How many times as good as the plain implementation."""
        return None if self.plain is None else self._against(self.plain)

    @property
    def share(self) -> float | None:
        """The share of the limit that is reached."""
        return None if self.limit is None else self._against(self.limit)

    @property
    def target(self) -> str:
        """The targets as text; "" without a target."""
        targets = [
            "" if self.least_ratio is None else f"≥ {self.least_ratio:g}×",
            "" if self.least_share is None else f"≥ {self.least_share:.0%} of the limit",
            "" if self.most is None else f"≤ {self.most:g} {self.unit}".rstrip(),
        ]
        return ", ".join(filter(None, targets))

    @property
    def met(self) -> bool | None:
        """Whether all targets are met; None without a target."""
        judged = [
            None if self.least_ratio is None or self.ratio is None else self.ratio >= self.least_ratio,
            None if self.least_share is None or self.share is None else self.share >= self.least_share,
            None if self.most is None else self.ours <= self.most,
        ]
        known = [each for each in judged if each is not None]
        return all(known) if known else None

    def cells(self) -> Cells:
        """The row of the table for a terminal."""
        return (
            self.what,
            self.unit,
            *(number_text(value) for value in (self.ours, self.plain, self.limit)),
            "" if self.ratio is None else f"{number_text(self.ratio)}×",
            "" if self.share is None else f"{self.share:.0%}",
            self.target,
            {True: "yes", False: "no", None: ""}[self.met],
        )

    def page_cells(self) -> Cells:
        """The row of the table on the page, without benchmark and date."""
        compared = [
            "" if self.ratio is None else f"{number_text(self.ratio)}× {self.plain_name}",
            "" if self.share is None else f"{self.share:.0%} of {self.limit_name}",
        ]
        figure = f"{number_text(self.ours)} {self.unit}".rstrip()
        met = {True: "yes", False: "**no**", None: ""}[self.met]
        return self.what, figure, "; ".join(filter(None, compared)), self.target, met

    def _against(self, other: float) -> float:
        return self.ours / other if self.more_is_better else other / self.ours


@dataclass(frozen=True)
class Result:
    """All measurements of one benchmark."""

    name: str  # of the module
    rows: tuple[Row, ...]
    note: str = ""  # sizes and conditions, one or two sentences
    details: tuple[Cells, ...] = ()  # a second table, as text; the first row is the header

    def text(self) -> str:
        """The table of measurements without empty columns, the details and the note, for a terminal."""
        table = (HEADER, *(row.cells() for row in self.rows))
        used = [column for column in range(len(HEADER)) if column == 0 or any(row[column] for row in table[1:])]
        rows = tuple(tuple(row[column] for column in used) for row in table)
        tables = [columns(each) for each in (rows, self.details) if len(each) > 1]
        return "\n\n".join([*tables, *filter(None, [self.note])])

    def to_json(self) -> dict[str, Any]:
        """The result and its derived values."""
        rows = [
            asdict(row) | {"ratio": row.ratio, "share": row.share, "target": row.target, "met": row.met}
            for row in self.rows
        ]
        return {"name": self.name, "rows": rows, "note": self.note, "details": self.details}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "Result":
        """The inverse of `to_json`."""
        derived = ("ratio", "share", "target", "met")
        rows = [Row(**{key: value for key, value in row.items() if key not in derived}) for row in content["rows"]]
        details = tuple(tuple(row) for row in content["details"])
        return cls(content["name"], tuple(rows), content["note"], details)


def number_text(value: float | None) -> str:
    """The value with three significant digits, or rounded to an integer from 100."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")


def markdown_table(table: Sequence[Cells]) -> str:
    """A Markdown table; the first row is the header."""
    header, *rows = table
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def columns(table: Sequence[Cells]) -> str:
    """A table in columns for a terminal, with numbers aligned to the right."""
    header, *rows = table
    width = [max(len(row[column]) for row in table) for column in range(len(header))]
    right = [_numeric([row[column] for row in rows]) for column in range(len(header))]
    lines = (
        "  ".join(cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(row, width, right, strict=True))
        for row in table
    )
    return "\n".join(line.rstrip() for line in lines)


def _numeric(cells: list[str]) -> bool:
    """Whether a column has only numbers."""
    return all(cell == "" or cell[0].isdigit() or cell[0] in "-+" for cell in cells) and any(cells)
