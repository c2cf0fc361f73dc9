"""What a benchmark found: figures beside the plain way, the limit and the target; as text, Markdown and JSON.

Every module of a benchmark has one function `measure(quick: bool) -> Result`; `python -m benchmarks` does the rest.
"""

from dataclasses import asdict, dataclass
from typing import Any

Cells = tuple[str, ...]
HEADER: Cells = ("", "unit", "ours", "plain", "limit", "against plain", "of the limit", "target", "met")


@dataclass(frozen=True)
class Row:
    """One figure, measured in the same run as the plain way and the limit that it is compared with."""

    what: str
    unit: str  # "ms", "pictures/s", ...
    ours: float
    plain: float | None = None  # a careful researcher's script
    limit: float | None = None  # what nothing could beat: a copy of the bytes, the forward pass alone, ...
    more_is_better: bool = False  # rates; otherwise times and memory
    least_ratio: float | None = None  # targets: so many times as good as the plain way,
    least_share: float | None = None  # such a share of the limit,
    most: float | None = None  # or no more than this

    @property
    def ratio(self) -> float | None:
        """How many times as good as the plain way."""
        return None if self.plain is None else self._against(self.plain)

    @property
    def share(self) -> float | None:
        """The share of the limit that is reached."""
        return None if self.limit is None else self._against(self.limit)

    @property
    def target(self) -> str:
        """What was aimed for, in words; "" if nothing was."""
        wanted = [
            "" if self.least_ratio is None else f"≥ {self.least_ratio:g}×",
            "" if self.least_share is None else f"≥ {self.least_share:.0%} of the limit",
            "" if self.most is None else f"≤ {self.most:g} {self.unit}",
        ]
        return ", ".join(filter(None, wanted))

    @property
    def met(self) -> bool | None:
        """Whether every target is met; None where there is none."""
        judged = [
            None if self.least_ratio is None or self.ratio is None else self.ratio >= self.least_ratio,
            None if self.least_share is None or self.share is None else self.share >= self.least_share,
            None if self.most is None else self.ours <= self.most,
        ]
        known = [each for each in judged if each is not None]
        return all(known) if known else None

    def cells(self) -> Cells:
        """The row as the table's cells."""
        return (
            self.what,
            self.unit,
            *(number(value) for value in (self.ours, self.plain, self.limit)),
            "" if self.ratio is None else f"{number(self.ratio)}×",
            "" if self.share is None else f"{self.share:.0%}",
            self.target,
            {True: "yes", False: "**no**", None: ""}[self.met],
        )

    def _against(self, other: float) -> float:
        return self.ours / other if self.more_is_better else other / self.ours


@dataclass(frozen=True)
class Result:
    """What one benchmark found."""

    name: str  # the module's
    rows: tuple[Row, ...]
    note: str = ""  # sizes and conditions, one or two sentences
    details: tuple[Cells, ...] = ()  # a second table, as text; its first row is the header

    def tables(self) -> list[tuple[Cells, ...]]:
        """The table of figures, without columns that nothing stands in, and the second one."""
        whole = (HEADER, *(row.cells() for row in self.rows))
        used = [column for column in range(len(HEADER)) if column == 0 or any(row[column] for row in whole[1:])]
        figures = tuple(tuple(row[column] for column in used) for row in whole)
        return [table for table in (figures, self.details) if len(table) > 1]

    def markdown(self) -> str:
        """Both tables and the note."""
        return "\n\n".join([*map(_markdown, self.tables()), *filter(None, [self.note])])

    def text(self) -> str:
        """Both tables and the note, in columns for a terminal."""
        return "\n\n".join([*map(_columns, self.tables()), *filter(None, [self.note])])

    def to_json(self) -> dict[str, Any]:
        """Everything, with what follows from it, as JSON."""
        rows = [
            asdict(row) | {"ratio": row.ratio, "share": row.share, "target": row.target, "met": row.met}
            for row in self.rows
        ]
        return {"name": self.name, "rows": rows, "note": self.note, "details": self.details}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "Result":
        """What `to_json` wrote."""
        derived = ("ratio", "share", "target", "met")
        rows = [Row(**{key: value for key, value in row.items() if key not in derived}) for row in content["rows"]]
        details = tuple(tuple(row) for row in content["details"])
        return cls(content["name"], tuple(rows), content["note"], details)


def number(value: float | None) -> str:
    """Three figures, or all of them before the point."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")


def _markdown(table: tuple[Cells, ...]) -> str:
    header, *rows = table
    right = [_numeric([row[column] for row in rows]) for column in range(len(header))]
    lines = [header, tuple("---:" if each else "---" for each in right), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _columns(table: tuple[Cells, ...]) -> str:
    header, *rows = table
    width = [max(len(row[column]) for row in table) for column in range(len(header))]
    right = [_numeric([row[column] for row in rows]) for column in range(len(header))]
    lines = (
        "  ".join(cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(row, width, right, strict=True))
        for row in table
    )
    return "\n".join(line.rstrip() for line in lines)


def _numeric(cells: list[str]) -> bool:
    """Whether a column holds numbers, and stands to the right."""
    return all(cell == "" or cell[0].isdigit() or cell[0] in "-+" for cell in cells) and any(cells)
