"""The choice of the best pictures."""

import numpy as np
import pytest

from polyptrace.lesions.pictures import picture_score

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


def test_boxes_at_the_edge_and_of_no_size_are_measured() -> None:
    for box in ((0.99, 0.99, 0.2, 0.2), (-0.1, -0.1, 0.05, 0.05), (0.5, 0.5, 0.0, 0.0)):
        assert np.isfinite(picture_score(picture(), box, 0.0))
