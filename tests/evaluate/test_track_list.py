"""Which tracks were taken for the same polyp, as a list."""

import csv
from pathlib import Path

import numpy as np

from polyptrace.embed import Embeddings
from polyptrace.evaluate import evaluate
from polyptrace.evaluate.track_list import track_list


def test_tracks_are_listed_in_time_and_polyps_numbered_as_they_appear_in_each_video() -> None:
    arrays = {
        "tracks/dataset": np.array(["d"] * 5),
        "tracks/video": np.array(["b", "a", "a", "a", "b"]),
        "tracks/track": np.array([0, 1, 2, 3, 4]),
        "tracks/position": np.array([50, 200, 0, 100, 10]),
        "tracks/last": np.array([90, 240, 40, 140, 45]),
        "tracks/fps": np.array([np.nan, 20, 20, 20, np.nan]),
        "tracks/polyp": np.array(["", "", "p", "", ""]),
        "counting.threshold/cluster": np.array([0, 0, 7, 0, 3]),
        "counting.temporal/cluster": np.array([1, 2, 2, 2, 1]),
    }
    lines = track_list(arrays)
    assert lines[0][5:] == ["start_s", "end_s", "polyp", "threshold", "temporal"]
    assert [line[1:] for line in lines[1:]] == [
        ["a", "2", "0", "40", "0.00", "2.00", "p", "1", "1"],
        ["a", "3", "100", "140", "5.00", "7.00", "", "2", "1"],
        ["a", "1", "200", "240", "10.00", "12.00", "", "2", "1"],
        ["b", "4", "10", "45", "", "", "", "1", "1"],
        ["b", "0", "50", "90", "", "", "", "2", "1"],
    ]


def test_a_results_folder_has_the_list_where_polyps_were_counted(tmp_path: Path) -> None:
    vectors = np.repeat(np.eye(3), [2, 1, 1], axis=0)
    columns = {"vectors": vectors, "video": np.full(4, "v"), "track": np.arange(4), "position": np.arange(4) * 100}
    embeddings = Embeddings.from_columns(columns)
    evaluate({"counting": embeddings}, ["counting"]).save(tmp_path / "counted")
    lines = list(csv.DictReader((tmp_path / "counted/tracks.csv").open(encoding="utf-8")))
    assert [line["threshold"] for line in lines] == ["1", "1", "2", "3"]
    evaluate({"retrieval": embeddings}, ["retrieval"]).save(tmp_path / "ranked")
    assert not (tmp_path / "ranked/tracks.csv").exists()
