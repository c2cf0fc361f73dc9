"""Tables of numbers: the fast way and the slow way read the same, and name the same line."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyptrace.core.errors import UserError
from polyptrace.data.sources import text
from polyptrace.data.sources.text import decode, number_rows, read_table, whole_numbers

NAMES = ("a", "b", "c")


def slow(content: str) -> list[list[float]]:
    rows = []
    for line in content.split("\n"):
        if line.strip():
            cells = [float(cell) for cell in line.split(",")][:3]
            rows.append(cells + [float("nan")] * (3 - len(cells)))
    return rows


@given(
    st.lists(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=5), min_size=1, max_size=40),
    st.booleans(),
    st.sampled_from([0, 4, 10**9]),
)
@settings(deadline=None)
def test_bulk_and_line_by_line_agree(rows: list[list[float]], regular: bool, small: int) -> None:
    rows = [row[:2] for row in rows] if regular else rows
    content = "\n".join(",".join(map(repr, row)) for row in rows)
    before = text._SMALL, text._BLOCK
    text._SMALL, text._BLOCK = small, 4
    try:
        found, lines = number_rows(content, "x", NAMES, 2)
    finally:
        text._SMALL, text._BLOCK = before
    np.testing.assert_array_equal(found, slow(content))
    assert lines.tolist() == list(range(1, len(rows) + 1))


@given(st.integers(0, 29), st.sampled_from(["x", "", "1..2", "--1", "1_0", "0x10"]), st.sampled_from([0, 10**9]))
@settings(deadline=None)
def test_the_bad_line_is_named_either_way(place: int, bad: str, small: int) -> None:
    lines = ["1,2,3"] * 30
    lines[place] = f"1,{bad},3" if bad else "1"
    before = text._SMALL, text._BLOCK
    text._SMALL, text._BLOCK = small, 7
    try:
        with pytest.raises(UserError, match=rf"^x:{place + 1}: "):
            number_rows("\n".join(lines), "x", NAMES, 2)
    finally:
        text._SMALL, text._BLOCK = before


@given(st.text(max_size=300))
@settings(deadline=None)
def test_any_text_is_a_table_or_our_error(content: str) -> None:
    try:
        rows, lines = number_rows(content, "x", NAMES, 2)
    except UserError:
        return
    assert rows.shape == (len(lines), 3)


@given(st.binary(max_size=300))
def test_any_bytes_are_text_or_our_error(content: bytes) -> None:
    try:
        decoded = decode(content, "x")
    except UserError:
        return
    assert "\r" not in decoded
    assert "\0" not in decoded


@pytest.mark.parametrize("value", [1.5, float("nan"), float("inf"), 1e300])
def test_a_number_that_is_not_whole_names_its_line(value: float) -> None:
    with pytest.raises(UserError, match=r"x:9: frame is .* not a whole number"):
        whole_numbers(np.array([1.0, value]), np.array([8, 9]), "x", "frame")


CELL = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp", "Zs")), max_size=8)


@given(st.lists(st.tuples(CELL, CELL, CELL), max_size=8), st.sampled_from([",", ";", "\t"]))
@settings(deadline=None)
def test_a_csv_file_comes_back(tmp_path_factory, rows: list[tuple[str, str, str]], delimiter: str) -> None:
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    writer.writerows([("one", "two", "three"), *rows])
    path.write_bytes(b"\xef\xbb\xbf" + buffer.getvalue().encode())
    found, lines = read_table(path)
    kept = [row for row in rows if any(cell.strip() for cell in row)]
    assert [tuple(row.values()) for row in found] == [tuple(cell.strip() for cell in row) for row in kept]
    assert lines == [2 + k for k, row in enumerate(rows) if any(cell.strip() for cell in row)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"t\.csv:1: has no header"),
        (b"a,b\n1\n", r"t\.csv:2: has 1 cell, the header 2"),
        (b'a,b\n1,"2\n', r"t\.csv:\d: not readable as CSV"),
        (b"a,b\n1,\xff\n", r"t\.csv:2: is not UTF-8"),
    ],
)
def test_a_bad_csv_file_names_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_table(tmp_path / "t.csv")
