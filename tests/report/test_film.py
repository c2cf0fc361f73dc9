"""Film strips and pictures in a page."""

import base64

import numpy as np

from polyptrace.core.codec import decode
from polyptrace.data import Dataset
from polyptrace.report.film import Pictures, data_uri, film, frames_of, resized


def test_frames_stand_in_order_on_the_strip() -> None:
    frames = np.stack([np.full((36, 36, 3), value, np.uint8) for value in (50, 100, 150)])
    strip = film(frames)
    line = strip[strip.shape[0] // 2, :, 0]
    seen = [value for value in dict.fromkeys(line.tolist()) if value in (50, 100, 150)]
    assert seen == [50, 100, 150]
    assert strip.shape[0] > 36


def test_an_upright_strip_is_higher_than_wide_and_its_frames_stay_upright() -> None:
    frame = np.zeros((36, 36, 3), np.uint8)
    frame[:18] = 200  # bright above, dark below
    strip = film(np.stack([frame] * 3), upright=True)
    assert strip.shape[0] > 2 * strip.shape[1]
    middle = strip[:, strip.shape[1] // 2, 0]
    first = int(np.argmax(middle == 200))
    assert middle[first + 2] == 200
    assert middle[first + 30] == 0


def test_smaller_frames_keep_their_mean() -> None:
    frames = np.random.default_rng(0).integers(0, 255, (2, 64, 64, 3)).astype(np.uint8)
    assert abs(resized(frames, 16).mean() - frames.mean()) < 1


def test_frames_are_spread_over_the_tracklet(coloured: Dataset) -> None:
    index = int(coloured.select("track")[0])
    rows = coloured.tracklets.rows[index]
    shown = frames_of(coloured, index, 4, 32)
    np.testing.assert_array_equal(shown, coloured.crops[rows[[2, 6, 10, 14]]])
    assert len(frames_of(coloured, index, 99, 32)) == len(rows)


def test_tracks_are_found_by_their_ids_and_others_are_not(coloured: Dataset) -> None:
    pictures = Pictures.of([coloured])
    table, index = coloured.tracklets, int(coloured.select("track")[3])
    key = (table.dataset[index], table.video[index], int(table.track[index]), int(table.position[index]))
    assert pictures.strip(key) is not None
    assert pictures.still(key, 20).shape == (20, 20, 3)
    assert pictures.strip(("elsewhere", *key[1:])) is None


def test_a_picture_in_a_page_is_a_jpeg_of_the_same_colours() -> None:
    picture = np.full((40, 24, 3), (200, 30, 90), np.uint8)
    uri = data_uri(picture)
    head, _, data = uri.partition(",")
    assert head == "data:image/jpeg;base64"
    decoded = decode(base64.b64decode(data)).permute(1, 2, 0).numpy()
    assert decoded.shape == picture.shape
    assert np.abs(decoded.astype(int) - picture).max() < 12
