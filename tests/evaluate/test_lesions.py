"""lesions.csv: which lesion each track was taken for."""

import csv
from pathlib import Path

import numpy as np

from polyptrace.embed import Embeddings
from polyptrace.evaluate import evaluate
from polyptrace.evaluate.lesions import lesion_rows


def test_lesions_are_numbered_within_a_procedure_as_they_are_first_seen() -> None:
    arrays = {
        "tracks/dataset": np.full(5, "d"),
        "tracks/video": np.array(["b", "a", "a", "a", "b"]),
        "tracks/track": np.array([0, 2, 0, 1, 1]),
        "tracks/position": np.array([0, 50, 0, 25, 40]),
        "tracks/last": np.array([9, 59, 9, 34, 49]),
        "tracks/fps": np.array([25.0, 10, 10, 10, np.nan]),
        "tracks/polyp": np.array(["", "p", "p", "q", ""]),
        "counting.threshold/index": np.arange(5),
        "counting.threshold/cluster": np.array([7, 3, 3, 9, 8]),
        "counting.temporal/index": np.array([0, 2]),
        "counting.temporal/cluster": np.array([1, 0]),
    }
    rows = lesion_rows(arrays, {"counting.threshold": "tracks", "counting.temporal": "tracks"})
    assert rows[0][-2:] == ["lesion_threshold", "lesion_temporal"]
    assert rows[1:] == [
        ["d", "a", "0", "0", "9", "0.00", "0.90", "p", "1", "1"],
        ["d", "a", "1", "25", "34", "2.50", "3.40", "q", "2", ""],
        ["d", "a", "2", "50", "59", "5.00", "5.90", "p", "1", ""],
        ["d", "b", "0", "0", "9", "0.00", "0.36", "", "1", "1"],
        ["d", "b", "1", "40", "49", "", "", "", "2", ""],
    ]


def test_a_results_folder_has_the_table_where_lesions_were_counted(tmp_path: Path) -> None:
    vectors = np.repeat(np.eye(3), [2, 1, 1], axis=0)
    columns = {"vectors": vectors, "video": np.full(4, "v"), "track": np.arange(4), "position": np.arange(4) * 100}
    embeddings = Embeddings.from_columns(columns)
    evaluate({"counting": embeddings}, ["counting"]).save(tmp_path / "counted")
    lines = list(csv.DictReader((tmp_path / "counted/lesions.csv").open(encoding="utf-8")))
    assert [line["lesion_threshold"] for line in lines] == ["1", "1", "2", "3"]
    evaluate({"retrieval": embeddings}, ["retrieval"]).save(tmp_path / "ranked")
    assert not (tmp_path / "ranked/lesions.csv").exists()
