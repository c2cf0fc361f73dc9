"""The choice of the best pictures."""

import numpy as np
import pytest

from polyptrace.embed import Embeddings
from polyptrace.lesions.cards import Lesion, best_of_sightings
from polyptrace.lesions.pictures import BestFrame, picture_score

BOX = (0.25, 0.25, 0.5, 0.5)


def picture(seed: int = 0, contrast: float = 30.0) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(0, contrast, (64, 64, 1))
    return np.clip(np.array([150.0, 90.0, 80.0]) + noise, 16, 229).astype(np.uint8)


def blurred(image: np.ndarray) -> np.ndarray:
    shifted = [np.roll(image.astype(float), (y, x), (0, 1)) for y in range(-2, 3) for x in range(-2, 3)]
    return np.mean(shifted, axis=0).astype(np.uint8)


def test_sharp_large_and_uncut_is_better() -> None:
    sharp = picture()
    score = picture_score(sharp, BOX, 0.05)
    assert score > picture_score(blurred(sharp), BOX, 0.05) + 1
    assert score > picture_score(sharp, BOX, 0.01)
    assert score > picture_score(sharp, BOX, 0.05, cut=True)


@pytest.mark.parametrize("value", [255, 0])
def test_highlights_and_dark_corners_inside_the_box_are_worse(value: int) -> None:
    plain = blurred(picture())
    inside, outside = plain.copy(), plain.copy()
    inside[20:44, 20:44] = value
    outside[:12, :12] = value
    assert picture_score(inside, BOX, 0.05) < picture_score(plain, BOX, 0.05)
    assert picture_score(outside, BOX, 0.05) == picture_score(plain, BOX, 0.05)


def test_each_sighting_has_a_picture_before_any_has_two() -> None:
    columns = {"video": ["v"] * 5, "polyp": [""] * 5, "track": range(5)}
    times = {"position": [0, 100, 200, 5000, 9000], "last": [50, 150, 250, 5050, 9050]}
    tracks = Embeddings.from_columns(
        {"vectors": np.eye(5), "fps": np.full(5, 25.0)}
        | {name: np.array(values) for name, values in (columns | times).items()}
    )
    sightings = (np.array([0, 1, 2]), np.array([3]), np.array([4]))
    best = [
        BestFrame(tracks.track_key(row), row, row, score) for row, score in ((1, 9.0), (0, 8.0), (2, 7.0), (4, 2.0))
    ]
    lesion = Lesion(1, np.arange(5), sightings, 1.0, 1.0, None, tuple(best), None)  # track 3 has no pictures
    assert [each.crop for each in best_of_sightings(tracks, lesion)] == [1, 4, 0, 2]


def test_boxes_at_the_edge_and_of_no_size_are_measured() -> None:
    for box in ((0.99, 0.99, 0.2, 0.2), (-0.1, -0.1, 0.05, 0.05), (0.5, 0.5, 0.0, 0.0)):
        assert np.isfinite(picture_score(picture(), box, 0.0))
