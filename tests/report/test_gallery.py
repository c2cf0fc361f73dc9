"""Queries and what was found for them."""

from dataclasses import replace

import numpy as np

from polyptrace.data import Dataset
from polyptrace.evaluate import Results
from polyptrace.film_strips import TrackImages
from polyptrace.report.gallery import gallery_rows, pick_queries, query_keys
from polyptrace.report.page import Page, Part, Section, StripRow, Strips, render_page
from polyptrace.report.sections import Content, retrieval_gallery


def test_queries_go_from_the_best_to_the_worst(rows: list[Results], coloured: Dataset) -> None:
    weak = rows[-1]
    indices = pick_queries(weak, TrackImages.of([coloured]), 5)
    precision = weak.arrays["retrieval/ap"]
    assert len(set(indices)) == 5
    shown = precision[indices]
    assert shown[0] == precision.max()
    assert np.corrcoef(shown, np.arange(5))[0, 1] < -0.8
    assert shown[-1] <= np.quantile(precision, 0.3)


def test_only_queries_with_images_are_picked(rows: list[Results], coloured: Dataset) -> None:
    images = TrackImages.of([coloured])
    one = next(key for key in images.location if key[1] == "v1")
    indices = pick_queries(rows[0], TrackImages({one: images.location[one]}), 6)
    assert [query_keys(rows[0])[index] for index in indices] == [one]
    assert pick_queries(rows[0], TrackImages({}), 6) == []


def test_a_match_is_correct_when_it_shows_the_querys_polyp(rows: list[Results]) -> None:
    weak = rows[-1]
    for index, row in enumerate(gallery_rows(weak, range(10), TrackImages({}))):
        query, *nearest = row.strips
        top = weak.arrays["retrieval/top"][index][: len(nearest)]
        assert nearest
        assert [match.name for match in nearest] == weak.arrays["tracks/polyp"][top].tolist()
        assert [match.role == "same" for match in nearest] == [match.name == query.name for match in nearest]
        assert weak.arrays["retrieval/query"][index] not in top


def test_the_same_queries_are_shown_for_another_method(rows: list[Results], coloured: Dataset) -> None:
    section = retrieval_gallery(Content(rows[:2], 0, [], TrackImages.of([coloured])))
    assert section is not None
    (part,) = section.blocks
    assert isinstance(part, Part)
    ((_, other),) = part.values["others"]
    shown, again = ([row.strips[0].description for row in rows] for rows in (part.values["queries"], other))
    assert shown == again
    assert len(set(shown)) == 6


def test_a_gallery_has_a_strip_for_each_query_and_match(rows: list[Results], coloured: Dataset) -> None:
    queries = gallery_rows(rows[-1], [0, 9], TrackImages.of([coloured]))
    page = rendered(queries)
    correct = sum(match.role == "same" for query in queries for match in query.strips)
    strips = sum(len(query.strips) for query in queries)
    assert strips > 6
    assert page.count("<img") == strips
    assert page.count('class="strip query"') == 2
    assert page.count('class="strip same"') == page.count("✓") == correct
    assert page.count('class="strip other"') == page.count("✗") == strips - 2 - correct


def test_a_heading_says_how_many_other_tracks_the_polyp_has(rows: list[Results], coloured: Dataset) -> None:
    polyp = rows[-1].arrays["tracks/polyp"].tolist()
    for row in gallery_rows(rows[-1], [0, 9], TrackImages.of([coloured])):
        others = polyp.count(row.strips[0].name) - 1
        correct = sum(match.role == "same" for match in row.strips)
        assert f": {correct} of its {others} other tracks among the nearest {min(others, 5)};" in row.heading


def test_a_query_has_no_more_matches_than_its_polyp_has_other_tracks(rows: list[Results]) -> None:
    row = rows[-1]
    query, top = (row.arrays[f"retrieval/{name}"][0] for name in ("query", "top"))
    polyp = row.arrays["tracks/polyp"].copy()
    same = np.flatnonzero(polyp == polyp[query])
    polyp[same[same != query][1:]] = "another"  # one other track is left
    (shown,) = gallery_rows(replace(row, arrays={**row.arrays, "tracks/polyp": polyp}), [0], TrackImages({}))
    assert [strip.name for strip in shown.strips] == [polyp[query], polyp[top[0]]]
    assert "of its 1 other track among the nearest 1;" in shown.heading


def test_a_track_without_images_says_so(rows: list[Results]) -> None:
    (query,) = gallery_rows(rows[0], [0], TrackImages({}))
    page = rendered((query,))
    assert "<img" not in page
    assert page.count("no images") == len(query.strips) > 1


def rendered(queries: tuple[StripRow, ...]) -> str:
    """The body of a page with the gallery alone."""
    section = Section("gallery", "Gallery", (Strips(queries),))
    return render_page(Page("Title", "Lead", (section,), False)).partition("<body>")[2]
