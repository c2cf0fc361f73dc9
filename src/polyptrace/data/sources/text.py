"""Text files as they come: byte order marks, CRLF, wrong encodings, and tables of numbers with one bad line."""

import csv
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from polyptrace.core.console import counted
from polyptrace.core.errors import UserError
from polyptrace.data.boxes import Floats, Ints

_SMALL = 4096  # characters: less is read line by line at once
_BLOCK = 20_000  # lines
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def read_bytes(path: Path) -> bytes:
    """The bytes of a file, or an error that names it."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path}: no such file -> check the path") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None


def read_text(path: Path) -> str:
    """The text of a file without its byte order mark, lines ended by a bare newline."""
    return decode(read_bytes(path), path)


def decode(content: bytes, path: Path | str) -> str:
    """Bytes as text: UTF-8, or UTF-16 with a byte order mark; anything else is an error that names the line."""
    try:
        text = content.decode("utf-16") if content.startswith(_UTF16) else content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}:{line}: is not UTF-8 text ({error.reason}) -> save the file as UTF-8") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise UserError(f"{path}:{line}: holds NUL characters -> save the file as UTF-8 text")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def number_rows(text: str, path: Path | str, names: tuple[str, ...], needed: int) -> tuple[Floats, Ints]:
    """A table of numbers without a header, split by commas, semicolons or white space, and each row's line.

    The table is (n, len(names)), NaN where a line ends early; `names` are the columns, the first `needed` of which a
    line must have; more than `names` are ignored.
    """
    table = _bulk(text, len(names), needed) if len(text) > _SMALL else None
    if table is not None:
        return table, np.arange(1, len(table) + 1)
    rows = text.split("\n")
    tables, lines = [], []
    for first in range(0, len(rows), _BLOCK):  # only the blocks with something irregular are read line by line
        block = rows[first : first + _BLOCK]
        table = _bulk("\n".join(block), len(names), needed) if len(rows) > _BLOCK else None
        if table is None or len(table) != len(block):
            table, places = _line_by_line(block, first, path, names, needed)
        else:
            places = np.arange(first + 1, first + len(block) + 1)
        tables.append(table)
        lines.append(places)
    return np.concatenate(tables), np.concatenate(lines)


def _line_by_line(
    block: list[str], first: int, path: Path | str, names: tuple[str, ...], needed: int
) -> tuple[Floats, Ints]:
    rows, lines = [], []
    for line, content in enumerate(block, first + 1):
        if content.strip() and not content.lstrip().startswith("#"):
            rows.append(_numbers(content, f"{path}:{line}", names, needed))
            lines.append(line)
    return np.array(rows, np.float64).reshape(-1, len(names)), np.array(lines, np.int64)


def _bulk(text: str, columns: int, needed: int) -> Floats | None:
    """The table at once where every line is regular, else None."""
    first = text.partition("\n")[0]
    delimiter = next((mark for mark in ",;\t " if mark in first), ",")
    count = first.count(delimiter) + 1
    if not needed <= count or not text.strip():
        return None
    kept = [str(i) for i in range(min(count, columns))]
    try:
        table = pa.csv.read_csv(
            io.BytesIO(text.encode()),
            read_options=pa.csv.ReadOptions(column_names=[str(i) for i in range(count)], use_threads=False),
            parse_options=pa.csv.ParseOptions(delimiter=delimiter, quote_char=False, ignore_empty_lines=False),
            convert_options=pa.csv.ConvertOptions(
                column_types={name: pa.float64() for name in kept}, include_columns=kept, null_values=[]
            ),
        )
    except pa.ArrowInvalid:
        return None
    numbers = np.full((table.num_rows, columns), np.nan)
    for i, name in enumerate(kept):
        numbers[:, i] = table[name].to_numpy()
    return numbers


def _numbers(content: str, where: str, names: tuple[str, ...], needed: int) -> list[float]:
    cells = content.replace(",", " ").replace(";", " ").split()
    if len(cells) < needed:
        raise UserError(f"{where}: has {counted(len(cells), 'value')} of {needed} -> a line is {','.join(names)}")
    numbers = [number(cell, f"{where}: {name}") for cell, name in zip(cells, names, strict=False)]
    return numbers + [np.nan] * (len(names) - len(numbers))


def number(cell: object, where: str) -> float:
    """A cell as a number, or an error that says where it stands."""
    try:
        if isinstance(cell, bool) or (isinstance(cell, str) and "_" in cell) or not isinstance(cell, str | int | float):
            raise ValueError
        return float(cell)
    except (ValueError, OverflowError):
        raise UserError(f"{where} is {_shown(cell)}, not a number -> put the line right, or take it out") from None


def whole_numbers(values: Floats, lines: Ints, path: Path | str, name: str) -> Ints:
    """Numbers as integers, or an error that names the first line where one is not whole."""
    with np.errstate(invalid="ignore"):
        wrong = np.flatnonzero(~(np.isfinite(values) & (values == np.floor(values)) & (np.abs(values) < 2**53)))
    if len(wrong):
        row = wrong[0]
        raise UserError(f"{path}:{lines[row]}: {name} is {values[row]:g}, not a whole number -> put the line right")
    return values.astype(np.int64)


def read_table(path: Path) -> tuple[list[dict[str, str]], list[int]]:
    """The rows of a CSV file with a header (comma, semicolon or tab) and the line of each."""
    text = read_text(path)
    header = text.partition("\n")[0]
    if not header.strip():
        raise UserError(f"{path}:1: has no header line -> is the file empty?")
    delimiter = max(",;\t", key=header.count)
    reader = csv.reader(io.StringIO(text), delimiter=delimiter, strict=True)
    rows, lines = [], []
    try:
        names = [name.strip() for name in next(reader)]
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(names):
                raise UserError(
                    f"{path}:{reader.line_num}: has {counted(len(cells), 'cell')}, the header {len(names)}"
                    " -> put the line right"
                )
            rows.append(dict(zip(names, (cell.strip() for cell in cells), strict=True)))
            lines.append(reader.line_num)
    except csv.Error as error:
        raise UserError(f"{path}:{reader.line_num}: not readable as CSV ({error}) -> put the line right") from None
    return rows, lines


def _shown(cell: object) -> str:
    text = repr(cell)
    return text if len(text) <= 60 else text[:57] + "..."
