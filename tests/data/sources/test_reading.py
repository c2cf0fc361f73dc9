"""Tables of numbers, CSV and XML: errors name the line, and no XML can expand or load anything."""

import csv
import io
import time
from pathlib import Path

import defusedxml.ElementTree
import numpy as np
import pytest
from defusedxml.common import DefusedXmlException
from hypothesis import given, settings
from hypothesis import strategies as st

from polyptrace.core.errors import UserError
from polyptrace.data.sources.reading import (
    XmlElement,
    frame_rate,
    number_rows,
    read_bytes,
    read_table,
    read_text,
    read_xml,
)

NAMES = ("a", "b", "c")


def slow(content: str) -> list[list[float]]:
    rows = []
    for line in content.split("\n"):
        if line.strip():
            cells = [float(cell) for cell in line.split(",")][:3]
            rows.append(cells + [float("nan")] * (3 - len(cells)))
    return rows


@given(st.lists(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=5), min_size=1, max_size=40))
@settings(deadline=None)
def test_numbers_are_read_as_they_are_written(rows: list[list[float]]) -> None:
    content = "\n".join(",".join(map(repr, row)) for row in rows)
    actual, lines = number_rows(content, "x", NAMES, 2)
    np.testing.assert_array_equal(actual, slow(content))
    assert lines.tolist() == list(range(1, len(rows) + 1))


@given(st.integers(0, 29), st.sampled_from(["x", "", "1..2", "--1", "1_0", "0x10"]))
@settings(deadline=None)
def test_the_bad_line_is_named(index: int, bad: str) -> None:
    lines = ["1,2,3"] * 30
    lines[index] = f"1,{bad},3" if bad else "1"
    with pytest.raises(UserError, match=rf"^x:{index + 1}: "):
        number_rows("\n".join(lines), "x", NAMES, 2)


@pytest.mark.parametrize(
    "line",
    ["1;1;409,4;445,7;30,2;40,1;1", "1 1 409,4 445,7 30,2", "1\t1\t409,4\t445,7", "1, 1, 409,4 445,7", "1;2 3,5;4"],
)
@pytest.mark.parametrize("repeat", [1, 2000])
def test_decimal_commas_are_refused_with_their_line(line: str, repeat: int) -> None:
    separator = ";" if ";" in line else "\t" if "\t" in line else " "
    good = separator.join("1234567")
    with pytest.raises(UserError, match=rf"^x:{repeat + 1}: .*mixes commas .* 409\.4"):
        number_rows("\n".join([good] * repeat + [line] * repeat), "x", NAMES, 2)


@pytest.mark.parametrize("line", ["1,2,3", "1, 2, 3", "1 ,2 ,3", "1;2;3", "1; 2; 3;", "1 2  3", "1\t2\t3", " 1,2,3, "])
def test_one_separator_with_spaces_around_it_is_read(line: str) -> None:
    assert number_rows(line, "x", NAMES, 2)[0].tolist() == [[1, 2, 3]]


def test_an_empty_cell_is_not_skipped() -> None:
    with pytest.raises(UserError, match=r"^x:1: b is '', not a number"):
        number_rows("1,,3", "x", NAMES, 2)


@given(st.text(max_size=300))
@settings(deadline=None)
def test_any_text_is_a_table_or_our_error(content: str) -> None:
    try:
        rows, lines = number_rows(content, "x", NAMES, 2)
    except UserError:
        return
    assert rows.shape == (len(lines), 3)


@given(st.binary(max_size=300))
def test_any_bytes_are_text_or_our_error(tmp_path_factory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.txt"
    path.write_bytes(content)
    try:
        decoded = read_text(path)
    except UserError:
        return
    assert "\r" not in decoded
    assert "\0" not in decoded


@pytest.mark.parametrize("value", [1.5, float("nan"), float("inf"), 1e300])
def test_a_number_that_is_not_whole_names_its_line(value: float) -> None:
    with pytest.raises(UserError, match=r"x:9: b is .* not a whole number"):
        number_rows("1,2\n" * 8 + f"1,{value}", "x", NAMES, 2, whole=("b",))


def test_a_frame_rate_is_positive_and_unknown_if_missing_or_zero() -> None:
    assert frame_rate("29.97", "x: fps") == 29.97
    assert all(np.isnan(frame_rate(value, "x: fps")) for value in (None, 0, "0", "0.0", float("nan")))
    for value in (-25, "-1", "inf"):
        with pytest.raises(UserError, match=r"x: fps is .*, not a frame rate -> correct it"):
            frame_rate(value, "x: fps")


CELL = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp", "Zs")), max_size=8)


@given(st.lists(st.tuples(CELL, CELL, CELL), max_size=8), st.sampled_from([",", ";", "\t"]))
@settings(deadline=None)
def test_a_csv_file_is_read_as_written(tmp_path_factory, rows: list[tuple[str, str, str]], delimiter: str) -> None:
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    writer.writerows([("one", "two", "three"), *rows])
    path.write_bytes(b"\xef\xbb\xbf" + buffer.getvalue().encode())
    actual = read_table(path, ("one", "three"))
    kept = [row for row in rows if any(cell.strip() for cell in row)]
    assert [tuple(row.values()) for row, _ in actual] == [tuple(cell.strip() for cell in row) for row in kept]
    lines = [2 + k for k, row in enumerate(rows) if any(cell.strip() for cell in row)]
    assert [where for _, where in actual] == [f"{path}:{line}" for line in lines]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"t\.csv:1: has no header"),
        (b"a,b\n1\n", r"t\.csv:2: has 1 cell, the header 2"),
        (b'a,b\n1,"2\n', r"t\.csv:\d: not readable as CSV"),
        (b"a,b\n1,\xff\n", r"t\.csv:2: is not UTF-8"),
        (b"a,c\n1,2\n", r"t\.csv:1: has no column 'b' -> its columns are a, c"),
    ],
)
def test_a_bad_csv_file_names_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_table(tmp_path / "t.csv", ("a", "b"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="missing: no such file"):
        read_bytes(tmp_path / "missing")


LAUGHS = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 10))
ATTACKS = {
    "billion laughs": f'<!DOCTYPE a [<!ENTITY l0 "lol">{LAUGHS}]><annotation>&l9;</annotation>',
    "quadratic blow-up": f'<!DOCTYPE a [<!ENTITY b "{"b" * 50_000}">]><annotation>{"&b;" * 5000}</annotation>',
    "external entity": '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><annotation>&x;</annotation>',
    "external document type": '<!DOCTYPE a SYSTEM "http://localhost:9/x.dtd"><annotation/>',
    "parameter entity": '<!DOCTYPE a [<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;]><annotation/>',
    "entity after a remark": '<!-- a --><?pi?>\n<!DOCTYPE a [<!ENTITY x "y">]><annotation>&x;</annotation>',
}
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-7", "cp037", "latin-1", "cp1252")


def children(content: bytes, root: str = "annotation") -> list[XmlElement]:
    return read_xml(content, "a.xml", root, "give VOC").children


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("declared", [True, False])
def test_attacks_are_refused_in_every_encoding_and_at_once(attack: str, encoding: str, declared: bool) -> None:
    text = ATTACKS[attack]
    head = f'<?xml version="1.0" encoding="{encoding.removesuffix("-sig")}"?>' if declared else ""
    mixed = head.encode("ascii") + text.encode(encoding)  # declaration readable, the rest perhaps hidden
    began = time.process_time()
    for content in ((head + text).encode(encoding), mixed):
        with pytest.raises(UserError, match=r"a\.xml:\d+: "):
            children(content)
    assert time.process_time() - began < 2


@pytest.mark.parametrize("attack", ATTACKS)
def test_everything_that_defusedxml_refuses_is_refused(attack: str) -> None:
    with pytest.raises(DefusedXmlException):
        defusedxml.ElementTree.fromstring(ATTACKS[attack], forbid_dtd=True)
    with pytest.raises(UserError, match="declares a document type or an entity"):
        children(ATTACKS[attack].encode())


def test_an_entity_that_nobody_declared_is_an_error_with_its_line() -> None:
    with pytest.raises(UserError, match=r"a\.xml:2: is not well-formed XML \(undefined entity"):
        children(b"<annotation>\n&lol;</annotation>")


def test_the_five_entities_of_xml_itself_are_read() -> None:
    assert children(b"<a><b>&lt;&gt;&amp;&quot;&apos;&#65;</b></a>", "a")[0].text == "<>&\"'A"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
def test_common_encodings_are_read(encoding: str) -> None:
    name = {"utf-8-sig": "utf-8"}.get(encoding, encoding)
    content = f'<?xml version="1.0" encoding="{name}"?><a><b>Zäpfchen</b></a>'.encode(encoding)
    assert children(content, "a")[0].text == "Zäpfchen"


@pytest.mark.parametrize(
    "content", [b"", b"  \n", b"<a>", b"<a></b>", b"text", b"\xff\xfe\xfd", b"<a>\x00</a>", b"\x00"]
)
def test_invalid_xml_is_a_clear_error(content: bytes) -> None:
    with pytest.raises(UserError, match=r"a\.xml:\d+: "):
        children(content, "a")


def test_deep_nesting_is_refused_at_once() -> None:
    content = b"<a>" * 2_000_000 + b"</a>" * 2_000_000
    began = time.process_time()
    with pytest.raises(UserError, match=r"a\.xml:1: more than 32 nested elements -> give VOC"):
        children(content, "a")
    assert time.process_time() - began < 2


def test_a_long_text_in_many_pieces_is_read_in_linear_time() -> None:
    began = time.process_time()
    assert len(children(b"<a><b>" + b"x&amp;" * 1_000_000 + b"</b></a>", "a")[0].text) == 2_000_000
    assert time.process_time() - began < 5


def test_elements_come_with_their_texts_and_the_lines_on_which_they_start() -> None:
    rows = "".join(f"<!-- <b> -->\n<b\nn='{n}'>\n<c> {n} </c></b>\n" for n in range(5000))
    elements = children(f"<a>\n{rows}</a>".encode(), "a")
    assert [element.line for element in elements] == [3 + 4 * n for n in range(5000)]
    assert [element.attributes for element in elements] == [{"n": str(n)} for n in range(5000)]
    assert [element.child_texts() for element in elements] == [{"c": str(n)} for n in range(5000)]
    assert [child.line for element in elements for child in element.children] == [5 + 4 * n for n in range(5000)]
    assert [below.tag for below in elements[0].descendants()] == ["b", "c"]


def test_another_root_is_refused_with_its_line() -> None:
    with pytest.raises(UserError, match=r"a\.xml:2: root is <b>, not <annotation> -> give VOC"):
        children(b"<?xml version='1.0'?>\n<b/>")
