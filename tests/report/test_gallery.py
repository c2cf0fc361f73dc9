"""Queries and what was found for them."""

import numpy as np

from polyptrace.data import Dataset
from polyptrace.evaluate import Results
from polyptrace.film_strips import TrackImages
from polyptrace.report.gallery import gallery_figure, gallery_rows, pick_queries, query_keys
from polyptrace.report.page import Details, Page, Section, StripRow, Strips, render_page
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
        top = weak.arrays["retrieval/top"][index]
        assert [match.name for match in nearest] == weak.arrays["tracks/polyp"][top].tolist()
        assert [match.role == "same" for match in nearest] == [match.name == query.name for match in nearest]
        assert weak.arrays["retrieval/query"][index] not in top


def test_the_same_queries_are_shown_for_another_method(rows: list[Results], coloured: Dataset) -> None:
    section = retrieval_gallery(Content(rows[:2], 0, [], TrackImages.of([coloured])))
    assert section is not None
    *_, own, details = section.blocks
    assert isinstance(own, Strips)
    assert isinstance(details, Details)
    (other,) = details.blocks
    assert isinstance(other, Strips)
    shown, again = ([row.strips[0].description for row in strips.rows] for strips in (own, other))
    assert shown == again
    assert len(set(shown)) == 6


def test_a_gallery_has_a_strip_for_each_query_and_match(rows: list[Results], coloured: Dataset) -> None:
    queries = gallery_rows(rows[-1], [0, 9], TrackImages.of([coloured]))
    page = rendered(queries)
    correct = sum(match.role == "same" for query in queries for match in query.strips)
    assert page.count("<img") == 12
    assert page.count('class="strip query"') == 2
    assert page.count('class="strip same"') == page.count("✓") == correct
    assert page.count('class="strip other"') == page.count("✗") == 10 - correct
    assert gallery_figure(queries, "x").svg.count("<image") == 12


def test_a_heading_says_how_many_other_tracks_the_polyp_has(rows: list[Results], coloured: Dataset) -> None:
    polyp = rows[-1].arrays["tracks/polyp"].tolist()
    for row in gallery_rows(rows[-1], [0, 9], TrackImages.of([coloured])):
        others = polyp.count(row.strips[0].name) - 1
        correct = sum(match.role == "same" for match in row.strips)
        assert f": {correct} of its {others} other tracks among the nearest 5;" in row.heading


def test_a_track_without_images_says_so(rows: list[Results]) -> None:
    page = rendered(gallery_rows(rows[0], [0], TrackImages({})))
    assert "<img" not in page
    assert page.count("no images") == 6


def rendered(queries: tuple[StripRow, ...]) -> str:
    """The body of a page with the gallery alone."""
    section = Section("gallery", "Gallery", (Strips(queries),))
    return render_page(Page("Title", "Lead", (section,), False)).partition("<body>")[2]
