"""Procedures on a line of time."""

from dataclasses import replace

import numpy as np

from polyptrace.data import Dataset
from polyptrace.evaluate import Results
from polyptrace.report.film import Pictures
from polyptrace.report.timeline import procedures, shown_way, timeline


def test_procedures_hold_their_own_tracks_in_order_of_time(rows: list[Results], coloured: Dataset) -> None:
    found, total = procedures(rows[0], "counting.temporal", most=2)
    assert (len(found), total) == (2, 3)
    for procedure in found:
        own = coloured.tracklets.video[coloured.select("track")] == procedure.video
        assert len(procedure.rows) == own.sum()
        assert (np.diff(procedure.first) >= 0).all()
        assert procedure.cluster[0] == 0


def test_clusters_are_those_of_the_results_under_other_numbers(rows: list[Results]) -> None:
    way = "counting.temporal"
    procedure = procedures(rows[0], way)[0][0]
    told = rows[0].arrays[f"{way}/cluster"][procedure.rows]
    same = told[:, None] == told[None]
    np.testing.assert_array_equal(same, procedure.cluster[:, None] == procedure.cluster[None])


def test_a_timeline_says_how_many_were_found_and_how_many_there_are(rows: list[Results], coloured: Dataset) -> None:
    procedure = procedures(rows[0], "counting.temporal")[0][0]
    drawing = timeline(procedure, Pictures.of([coloured]), 0)
    assert "Truth: 2 polyps" in drawing.svg
    assert f"Found: {procedure.cluster.max() + 1} polyp" in drawing.svg
    assert drawing.svg.count("<image") == procedure.cluster.max() + 1 + 2


def test_without_labels_there_is_no_truth(rows: list[Results]) -> None:
    procedure = procedures(rows[0], "counting.temporal")[0][0]
    drawing = timeline(replace(procedure, polyp=np.full(len(procedure.rows), "")), None, 0)
    assert "Found" in drawing.svg
    assert "Truth" not in drawing.svg
    assert "<image" not in drawing.svg


def test_the_temporal_clustering_is_shown_if_it_was_done(rows: list[Results]) -> None:
    assert shown_way(rows[0]) == "counting.temporal"
    without = {name: task for name, task in rows[0].tasks.items() if name != "counting.temporal"}
    assert shown_way(replace(rows[0], tasks=without)) == "counting.affinity"
    assert shown_way(replace(rows[0], tasks={})) is None
