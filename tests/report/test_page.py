"""The page itself: self-contained by its text, and opened in a real browser."""

import importlib.util
import re
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from polyptrace.report.page import Page, Section, Strip, StripRow, Strips, write_page

HERE = Path(__file__).parent


def _browser() -> ModuleType:
    spec = importlib.util.spec_from_file_location("browser", HERE / "browser.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


browser = _browser()
needs_chromium = pytest.mark.skipif(browser.CHROMIUM is None, reason="needs chromium, which is not installed here")

VOID = {"meta", "link", "img", "br", "hr"}


class Outline(HTMLParser):
    """Ids, links, images and the nesting of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        self.ids += [given["id"] or ""] if "id" in given else []
        self.links += [given["href"] or ""] if "href" in given else []
        self.sources += [given["src"] or ""] if "src" in given else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag


@pytest.fixture(scope="session")
def text(report: Path) -> str:
    """The page's text."""
    return (report / "report.html").read_text(encoding="utf-8")


def test_every_element_is_closed_and_every_id_is_there_once(text: str) -> None:
    outline = Outline(text)
    assert not outline.open
    assert len(outline.ids) == len(set(outline.ids))
    assert {link[1:] for link in outline.links if link.startswith("#")} <= set(outline.ids)


def test_nothing_comes_from_outside_and_nothing_runs(text: str) -> None:
    outline = Outline(text)
    assert all(source.startswith("data:image/") for source in outline.sources)
    assert all(link.startswith(("#", "data:")) for link in outline.links)
    assert "script" not in outline.tags
    assert not re.search(r"url\((?!#)|@import|https?://(?!www\.w3\.org)", text)
    assert "default-src 'none'" in text


def test_a_name_with_markup_is_text_and_nothing_else(text: str) -> None:
    assert "<script>" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_the_page_has_its_parts_in_order(text: str) -> None:
    titles = re.findall(r"<h2>(.*?)</h2>", text)
    assert titles == [
        "Results",
        "Retrieval gallery",
        "Re-identification",
        "Map of tracks",
        "Counting",
        "Additional protocols",
        "Training",
        "Evaluation protocol",
    ]


def test_the_first_table_shows_results_before_costs(text: str) -> None:
    table = text[text.index("<table") : text.index("</table>")]
    assert 0 < table.index("mAP") < table.index("Params")


@needs_chromium
def test_a_browser_opens_it_without_a_complaint(report: Path) -> None:
    printed = browser.browse(report / "report.html", "--dump-dom")
    assert "Retrieval gallery" in printed.stdout
    assert browser.console(printed) == []


@needs_chromium
def test_it_fits_a_laptop_and_a_telephone_and_all_its_pictures_load(report: Path, tmp_path: Path) -> None:
    seen = browser.look(report / "report.html", tmp_path, (1280, 390))
    for width, inside in seen.items():
        assert inside["client"] == pytest.approx(width, abs=20)
        assert inside["scroll"] <= inside["client"], f"{width}: scrolls sideways"
        assert len(inside["images"]) >= 36
        assert all(size > 0 for size in inside["images"])
        assert [name for name in inside["requests"] if not name.startswith("data:")] == []
        assert set(inside["wide"]) == {"auto"}
        assert "alert(1)" in inside["text"]
        assert inside["text"].count("Map of tracks") == 2, f"{width}: has no list of contents"


@needs_chromium
def test_it_prints_on_few_pages(report: Path, tmp_path: Path) -> None:
    pdf = tmp_path / "page.pdf"
    browser.browse(report / "report.html", f"--print-to-pdf={pdf}", "--no-pdf-header-footer")
    content = pdf.read_bytes()
    assert content.startswith(b"%PDF")
    assert 4 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 14


@needs_chromium
def test_folded_strips_are_hidden_on_the_screen_and_printed(tmp_path: Path) -> None:
    image = np.full((40, 30, 3), 90, np.uint8)
    row = StripRow("47 %", (Strip("match", image, "lesion 1", "track 2", "0:01", ""),))
    section = Section("one", "One", (Strips((row,), "1 uncertain pair", "Please compare them."),))
    page, pdf = tmp_path / "page.html", tmp_path / "page.pdf"
    write_page(page, Page("Title", "Lead", (section,), False))
    shown = browser.look(page, tmp_path, (800,))[800]["text"]
    assert "1 uncertain pair" in shown
    assert "47 %" not in shown
    browser.browse(page, f"--print-to-pdf={pdf}", "--no-pdf-header-footer")
    assert b"/Subtype /Image" in pdf.read_bytes()
