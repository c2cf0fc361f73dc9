"""The cards of lesions; tests/lesions/test_command.py checks the whole page and its tables."""

import numpy as np

from polyptrace.embed import Embeddings
from polyptrace.lesions.pictures import BestFrame
from polyptrace.report.lesion_page import Lesion, best_of_sightings


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
