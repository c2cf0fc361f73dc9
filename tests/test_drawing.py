"""Figures: one look, safe to put into a page, the same bytes each time."""

import re
from importlib.resources import files
from itertools import combinations
from xml.etree import ElementTree

import matplotlib
from matplotlib.lines import Line2D

from polyptrace.drawing import (
    ACCENT,
    GREY,
    INK,
    METHOD_COLOURS,
    PAGE_COLOURS,
    POLYP_COLOURS,
    Drawing,
    canvas,
    finished,
    inline,
    legend,
    line_styles,
    styled,
)


@styled
def draw(name: str = "a", label: str = "label") -> Drawing:
    figure = canvas(3, 2)
    axes = figure.add_subplot()
    (line,) = axes.plot([0, 1], [0, 1], "o-", color=ACCENT)
    axes.set_title(label)
    legend(axes, [(line, label)])
    return finished(figure, name, f"Words: {label}")


def test_the_same_figure_has_the_same_bytes() -> None:
    assert draw() == draw()


def test_colours_stay_distinct_in_the_dark_mode_of_a_page() -> None:
    css = files("polyptrace.report").joinpath("templates", "page.css").read_text("utf-8")
    dark = dict(
        re.findall(r"--(\w+): (#[0-9a-f]{6})", css.partition("prefers-color-scheme: dark")[2].partition("}")[0])
    )
    shown = {colour: dark[name] for name, colour in PAGE_COLOURS.items() if name in dark}
    for palette in (POLYP_COLOURS, (ACCENT, *METHOD_COLOURS)):
        drawn = [shown.get(colour, colour) for colour in palette]
        codes = [[int(colour[index : index + 2], 16) for index in (1, 3, 5)] for colour in drawn]
        for one, other in combinations(codes, 2):
            assert sum(abs(a - b) for a, b in zip(one, other, strict=True)) > 60, (one, other)


def test_any_name_is_shown_unchanged() -> None:
    nasty = '_<b>&amp; $x_1 \\frac{ "quoted" $'
    text = inline(draw(label=nasty))
    root = ElementTree.fromstring(text)
    shown = [element.text for element in root.iter("text")]
    assert shown.count(nasty) == 2  # title and legend
    assert root.get("aria-label") == f"Words: {nasty}"


def test_a_figure_in_a_page_refers_to_nothing_outside() -> None:
    text = inline(draw())
    assert "http" not in text
    assert "<?xml" not in text
    assert "<!DOCTYPE" not in text
    assert "<style" not in text


def test_two_figures_in_a_page_have_no_id_in_common_and_find_their_own() -> None:
    first, second = inline(draw("a")), inline(draw("b"))
    ids = [set(re.findall(r'\bid="([^"]+)"', text)) for text in (first, second)]
    assert ids[0]
    assert not ids[0] & ids[1]
    for text, own in zip((first, second), ids, strict=True):
        assert set(re.findall(r'(?:url\(#|href="#)([^")]+)', text)) <= own


def test_colours_of_the_page_replace_those_of_the_file() -> None:
    drawing = draw()
    assert INK in drawing.svg
    assert INK not in inline(drawing)
    assert "var(--ink)" in inline(drawing)
    assert "var(--accent)" in inline(drawing)
    assert "var(--sans)" in inline(drawing)


def test_a_name_that_looks_like_a_colour_stays_a_name() -> None:
    assert f">{ACCENT}<" in inline(draw(label=ACCENT))


def test_the_users_own_settings_neither_matter_nor_change() -> None:
    before = draw()
    with matplotlib.rc_context({"lines.linewidth": 17, "font.size": 40}):
        assert draw() == before
        assert Line2D([], []).get_linewidth() == 17


def test_png_and_svg_are_what_they_say() -> None:
    drawing = draw()
    assert drawing.png.startswith(b"\x89PNG")
    assert "<svg" in drawing.svg[:600]


def test_the_shown_method_stands_out_and_baselines_are_grey() -> None:
    chosen = line_styles([True, True, False, False], focus=3)
    assert chosen[3].colour == ACCENT
    assert chosen[3].width > chosen[2].width
    assert [style.colour for style in chosen[:2]] == [GREY, GREY]
    assert chosen[0].dash != chosen[1].dash


def test_twenty_methods_have_twenty_different_line_styles() -> None:
    chosen = line_styles([False] * 20, focus=0)
    assert len({(style.colour, str(style.dash)) for style in chosen}) == 20
