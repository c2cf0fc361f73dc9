"""XML from strangers: document types and entities are refused before the parser sees them.

Entity expansion (billion laughs) and external entities both need a `<!DOCTYPE`. Text is brought to UTF-8 first, so that
what is searched is what expat reads: no encoding can hide the declaration.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers.expat import ExpatError, ParserCreate, XMLParserType

from polyptrace.core.errors import UserError
from polyptrace.data.sources.text import decode

_DECLARED = re.compile(rb"""^(?:\xef\xbb\xbf)?\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")
_PLAIN = (b"utf-8", b"utf8", b"us-ascii", b"ascii")
_ONE_BYTE = (b"iso-8859-1", b"latin-1", b"latin1", b"windows-1252", b"cp1252", b"iso-8859-15")
_CHUNK = 2**16
_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")


def parse(content: bytes, path: Path | str) -> Element:
    """The root element of a document, or an error that names the file and the line."""
    checked = _checked(content, path)
    builder = TreeBuilder()
    parser = _parser(builder, path)
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    with _well_formed(path):
        parser.Parse(checked, True)
    return builder.close()


def elements(content: bytes, path: Path | str) -> Iterator[tuple[str, Element, int]]:
    """(event, element, its line) of each start and end in a document too large to hold as a tree.

    The caller clears the elements. The line is that of the start, in both events.
    """
    checked = _checked(content, path)
    builder = TreeBuilder()
    parser = _parser(builder, path)
    events: list[tuple[str, Element, int]] = []
    lines: list[int] = []  # of the elements that are open

    def start(tag: str, attributes: dict[str, str]) -> None:
        lines.append(parser.CurrentLineNumber)
        events.append(("start", builder.start(tag, attributes), lines[-1]))

    def end(tag: str) -> None:
        events.append(("end", builder.end(tag), lines.pop()))

    parser.StartElementHandler, parser.EndElementHandler = start, end
    for at in range(0, len(checked), _CHUNK):
        with _well_formed(path):
            parser.Parse(checked[at : at + _CHUNK], at + _CHUNK >= len(checked))
        yield from events
        events.clear()


def _parser(builder: TreeBuilder, path: Path | str) -> XMLParserType:
    """A parser that gives text to the builder and refuses document types."""
    parser = ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = lambda *_: _refuse(path, parser.CurrentLineNumber)
    parser.CharacterDataHandler = builder.data
    return parser


@contextmanager
def _well_formed(path: Path | str) -> Iterator[None]:
    try:
        yield
    except ExpatError as error:
        raise UserError(
            f"{path}:{error.lineno}: is not well-formed XML ({error}) -> was it written to the end?"
        ) from None


def _checked(content: bytes, path: Path | str) -> bytes:
    """The document as UTF-8 without a document type."""
    found = _DECLARED.match(content)
    encoding = found[1].lower() if found else b"utf-8"
    if encoding in _ONE_BYTE:
        content = _DECLARATION.sub("", content.decode(encoding.decode(), "replace")).encode()
    elif encoding not in _PLAIN or b"\0" in content or content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        content = _DECLARATION.sub("", decode(content, path)).encode()
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        at = min(place for place in (content.find(b"<!DOCTYPE"), content.find(b"<!ENTITY")) if place >= 0)
        _refuse(path, content.count(b"\n", 0, at) + 1)
    if not content.strip():
        raise UserError(f"{path}:1: is empty -> restore it, or take it out")
    return content


def _refuse(path: Path | str, line: int) -> NoReturn:
    raise UserError(f"{path}:{line}: declares a document type or an entity -> refused; annotations have neither")
