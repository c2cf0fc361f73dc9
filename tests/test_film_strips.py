"""Film strips and images in a page."""

import base64
from pathlib import Path

import numpy as np
import pytest

from polyptrace.config import Crops
from polyptrace.core.codec import decode_image
from polyptrace.data import Dataset, prepare, read_coco
from polyptrace.film_strips import (
    CropImages,
    TrackImages,
    crops_with_boxes,
    data_uri,
    draw_box,
    film_strip,
)


def test_frames_are_in_order_on_the_strip() -> None:
    frames = np.stack([np.full((36, 36, 3), value, np.uint8) for value in (50, 100, 150)])
    strip = film_strip(frames)
    line = strip[strip.shape[0] // 2, :, 0]
    seen = [value for value in dict.fromkeys(line.tolist()) if value in (50, 100, 150)]
    assert seen == [50, 100, 150]
    assert strip.shape[0] > 36


def test_an_upright_strip_is_higher_than_wide_and_its_frames_stay_upright() -> None:
    frame = np.zeros((36, 36, 3), np.uint8)
    frame[:18] = 200  # bright above, dark below
    strip = film_strip(np.stack([frame] * 3), upright=True)
    assert strip.shape[0] > 2 * strip.shape[1]
    middle = strip[:, strip.shape[1] // 2, 0]
    first = int(np.argmax(middle == 200))
    assert middle[first + 2] == 200
    assert middle[first + 30] == 0


def test_smaller_frames_keep_their_mean() -> None:
    frames = np.random.default_rng(0).integers(0, 255, (2, 64, 64, 3)).astype(np.uint8)
    assert abs(crops_with_boxes(frames, None, 16).mean() - frames.mean()) < 1


def test_frames_are_spread_over_the_tracklet(coloured: Dataset) -> None:
    index = int(coloured.select("track")[0])
    rows = coloured.tracklets.rows[index]
    shown = CropImages(coloured).frames(index, 4, 32, boxes=False)
    np.testing.assert_array_equal(shown, coloured.crops[rows[[2, 6, 10, 14]]])
    assert len(CropImages(coloured).frames(index, 99, 32)) == len(rows)


def test_tracks_are_found_by_their_ids_and_others_are_not(coloured: Dataset) -> None:
    images = TrackImages.of([coloured])
    table, index = coloured.tracklets, int(coloured.select("track")[3])
    key = (table.dataset[index], table.video[index], int(table.track[index]), int(table.position[index]))
    assert images.strip(key, 3) is not None
    assert images.still(key, 20).shape == (20, 20, 3)
    assert images.strip(("elsewhere", *key[1:]), 3) is None


def test_a_picture_in_a_page_is_a_jpeg_of_the_same_colours() -> None:
    picture = np.full((40, 24, 3), (200, 30, 90), np.uint8)
    uri = data_uri(picture)
    head, _, data = uri.partition(",")
    assert head == "data:image/jpeg;base64"
    decoded = decode_image(base64.b64decode(data)).permute(1, 2, 0).numpy()
    assert decoded.shape == picture.shape
    assert np.abs(decoded.astype(int) - picture).max() < 12


def test_a_box_is_drawn_where_it_is_and_stays_inside_the_frame() -> None:
    frame = np.full((100, 100, 3), 90, np.uint8)
    draw_box(frame, np.array([0.4, 0.3, 0.2, 0.4]))
    white = np.argwhere((frame == 255).all(-1))
    assert white.min(0).tolist() == [30, 40]
    assert white.max(0).tolist() == [70, 60]
    assert (frame[35:65, 45:55] == 90).all()  # nothing inside the box
    for box in ([-0.5, -0.5, 3, 3], [0.99, 0.99, 0.5, 0.5], [0, 0, 0, 0]):
        draw_box(frame, np.array(box))  # no index error


def test_each_crop_shows_its_own_detection_box(tiny: Path, tmp_path: Path) -> None:
    boxes = read_coco(tiny, split="test")
    dataset = prepare(boxes, tiny, tmp_path / "data", crops=Crops(size=64))
    images = CropImages(dataset)
    fractions = images.box_in_crop
    assert len(fractions) == len(dataset.crops)
    assert (fractions[:, :2] > -0.05).all()
    assert (fractions[:, :2] + fractions[:, 2:] < 1.05).all()
    assert fractions[:, 2:].min() == pytest.approx(0.2, abs=0.01)  # the box scaled by 5, less at the border
    tracklet = int(dataset.select("track")[0])
    plain = images.frames(tracklet, 2, 64, boxes=False)
    shown = images.frames(tracklet, 2, 64)
    assert (plain != shown).any((1, 2, 3)).all()
    assert (shown == 255).all(-1).sum() > 2 * 4 * 5
