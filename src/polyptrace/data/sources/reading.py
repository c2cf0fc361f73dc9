"""Content of annotation files: text, tables of numbers, CSV and XML.

Whatever cannot be read is an error that names the file and the line.
"""

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers.expat import ExpatError, ParserCreate

import numpy as np

from polyptrace.core.arrays import Floats, Ints
from polyptrace.core.console import counted
from polyptrace.core.errors import UserError

_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_EXACT = 2**53  # largest float that is an exact integer
_XML_DEPTH = 32


class NoBoxError(UserError):
    """A source has no box."""


def read_bytes(path: Path) -> bytes:
    """The bytes of a file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path}: no such file -> check the path") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}) -> check the file and its permissions") from None


def read_text(path: Path) -> str:
    """The text of a file in UTF-8, or in UTF-16 with a byte order mark; without that mark, and with "\\n" line ends."""
    content = read_bytes(path)
    try:
        text = content.decode("utf-16") if content.startswith(_UTF16) else content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}:{line}: is not UTF-8 text ({error.reason}) -> give boxes as UTF-8 text") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise UserError(f"{path}:{line}: contains NUL characters -> save the file as UTF-8 text")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def number(cell: object, where: str) -> float:
    """A cell as a number."""
    try:
        if isinstance(cell, bool) or (isinstance(cell, str) and "_" in cell) or not isinstance(cell, str | int | float):
            raise ValueError
        return float(cell)
    except (ValueError, OverflowError):
        raise UserError(f"{where} is {repr(cell)[:60]}, not a number -> correct or remove it") from None


def integer(value: object, where: str) -> int:
    """A whole number, also one written as 3.0 or "3"."""
    whole = number(value, where)
    if not whole.is_integer() or abs(whole) >= _EXACT:
        raise UserError(f"{where} is {str(value)[:40]!r}, not a whole number -> correct it")
    return int(whole)


def frame_rate(value: object, where: str) -> float:
    """Frames per second; NaN if they are missing or 0, which mean unknown."""
    rate = np.nan if value is None else number(value, where)
    if rate < 0 or np.isinf(rate):
        raise UserError(f"{where} is {value}, not a frame rate -> correct it, or remove it if it is unknown")
    return rate or np.nan


def number_rows(
    text: str, path: Path | str, names: tuple[str, ...], needed: int, whole: tuple[str, ...] = ()
) -> tuple[Floats, Ints]:
    """A table of numbers without a header (n, len(names)), and the line of each row.

    Cells are separated by commas, semicolons or white space. Lines have at least the first `needed` columns; missing
    ones are NaN, further ones are ignored. Empty lines and lines that begin with # are skipped. Columns in `whole` have
    whole numbers.
    """
    columns = [(name, integer if name in whole else number) for name in names]
    rows, lines = [], []
    for line, content in enumerate(text.split("\n"), 1):
        if content.strip() and not content.lstrip().startswith("#"):
            cells = _cells(content, f"{path}:{line}")[: len(names)]
            if len(cells) < needed:
                raise UserError(f"{path}:{line}: has {len(cells)} of {needed} values -> a line is {','.join(names)}")
            parsed = zip(cells, columns, strict=False)
            values = [parse(cell, f"{path}:{line}: {name}") for cell, (name, parse) in parsed]
            rows.append(values + [np.nan] * (len(names) - len(values)))
            lines.append(line)
    return np.array(rows, np.float64).reshape(-1, len(names)), np.array(lines, np.int64)


def _cells(content: str, where: str) -> list[str]:
    """The cells of a line; a comma next to another separator is a decimal comma and refused."""
    cells = [cell.strip() for cell in content.split(";" if ";" in content else ",")]
    if "," in content and any("," in cell or len(cell.split()) > 1 for cell in cells):
        raise UserError(
            f"{where}: {content.strip()[:60]!r} mixes commas and other separators -> write 409.4, not 409,4"
        )
    if len(cells) == 1:
        return content.split()
    return cells if cells[-1] else cells[:-1]


def read_table(path: Path, needed: Iterable[str] = ()) -> list[tuple[dict[str, str], str]]:
    """Rows of a CSV file with a header (comma, semicolon or tab), each with its `file:line`."""
    text = read_text(path)
    header = text.partition("\n")[0]
    if not header.strip():
        raise UserError(f"{path}:1: has no header line -> is the file empty?")
    reader = csv.reader(io.StringIO(text), delimiter=max(",;\t", key=header.count), strict=True)
    rows = []
    try:
        names = [name.strip() for name in next(reader)]
        missing = [name for name in needed if name not in names]
        if missing:
            raise UserError(f"{path}:1: has no column {missing[0]!r} -> its columns are {', '.join(names)}")
        for cells in reader:
            where = f"{path}:{reader.line_num}"
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(names):
                raise UserError(f"{where}: has {counted(len(cells), 'cell')}, the header {len(names)} -> correct it")
            rows.append((dict(zip(names, (cell.strip() for cell in cells), strict=True)), where))
    except csv.Error as error:
        raise UserError(f"{path}:{reader.line_num}: not readable as CSV ({error}) -> correct the line") from None
    return rows


@dataclass(slots=True)
class XmlElement:
    """An element with its text, its children and the line on which it starts."""

    tag: str
    attributes: dict[str, str]
    line: int
    text: str = ""
    children: list["XmlElement"] = field(default_factory=list)

    def descendants(self) -> Iterator["XmlElement"]:
        """The element and everything below it."""
        yield self
        for child in self.children:
            yield from child.descendants()

    def child_texts(self) -> dict[str, str]:
        """Text of each child by its tag."""
        return {child.tag: child.text for child in self.children}

    def texts_below(self, tag: str) -> dict[str, str]:
        """Text of each child of the children with this tag, by its own tag."""
        return {leaf.tag: leaf.text for child in self.children if child.tag == tag for leaf in child.children}


def read_xml(content: bytes, path: Path | str, root: str, advice: str) -> XmlElement:
    """The root of a document, which has the name `root`.

    Document types are refused, and with them entities: no entity expansion (billion laughs), no external file. Expat
    decodes the document itself, so that no encoding can hide a declaration.
    """
    if not content.strip():
        raise UserError(f"{path}:1: is empty -> restore or remove the file")
    parser = ParserCreate()
    parser.buffer_text = True
    document = XmlElement("", {}, 0)
    opened = [document]

    def refuse(*_: object) -> None:
        line = parser.CurrentLineNumber
        raise UserError(f"{path}:{line}: declares a document type or an entity -> refused, annotations have neither")

    def start(tag: str, attributes: dict[str, str]) -> None:
        line = parser.CurrentLineNumber
        if opened[-1] is document and tag != root:
            raise UserError(f"{path}:{line}: root is <{tag[:40]}>, not <{root}> -> {advice}")
        if len(opened) > _XML_DEPTH:
            raise UserError(f"{path}:{line}: more than {_XML_DEPTH} nested elements -> {advice}")
        element = XmlElement(tag, attributes, line)
        opened[-1].children.append(element)
        opened.append(element)

    def add_text(text: str) -> None:
        opened[-1].text += text

    def end(_: str) -> None:
        element = opened.pop()
        element.text = element.text.strip()

    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = add_text
    try:
        parser.Parse(content, True)
    except (ExpatError, LookupError, ValueError) as error:  # the last two: an encoding that expat cannot decode
        line = parser.CurrentLineNumber
        raise UserError(f"{path}:{line}: is not well-formed XML ({error}) -> is the file complete?") from None
    return document.children[0]
