"""XML from strangers: document types and entities are refused before the parser sees them.

Entity expansion (billion laughs) and external entities both need a `<!DOCTYPE`. Text is brought to UTF-8 first, so that
what is searched is what expat reads: no encoding can hide the declaration.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn, cast
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLPullParser
from xml.parsers.expat import ExpatError, ParserCreate

from polyptrace.data.sources.text import decode
from polyptrace.errors import UserError

_DECLARED = re.compile(rb"""^(?:\xef\xbb\xbf)?\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")
_PLAIN = (b"utf-8", b"utf8", b"us-ascii", b"ascii")
_ONE_BYTE = (b"iso-8859-1", b"latin-1", b"latin1", b"windows-1252", b"cp1252", b"iso-8859-15")
_CHUNK = 2**16
_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")


def parse(content: bytes, path: Path | str) -> Element:
    """The root element of a document, or an error that names the file and the line."""
    checked = _checked(content, path)
    builder = TreeBuilder()
    parser = ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = lambda *_: _refuse(path, parser.CurrentLineNumber)
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(checked, True)
    except ExpatError as error:
        raise UserError(
            f"{path}:{error.lineno}: is not well-formed XML ({error}) -> was it written to the end?"
        ) from None
    return builder.close()


def elements(content: bytes, path: Path | str) -> Iterator[tuple[str, Element]]:
    """(event, element) of each start and end in a document too large to hold as a tree; the caller clears them."""
    checked = _checked(content, path)
    parser: XMLPullParser[Element] = XMLPullParser(("start", "end"))
    try:
        for at in range(0, len(checked), _CHUNK):
            parser.feed(checked[at : at + _CHUNK])
            yield from cast(Iterator[tuple[str, Element]], parser.read_events())
        parser.close()
    except ParseError as error:
        line = error.position[0]
        raise UserError(f"{path}:{line}: is not well-formed XML ({error}) -> was it written to the end?") from None


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
