"""What is on the screen and on paper, in a real browser."""

from collections.abc import Callable
from pathlib import Path

import pytest

from polyptrace.lesions import SIGHTING_GAP_S
from tests.explore.conftest import CHROMIUM, TRUTH, Server, act, settled

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt install chromium")
Page = pytest.importorskip("playwright.sync_api", reason="needs playwright, which is in the extra `test`").Page

Serve = Callable[..., Server]
Open = Callable[..., Page]

#: Top and bottom of the question, the strips and the answers.
PLACES = """() => [...document.querySelectorAll("#ask, #questions .strip, #questions .answers")]
    .map(node => [node.getBoundingClientRect().top, node.getBoundingClientRect().bottom])"""


@pytest.mark.parametrize("size", [(1280, 720), (1920, 1080)])
def test_a_question_is_in_sight_and_does_not_move_when_its_pictures_arrive(
    serve: Serve, visit: Open, size: tuple[int, int]
) -> None:
    page = visit(serve(), viewport={"width": size[0], "height": size[1]})
    settled(page)
    held: list[object] = []
    page.route("**/strip?*", lambda route: held.append(route))
    page.reload()
    page.wait_for_selector("#ask")
    settled(page)
    page.wait_for_timeout(200)
    before = page.evaluate(PLACES)
    assert held, "the pictures have not arrived"
    for route in held:
        route.continue_()
    page.unroute("**/strip?*")
    page.wait_for_function("() => [...document.querySelectorAll('#questions img')].every(each => each.naturalWidth)")
    assert page.evaluate(PLACES) == before
    assert len(before) == 4
    assert min(top for top, _ in before) > 0
    assert max(bottom for _, bottom in before) <= size[1]
    buttons = before[-1]
    for _ in range(6):
        act(page, lambda: page.keyboard.press("y" if page.evaluate(TRUTH) else "n"))
        assert page.evaluate(PLACES)[-1] == buttons, "the next answer is given at the same place"


def test_an_edit_says_at_once_what_it_contradicts_or_sets_aside_and_can_be_undone_there(
    serve: Serve, visit: Open
) -> None:
    page = visit(serve())
    settled(page)

    def send(kind: str, items: list[int], **fields: object) -> None:
        content = {"kind": kind, **fields}
        words = [content, items]
        act(page, lambda: page.evaluate("([content, items]) => edit({ ...content, items: keys(items) })", words))

    def shown() -> str:
        return page.inner_text("#effect").replace("\n\n", "\n")

    send("answer", [0, 2], answer="same")
    send("answer", [2, 4], answer="same")
    assert page.is_hidden("#effect")
    send("answer", [0, 4], answer="different")
    text = shown()
    assert text.startswith("A contradiction\n#3 Ada different:")
    assert "Has no effect, because of:\n#1 Ada same:" in text
    assert "#2 Ada same:" in text
    act(page, lambda: page.click("#effect-undo"))
    assert page.is_hidden("#effect")
    assert page.evaluate("[page.state.contradictions.length, page.state.answers]") == [0, 2]

    page.evaluate("select([2], false)")
    page.wait_for_function("() => page.sprite !== null && page.frames.length > 2")
    page.evaluate("showFrame(Math.floor(page.frames.length / 2))")
    act(page, lambda: page.keyboard.press("s"))
    text = shown()
    assert text.startswith("The split sets aside 2 earlier edits\n#1 Ada same:")
    assert page.evaluate("page.state.items.track[page.current] === page.state.items.track[page.current - 1]"), (
        "a part is selected"
    )
    act(page, lambda: page.click("#effect-undo"))
    assert page.evaluate("page.state.answers") == 2
    send("answer", [2, 4], answer="different")
    assert shown().startswith("Replaces what you said before\n#2 Ada same:")
    page.keyboard.press("Escape")
    assert page.is_hidden("#effect")
    assert page.evaluate("page.current") >= 0, "the selection is kept"


#: Controls in sight of which another element is on top.
COVERED = """() => [...document.querySelectorAll("button, select, input, textarea, canvas")].filter(node => {
    const box = node.getBoundingClientRect(), x = (box.left + box.right) / 2, y = (box.top + box.bottom) / 2;
    const on = document.elementFromPoint(x, y);
    return box.width && on && !node.contains(on) && !on.closest(".scroll, .answers");
}).map(node => node.outerHTML)"""


@pytest.mark.parametrize("size", [(1280, 720), (1920, 1080), (390, 800)])
def test_a_message_covers_no_control_and_moves_no_answer_button(
    serve: Serve, visit: Open, size: tuple[int, int]
) -> None:
    page = visit(serve(), viewport={"width": size[0], "height": size[1]})
    settled(page)
    page.evaluate("select([2], false)")
    page.wait_for_function("() => page.sprite !== null && page.frames.length > 2")
    pair = "items => edit({ kind: 'answer', items: keys(items), answer: 'same' })"
    act(page, lambda: page.evaluate(pair, [0, 2]))
    page.evaluate("scrollTo(0, 0)")
    before = page.evaluate(PLACES)[-1]
    page.evaluate("showFrame(Math.floor(page.frames.length / 2))")
    page.keyboard.press("m")  # one track only: refused
    assert "Select two or more" in page.inner_text("#toast")
    assert page.evaluate(COVERED) == []
    act(page, lambda: page.keyboard.press("s"))
    assert page.is_hidden("#toast")
    assert "sets aside" in page.inner_text("#effect")
    box = page.locator("#effect").bounding_box()
    assert 0 <= box["y"] < box["y"] + box["height"] <= size[1], "the message is in sight"
    assert page.evaluate(COVERED) == []
    if size[0] > 800:
        assert page.evaluate(PLACES)[-1] == before
        page.wait_for_function("() => page.sprite !== null && page.frames.length > 2")
        edits = page.locator("#edits").bounding_box()
        assert edits["y"] + edits["height"] <= size[1], "the buttons for edits stay in sight"
    page.keyboard.press("m")
    assert page.evaluate(COVERED) == []
    page.click("#toast button")
    assert page.is_hidden("#toast")
    page.keyboard.press("m")
    page.keyboard.press("Escape")
    assert page.is_hidden("#toast")
    assert page.is_visible("#effect")


def test_the_parts_of_a_split_track_have_names_of_their_own(serve: Serve, visit: Open) -> None:
    page = visit(serve())
    settled(page)
    track = page.evaluate("page.state.items.track[2]")

    def split(share: float) -> None:
        page.wait_for_function("() => page.sprite !== null && page.frames.length > 2")
        page.evaluate("share => showFrame(Math.floor(page.frames.length * share))", share)
        act(page, lambda: page.keyboard.press("s"))

    page.evaluate("select([2], false)")
    split(0.6)
    assert page.inner_text("#track-title") == f"Track {track}.2", "the second part is selected"
    page.evaluate("select([page.current - 1], false)")
    assert page.inner_text("#track-title") == f"Track {track}.1"
    split(0.5)
    assert page.inner_text("#track-title") == f"Track {track}.2", "the second of the two new parts is selected"
    assert page.evaluate("page.state.names").count(f"{track}.3") == 1
    act(page, lambda: page.evaluate("edit({ kind: 'answer', items: keys([2, 4]), answer: 'same' })"))
    page.keyboard.press("h")
    page.wait_for_function("() => $('history').querySelectorAll('li').length === 3")
    same, second, first = page.locator("#history li").all_inner_texts()
    assert f"same: tracks {track}.1 and {track}.3" in same
    assert f"split track {track} (" in second, "a part that is split itself has its times"
    assert f"split track {track} at frame" in first


def test_what_answers_decide_is_in_full_colour_and_the_last_track_is_seen_whole(serve: Serve, visit: Open) -> None:
    page = visit(serve(), viewport={"width": 1280, "height": 720})
    settled(page)
    assert not any(page.evaluate("timeline.solid"))
    act(page, lambda: page.evaluate("edit({ kind: 'answer', items: keys([0, 2]), answer: 'different' })"))
    assert page.evaluate("timeline.solid.flatMap((each, item) => each ? [item] : [])") == [0, 2]
    assert page.evaluate("timeline.x(timeline.full) <= timeline.width - 6")


def test_tracks_of_two_lesions_can_be_moved_to_one_of_them(serve: Serve, visit: Open) -> None:
    page = visit(serve())
    settled(page)
    chosen = page.evaluate("[lesionItems(0)[0], lesionItems(1).at(-1)]")
    target, answers = page.evaluate("lesionItems(1)[0]"), page.evaluate("page.state.answers")
    page.evaluate("items => select(items, false)", chosen)
    page.keyboard.press("v")
    act(page, lambda: page.click("dialog .choices button:has-text('Lesion 2')"))
    assert page.evaluate("[page.state.contradictions.length, page.state.answers]") == [0, answers + 1]
    assert len(set(page.evaluate("items => items.map(item => page.state.component[item])", [*chosen, target]))) == 1


def test_tracks_at_most_30_seconds_apart_are_one_sighting_as_in_lesions(serve: Serve, visit: Open) -> None:
    page = visit(serve())
    sightings = """gap => {
        const { first, last } = page.state.items;
        [first[0], last[0], first[1], last[1]] = [0, 9, 10 + gap, 19 + gap];  // `gap` frames between the tracks
        return sightings([0, 1]).split(", ").length;
    }"""
    frames = round(SIGHTING_GAP_S * page.evaluate("page.state.fps"))
    assert [page.evaluate(sightings, gap) for gap in (frames, frames + 1)] == [1, 2]


def test_print_gives_a_list_of_lesions_also_from_the_read_only_file(serve: Serve, visit: Open, tmp_path: Path) -> None:
    page = visit(serve(), color_scheme="dark")
    settled(page)
    act(page, lambda: page.keyboard.press("y" if page.evaluate(TRUTH) else "n"))
    act(page, lambda: page.evaluate("edit({ kind: 'note', items: keys([0]), text: 'flat, <b>2 mm</b>' })"))
    page.keyboard.press("e")
    with page.expect_download() as download:
        page.click("dialog a:has-text('Read-only')")
    download.value.save_as(tmp_path / "copy.html")
    page.keyboard.press("Escape")
    copy = page.context.new_page()
    copy.goto((tmp_path / "copy.html").as_uri())
    copy.wait_for_function("() => page.lesions !== null")
    assert copy.is_hidden("#printed")
    assert "about" in copy.inner_text("#progress"), "the copy does not say that everything is decided"
    count = page.evaluate("page.lesions.confidence.length")
    for each in (page, copy):
        each.pdf()  # as the browser does when the user prints
        each.emulate_media(media="print", color_scheme="dark")
        assert each.locator("#printed tbody tr").count() == count
        text = each.inner_text("body")
        assert text.startswith("Lesions of ")
        assert "flat, <b>2 mm</b>" in text
        assert "Undo" not in text
        assert not each.is_visible("#timeline")
        assert each.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
