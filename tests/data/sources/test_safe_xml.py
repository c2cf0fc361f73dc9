"""XML from strangers: nothing that declares entities ever reaches the parser."""

import time
from pathlib import Path

import defusedxml.ElementTree
import pytest
from defusedxml.common import DefusedXmlException

from polyptrace.core.errors import UserError
from polyptrace.data.sources.safe_xml import elements, parse

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


def read_all(content: bytes) -> None:
    parse(content, "a.xml")


def read_events(content: bytes) -> None:
    for _, element, _ in elements(content, "a.xml"):
        element.clear()


@pytest.mark.parametrize("read", [read_all, read_events])
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("declared", [True, False])
def test_attacks_are_refused_in_every_encoding_and_at_once(attack: str, encoding: str, declared: bool, read) -> None:
    text = ATTACKS[attack]
    head = f'<?xml version="1.0" encoding="{encoding.removesuffix("-sig")}"?>' if declared else ""
    mixed = head.encode("ascii") + text.encode(encoding)  # declaration readable, the rest perhaps hidden
    began = time.process_time()
    for content in ((head + text).encode(encoding), mixed):
        with pytest.raises(UserError, match=r"a\.xml:\d+: "):
            read(content)
    assert time.process_time() - began < 2


@pytest.mark.parametrize("attack", ATTACKS)
def test_whatever_defusedxml_refuses_is_refused_here(attack: str) -> None:
    with pytest.raises(DefusedXmlException):
        defusedxml.ElementTree.fromstring(ATTACKS[attack], forbid_dtd=True)
    with pytest.raises(UserError, match="declares a document type or an entity"):
        parse(ATTACKS[attack].encode(), "a.xml")


def test_an_entity_that_nobody_declared_is_an_error_with_its_line() -> None:
    with pytest.raises(UserError, match=r"a\.xml:2: is not well-formed XML \(undefined entity"):
        parse(b"<annotation>\n&lol;</annotation>", "a.xml")


def test_the_five_entities_of_xml_itself_are_read() -> None:
    assert parse(b"<a>&lt;&gt;&amp;&quot;&apos;&#65;</a>", "a.xml").text == "<>&\"'A"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
def test_honest_encodings_are_read(encoding: str) -> None:
    name = {"utf-8-sig": "utf-8"}.get(encoding, encoding)
    content = f'<?xml version="1.0" encoding="{name}"?><a>Zäpfchen</a>'.encode(encoding)
    assert parse(content, "a.xml").text == "Zäpfchen"


@pytest.mark.parametrize(
    "content", [b"", b"  \n", b"<a>", b"<a></b>", b"text", b"\xff\xfe\xfd", b"<a>\x00</a>", b"\x00"]
)
def test_what_is_no_xml_is_a_clear_error(content: bytes) -> None:
    for read in (read_all, read_events):
        with pytest.raises(UserError, match=r"a\.xml:\d+: "):
            read(content)


def test_deep_nesting_neither_crashes_nor_hangs(tmp_path: Path) -> None:
    content = b"<a>" * 200_000 + b"</a>" * 200_000
    assert parse(content, tmp_path).tag == "a"


def test_elements_come_with_the_lines_on_which_they_start() -> None:
    rows = "".join(f"<!-- <b> -->\n<b\nn='{n}'>\n<c/></b>\n" for n in range(5000))  # more than is parsed at a time
    found = [(event, element.tag, line) for event, element, line in elements(f"<a>\n{rows}</a>".encode(), "a.xml")]
    expected = [("start", "a", 1)]
    for n in range(5000):
        at = 3 + 4 * n
        expected += [("start", "b", at), ("start", "c", at + 2), ("end", "c", at + 2), ("end", "b", at)]
    assert found == [*expected, ("end", "a", 1)]
