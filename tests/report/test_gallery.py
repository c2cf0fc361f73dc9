"""Queries and what was found for them."""

import numpy as np

from polyptrace.data import Dataset
from polyptrace.evaluate import Results
from polyptrace.report.film import Pictures
from polyptrace.report.gallery import gallery_figure, gallery_html, look_up, pick_queries, same_queries


def test_queries_go_from_the_best_to_the_worst(rows: list[Results], coloured: Dataset) -> None:
    weak = rows[-1]
    places = pick_queries(weak, Pictures.of([coloured]), 5)
    precision = weak.arrays["retrieval/ap"]
    assert len(set(places)) == 5
    shown = precision[places]
    assert shown[0] == precision.max()
    assert np.corrcoef(shown, np.arange(5))[0, 1] < -0.8
    assert shown[-1] <= np.quantile(precision, 0.3)


def test_only_queries_with_pictures_are_picked(rows: list[Results], coloured: Dataset) -> None:
    pictures = Pictures.of([coloured])
    one = next(key for key in pictures.place if key[1] == "v1")
    places = pick_queries(rows[0], Pictures(pictures.datasets, {one: pictures.place[one]}), 6)
    assert [query.key for query in look_up(rows[0], places)] == [one]
    assert pick_queries(rows[0], Pictures((), {}), 6) == []


def test_a_find_is_right_when_it_shows_the_querys_polyp(rows: list[Results]) -> None:
    weak = rows[-1]
    for place, query in enumerate(look_up(weak, range(10))):
        top = weak.arrays["retrieval/top"][place]
        assert [f.polyp for f in query.found] == weak.arrays["tracks/polyp"][top].tolist()
        assert [f.right for f in query.found] == [f.polyp == query.polyp for f in query.found]
        assert query.key not in [f.key for f in query.found]


def test_the_same_queries_are_found_in_another_methods_results(rows: list[Results]) -> None:
    asked = [query.key for query in look_up(rows[0], [3, 7, 11])]
    assert [query.key for query in look_up(rows[1], same_queries(rows[1], asked))] == asked


def test_a_gallery_has_a_strip_for_each_query_and_find(rows: list[Results], coloured: Dataset) -> None:
    pictures, queries = Pictures.of([coloured]), look_up(rows[-1], [0, 9])
    page = gallery_html(queries, pictures)
    right = sum(found.right for query in queries for found in query.found)
    assert page.count("<img") == 12
    assert page.count('class="strip asked"') == 2
    assert page.count('class="strip right"') == page.count("✓") == right
    assert page.count('class="strip wrong"') == page.count("✗") == 10 - right
    assert gallery_figure(queries, pictures, "gallery", "x").svg.count("<image") == 12


def test_a_track_without_pictures_says_so(rows: list[Results]) -> None:
    page = gallery_html(look_up(rows[0], [0]), Pictures((), {}))
    assert "<img" not in page
    assert page.count("no picture") == 6
