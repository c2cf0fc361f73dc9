"""Maps of tracks."""

import numpy as np

from polyptrace.evaluate import Results
from polyptrace.report.plane import has_map, mapped_tracks, plane, track_map


def test_the_same_vectors_give_the_same_map_and_groups_stay_together() -> None:
    random = np.random.default_rng(0)
    group = np.repeat(np.arange(3), 12)
    vectors = 5 * np.eye(8)[group] + random.normal(scale=0.1, size=(36, 8))
    places = plane(vectors)
    np.testing.assert_array_equal(places, plane(vectors))
    distance = np.linalg.norm(places[:, None] - places[None], axis=2) + np.eye(36) * 1e9
    assert (group[distance.argmin(1)] == group).all()


def test_few_or_equal_vectors_have_places_too() -> None:
    assert plane(np.eye(3)).shape == (3, 2)
    assert not plane(np.ones((20, 8))).any()
    assert plane(np.empty((0, 8))).shape == (0, 2)


def test_a_map_shows_the_tracks_that_results_kept(rows: list[Results]) -> None:
    vectors, polyp = mapped_tracks(rows[0])
    assert len(vectors) == len(polyp) == 24
    assert len(set(polyp)) == 6
    assert has_map(rows[0])
    assert "24 tracks of 6 polyps" in track_map(rows[0], 0).words
