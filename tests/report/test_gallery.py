"""Queries and what was found for them."""

import numpy as np

from polyptrace.data import Dataset
from polyptrace.evaluate import Results
from polyptrace.film_strips import TrackImages
from polyptrace.report.gallery import Query, gallery_figure, gallery_rows, look_up, pick_queries, same_queries
from polyptrace.report.page import Page, Section, Strips, render_page


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
    assert [query.track.key for query in look_up(rows[0], indices)] == [one]
    assert pick_queries(rows[0], TrackImages({}), 6) == []


def test_a_match_is_correct_when_it_shows_the_querys_polyp(rows: list[Results]) -> None:
    weak = rows[-1]
    for index, query in enumerate(look_up(weak, range(10))):
        top = weak.arrays["retrieval/top"][index]
        assert [match.polyp for match in query.nearest] == weak.arrays["tracks/polyp"][top].tolist()
        same = [match.polyp == query.track.polyp for match in query.nearest]
        assert [match.role == "same" for match in query.nearest] == same
        assert query.track.key not in [match.key for match in query.nearest]


def test_the_same_queries_are_found_in_another_methods_results(rows: list[Results]) -> None:
    keys = [query.track.key for query in look_up(rows[0], [3, 7, 11])]
    assert [query.track.key for query in look_up(rows[1], same_queries(rows[1], keys))] == keys


def test_a_gallery_has_a_strip_for_each_query_and_match(rows: list[Results], coloured: Dataset) -> None:
    images, queries = TrackImages.of([coloured]), look_up(rows[-1], [0, 9])
    page = rendered(queries, images)
    correct = sum(match.role == "same" for query in queries for match in query.nearest)
    assert page.count("<img") == 12
    assert page.count('class="strip query"') == 2
    assert page.count('class="strip same"') == page.count("✓") == correct
    assert page.count('class="strip other"') == page.count("✗") == 10 - correct
    assert gallery_figure(queries, images, "gallery", "x").svg.count("<image") == 12


def test_a_heading_says_how_many_other_tracks_the_polyp_has(rows: list[Results], coloured: Dataset) -> None:
    queries = look_up(rows[-1], [0, 9])
    polyp = rows[-1].arrays["tracks/polyp"].tolist()
    for query, row in zip(queries, gallery_rows(queries, TrackImages.of([coloured])), strict=True):
        others = polyp.count(query.track.polyp) - 1
        correct = sum(match.role == "same" for match in query.nearest)
        assert f": {correct} of its {others} other tracks among the nearest 5;" in row.heading


def test_a_track_without_images_says_so(rows: list[Results]) -> None:
    page = rendered(look_up(rows[0], [0]), TrackImages({}))
    assert "<img" not in page
    assert page.count("no images") == 6


def rendered(queries: list[Query], images: TrackImages) -> str:
    """The body of a page with the gallery alone."""
    section = Section("gallery", "Gallery", (Strips(gallery_rows(queries, images)),))
    return render_page(Page("Title", "Lead", (section,), False)).partition("<body>")[2]
