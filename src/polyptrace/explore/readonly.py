"""The page as one file to send to a colleague: it shows one procedure and cannot change anything."""

import base64
import hashlib
import json
from importlib import resources
from typing import Any

from polyptrace.explore.journal import Item
from polyptrace.explore.strips import ProcedureCrops

#: Files of the page and their types.
PAGE = {"page.css": "text/css", "timeline.js": "text/javascript", "page.js": "text/javascript"}
NOTE = "A read-only copy: one procedure, as it was when the file was written."


def page_file(name: str) -> str:
    """A file of the page."""
    return resources.files("polyptrace.explore").joinpath("page", name).read_text(encoding="utf-8")


def single_file(answers: dict[str, Any], items: list[Item], crops: ProcedureCrops) -> bytes:
    """The page with its style, its programs, its data and the film strips of all tracks."""
    strips = {}
    for item in items:
        picture = crops.strip(item, 8, 96)
        if picture is not None:
            strips["0/" + "/".join(map(str, item))] = "data:image/jpeg;base64," + base64.b64encode(picture).decode()
    data = {"answers": answers, "strips": strips, "note": NOTE}
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    style = page_file("page.css")
    program = page_file("timeline.js") + page_file("page.js").replace('"use strict";\n', "", 1)
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(program)}'; img-src data:"
    page = page_file("index.html")
    for old, new in (
        (
            '<meta charset="utf-8">',
            f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">',
        ),
        ('<link rel="stylesheet" href="page.css">', f"<style>{style}</style>"),
        (
            '<script src="timeline.js" defer></script>\n',
            f'<script type="application/json" id="embedded">{text}</script>\n',
        ),
        ('<script src="page.js" defer></script>', f"<script>{program}</script>"),
    ):
        assert page.count(old) == 1, f"the page has no place for {new[:30]}"
        page = page.replace(old, new)
    return page.encode()


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
