"""Which tracks were taken for the same polyp, as a list."""

import csv
from pathlib import Path

import numpy as np

from polyptrace.evaluate.track_list import write_track_list


def test_tracks_are_listed_in_time_and_polyps_numbered_as_they_appear_in_each_video(tmp_path: Path) -> None:
    arrays = {
        "tracks/dataset": np.array(["d"] * 5),
        "tracks/video": np.array(["b", "a", "a", "a", "b"]),
        "tracks/track": np.array([0, 1, 2, 3, 4]),
        "tracks/position": np.array([50, 200, 0, 100, 10]),
        "tracks/last": np.array([90, 240, 40, 140, 45]),
        "tracks/polyp": np.array(["", "", "p", "", ""]),
        "counting.threshold/cluster": np.array([0, 0, 7, 0, 3]),
    }
    assert write_track_list(tmp_path / "tracks.csv", arrays)
    rows = list(csv.reader((tmp_path / "tracks.csv").open(encoding="utf-8")))
    assert rows[0] == ["dataset", "video", "track", "first_frame", "last_frame", "polyp", "threshold"]
    assert [row[1:] for row in rows[1:]] == [
        ["a", "2", "0", "40", "p", "1"],
        ["a", "3", "100", "140", "", "2"],
        ["a", "1", "200", "240", "", "2"],
        ["b", "4", "10", "45", "", "1"],
        ["b", "0", "50", "90", "", "2"],
    ]


def test_nothing_is_written_where_nothing_was_counted(tmp_path: Path) -> None:
    assert not write_track_list(tmp_path / "tracks.csv", {"tracks/track": np.arange(3)})
    assert not (tmp_path / "tracks.csv").exists()
