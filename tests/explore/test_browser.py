"""Whole sessions in a real browser."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from polyptrace.embed import Embeddings
from tests.explore.conftest import CHROMIUM, TRUTH, Server, act, settled, simulate, start_server

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt install chromium")
Page = pytest.importorskip("playwright.sync_api", reason="needs playwright, which is in the extra `test`").Page

Serve = Callable[..., Server]
Open = Callable[..., Page]


def answers(page: Page) -> int:
    return int(page.inner_text("#answers"))


def by_label(page: Page) -> bool:
    """Whether the lesions are the polyps of the labels."""
    actual = page.evaluate("[page.lesions.lesion, page.state.polyp]")
    pairs = list(zip(*actual, strict=True))
    return len(set(pairs)) == len({lesion for lesion, _ in pairs}) == len({polyp for _, polyp in pairs})


def test_a_whole_session_by_keyboard_with_a_reload_and_a_killed_server(
    serve: Serve, visit: Open, tmp_path: Path
) -> None:
    server = serve()
    page = visit(server)
    settled(page)
    assert "from these two tracks alone" in page.inner_text("#questions"), "the page of lesions shows another number"
    page.keyboard.press("e")
    assert f"which lesion {page.inner_text('#tracks')} tracks show" in page.inner_text("#unsettled")
    page.keyboard.press("Escape")
    for number in range(400):
        same = page.evaluate(TRUTH)
        if same is None or page.evaluate("!page.question"):
            break
        act(page, partial(page.keyboard.press, "y" if same else "n"))
        if number == 3:
            page.reload()
            page.wait_for_selector("#ask")
            settled(page)
            assert answers(page) == 4, "the answers survive a reload"
        if number == 6:
            server.kill()
            page.evaluate("poll()")
            page.wait_for_selector("#offline:not([hidden])")
            assert "acknowledged" in page.inner_text("#offline")
            page.context.close()
            server = serve()
            page = visit(server)
            settled(page)
            assert answers(page) == 7, "the answers survive a kill"
    assert by_label(page)
    assert page.inner_text("#interval").endswith(
        f"90 % interval {page.inner_text('#count')}–{page.inner_text('#count')}"
    )
    journal = (tmp_path / "answers.jsonl").read_text().splitlines()
    assert len(journal) == 1 + answers(page)
    act(page, lambda: page.keyboard.press("z"))
    act(page, lambda: page.keyboard.press("Shift+Z"))
    assert by_label(page)
    page.evaluate("page.check = null; renderQuestion()")
    assert page.locator("#questions tbody tr").count() == int(page.inner_text("#count")), "the lesions are listed"
    page.keyboard.press("e")
    page.wait_for_selector("#dialog[open]")
    assert not page.query_selector("#unsettled")


def test_a_session_by_mouse_with_every_edit(serve: Serve, visit: Open) -> None:
    page = visit(serve())
    settled(page)
    same = page.evaluate(TRUTH)
    act(page, lambda: page.click("#answer-same" if same else "#answer-different"))
    act(page, lambda: page.click("#answer-unsure"))
    act(page, lambda: page.click("#undo"))
    act(page, lambda: page.click("#redo"))

    where = """item => [
        timeline.x((page.state.items.first[item] + page.state.items.last[item]) / 2),
        timeline.axis + timeline.laneOf[item] * timeline.laneHeight + 13 - timeline.scroll]"""

    def click(item: int, **options: object) -> None:
        x, y = page.evaluate(where, item)
        page.locator("#timeline").click(position={"x": x, "y": y}, **options)

    click(2)
    page.wait_for_function("() => page.current === 2")
    page.wait_for_selector("#candidates td")
    probabilities = page.eval_on_selector_all("#candidates tbody tr", "rows => rows.length")
    assert probabilities == 10
    page.wait_for_function("() => page.sprite !== null")
    page.click("#play")
    page.wait_for_function("() => page.position > 1")
    page.click("#play")

    click(3, modifiers=["Control"])
    assert page.evaluate("[...page.selected].sort()") == [2, 3]
    act(page, lambda: page.click("#act-merge"))
    assert page.evaluate("page.state.component[2] === page.state.component[3]")
    click(5)
    act(page, lambda: page.click("#act-reject"))
    assert page.evaluate("page.lesions.lesion[5]") == -1
    act(page, lambda: page.click("#act-reject"))
    assert page.evaluate("page.lesions.lesion[5]") >= 0
    page.click("#act-move")
    act(page, lambda: page.click("dialog .choices button:first-child"))
    assert page.evaluate("page.lesions.lesion.filter(each => each === page.lesions.lesion[5]).length") == 1
    click(8)
    page.wait_for_function("() => page.sprite !== null && page.frames.length > 2")
    page.evaluate("showFrame(Math.floor(page.frames.length / 2))")
    count = page.evaluate("page.state.items.track.length")
    act(page, lambda: page.click("#act-split"))
    assert page.evaluate("page.state.items.track.length") == count + 1
    act(page, lambda: page.click("#undo"))
    assert page.evaluate("page.state.items.track.length") == count
    click(9)
    page.fill("#note", "flat, <b>2 mm</b>")
    act(page, lambda: page.locator("#note").blur())
    assert page.evaluate("page.state.notes[9]") == "flat, <b>2 mm</b>"
    act(page, lambda: page.click("#act-confirm"))
    page.click("#tab-history")
    page.wait_for_selector("#history li")
    assert "flat, <b>2 mm</b>" in page.inner_text("#history")
    act(page, lambda: page.click("#history li:first-child button"))
    assert page.locator("#history .off").count() >= 1
    zoomed = page.evaluate("timeline.span")
    page.click("#zoom-in")
    assert page.evaluate("timeline.span") < zoomed
    for _ in range(40):
        page.click("#zoom-in")
    assert page.evaluate("timeline.span / page.state.fps") == pytest.approx(1, rel=0.05)
    page.click("#fit")
    assert page.evaluate("timeline.span") == zoomed


def test_one_key_press_is_one_answer_to_a_question_that_is_seen(serve: Serve, visit: Open) -> None:
    page = visit(serve())
    settled(page)
    page.keyboard.press("h")
    page.keyboard.press("y")
    assert page.evaluate("[page.busy || false, page.state.answers]") == [False, 0]
    page.keyboard.press("q")

    def hold() -> None:
        page.keyboard.down("y")
        for _ in range(5):
            page.keyboard.down("y")
            settled(page)
        page.keyboard.up("y")

    act(page, hold)
    assert page.evaluate("page.state.answers") == 1
    page.evaluate("select([0], false)")
    page.fill("#note", "flat")
    act(page, lambda: page.click("#answer-unsure"))  # leaving the note saves it; the click is not lost
    page.wait_for_function("() => page.state.revision === 3")
    page.keyboard.press("h")
    page.wait_for_function("() => $('history').querySelectorAll('li').length === 3")
    assert "unsure" in page.inner_text("#history")
    assert "flat" in page.inner_text("#history")


def test_two_people_disagree_and_see_each_other(serve: Serve, visit: Open) -> None:
    server = serve()
    ada, bob = visit(server, "Ada"), visit(server, "Bob")
    settled(ada)
    settled(bob)
    pair = ada.evaluate("keys(pair(page.question))")
    act(ada, lambda: ada.keyboard.press("y"))
    bob.wait_for_function("() => page.state.answers === 1", timeout=15_000)
    settled(bob)
    bob.select_option("#view", "me")
    bob.wait_for_function("() => page.state.answers === 0")
    settled(bob)
    bob.keyboard.press("h")
    bob.wait_for_function("() => $('history').textContent === 'No answers yet.'")
    bob.keyboard.press("q")
    bob.evaluate("pair => edit({ kind: 'answer', items: pair, answer: 'different' })", pair)
    bob.wait_for_function("() => page.state.answers === 1")
    ada.wait_for_selector("#conflicts:not([hidden])")
    settled(ada)
    ada.click("#conflicts")
    ada.wait_for_selector("#review table")
    text = ada.inner_text("#review")
    assert "Disagreement" in text
    assert "Bob" in text
    assert "Cohen" in text
    act(ada, lambda: ada.click("#review li button >> nth=1"))
    assert ada.evaluate("page.state.contradictions.length") == 0


def test_phone_width_focus_order_and_accessible_names(serve: Serve, visit: Open) -> None:
    server = serve()
    page = visit(server, viewport={"width": 360, "height": 740})
    settled(page)
    page.focus("#timeline")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#candidates td")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    nameless = """() => [...document.querySelectorAll("button, input, select, textarea, canvas, a, dialog")]
        .filter(node => node.getClientRects().length && !node.getAttribute("aria-label") && !node.textContent.trim()
            && !node.getAttribute("aria-labelledby") && !node.closest("label")).map(node => node.outerHTML)"""
    assert page.evaluate(nameless) == []
    assert page.get_by_role("button", name="Same").first.is_visible()
    assert page.get_by_role("application", name="Timeline of").is_visible()
    page.reload()
    page.wait_for_selector("#answer-same")
    settled(page)
    order = []
    while not order or (order[-1] != "answer-same" and len(order) < 30):
        page.keyboard.press("Tab")
        order.append(page.evaluate("document.activeElement.id || document.activeElement.className"))
    wanted = [
        "skip",
        "procedure",
        "who",
        "view",
        "export",
        "help",
        "zoom-out",
        "zoom-in",
        "fit",
        "timeline",
        "tab-questions",
    ]
    assert [each for each in order if each in wanted] == wanted
    assert order[-1] == "answer-same"


def test_the_timeline_names_what_it_counts_and_is_high_if_no_question_needs_the_room(serve: Serve, visit: Open) -> None:
    page = visit(serve(), viewport={"width": 1280, "height": 720})
    settled(page)
    counts = page.evaluate("timeline.lanes.map(items => items.length)")
    assert page.evaluate("timeline.lanes.map((_, row) => timeline.title(row))") == [
        f"Lesion {number} · {count} track{'s' if count > 1 else ''}" for number, count in enumerate(counts, 1)
    ]
    height = "document.getElementById('stage').clientHeight"
    asked = page.evaluate(height)
    page.evaluate("page.lanes = 9; page.question = page.check = null; render()")
    assert asked < 4 * 40 < 9 * 26 < page.evaluate(height)


def test_names_are_data(tmp_path: Path, visit: Open) -> None:
    tracks = simulate(videos=2)
    evil = '<img src=x onerror="document.title=1">'
    tracks.video[tracks.video == "v0"] = evil
    tracks.video[tracks.video == "v1"] = "\u202e\u05e9\u05dc\u05d5\u05dd" + "x" * 10_000
    Embeddings.from_columns(
        {"vectors": tracks.vectors}
        | {
            name: getattr(tracks, name)
            for name in ("unit", "dataset", "video", "track", "position", "last", "fps", "polyp")
        },
        info={"fingerprint": "a" * 64},
    ).save(tmp_path / "vectors")
    server = start_server(str(tmp_path / "vectors"))
    try:
        page = visit(server, "<script>document.title=2</script>")
        settled(page)
        act(page, lambda: page.keyboard.press("u"))
        page.keyboard.press("h")
        page.wait_for_selector("#history li")
        assert "<script>document.title=2</script>" in page.inner_text("#history")
        assert evil in page.inner_text("#procedure")
        page.select_option("#procedure", "1")
        page.wait_for_function("() => page.number === 1 && page.state && page.state.number === 1")
        settled(page)
        assert page.title() == "polyptrace explore"
        assert page.locator("main img").count() == 0
        assert "grey" in page.inner_text("#notice")
        assert page.evaluate("document.documentElement.scrollWidth") <= 1300
    finally:
        server.kill()


def test_the_read_only_file_shows_the_lesions_without_a_server(serve: Serve, visit: Open, tmp_path: Path) -> None:
    server = serve()
    page = visit(server)
    settled(page)
    act(page, lambda: page.keyboard.press("y" if page.evaluate(TRUTH) else "n"))
    page.keyboard.press("e")
    with page.expect_download() as download:
        page.click("dialog a:has-text('Read-only')")
    file = tmp_path / "copy.html"
    download.value.save_as(file)
    expected = page.evaluate("page.lesions.lesion")
    server.kill()
    alone = page.context.new_page()
    asked: list[str] = []
    alone.on("console", lambda message: asked.append(message.text))
    alone.on("request", lambda request: request.url.startswith(("file:", "data:")) or asked.append(request.url))
    alone.goto(file.as_uri())
    alone.wait_for_function("() => page.lesions !== null")
    assert alone.evaluate("page.lesions.lesion") == expected
    assert "read-only" in alone.inner_text("#notice")
    alone.focus("#timeline")
    alone.keyboard.press("ArrowRight")
    alone.wait_for_function("() => page.sprite !== null")
    assert not alone.is_visible("#undo")
    assert asked == []
