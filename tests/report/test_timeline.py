"""Procedures on a line of time."""

from dataclasses import replace

import numpy as np

from polyptrace.core.console import counted
from polyptrace.data import Dataset
from polyptrace.drawing import POLYP_COLOURS, inline
from polyptrace.evaluate import Results
from polyptrace.film_strips import TrackImages
from polyptrace.report.timeline import counted_procedures, draw_timeline, found_text, shown_clustering


def test_procedures_hold_their_own_tracks_in_order_of_time(rows: list[Results], coloured: Dataset) -> None:
    actual, total = counted_procedures(rows[0], "counting.temporal", count=2)
    assert (len(actual), total) == (2, 3)
    for procedure in actual:
        own = coloured.tracklets.video[coloured.select("track")] == procedure.video
        assert len(procedure.track) == own.sum()
        assert (np.diff(procedure.first) >= 0).all()
        assert procedure.cluster[0] == 0


def test_clusters_are_those_of_the_results_under_other_numbers(rows: list[Results]) -> None:
    row, task = rows[0], "counting.temporal"
    procedure = counted_procedures(row, task)[0][0]
    index = row.arrays[f"{task}/index"]
    of_track = {
        int(row.arrays["tracks/track"][index[n]]): int(row.arrays[f"{task}/cluster"][n])
        for n in range(len(index))
        if row.arrays["tracks/video"][index[n]] == procedure.video
    }
    cluster = np.array([of_track[track] for track in procedure.track.tolist()])
    np.testing.assert_array_equal(
        cluster[:, None] == cluster[None], procedure.cluster[:, None] == procedure.cluster[None]
    )


def test_a_timeline_says_how_many_were_found_and_how_many_there_are(rows: list[Results], coloured: Dataset) -> None:
    procedure = counted_procedures(rows[0], "counting.temporal")[0][0]
    drawing = draw_timeline(procedure, TrackImages.of([coloured]), 0, found_text("Ours", procedure.cluster))
    assert "Truth: 2 polyps" in drawing.svg
    assert f"Ours: {procedure.cluster.max() + 1} polyp" in drawing.svg
    assert drawing.svg.count("<image") == procedure.cluster.max() + 1 + 2


def test_bars_and_their_numbers_have_the_same_colours_in_dark_mode(rows: list[Results]) -> None:
    procedure = counted_procedures(rows[0], "counting.temporal")[0][0]
    wide = replace(procedure, last=procedure.first + 10 * int(np.ptp(procedure.first)))
    text = inline(draw_timeline(wide, None, 0, found_text("Ours", procedure.cluster)))
    assert "fill: #ffffff" in text
    assert f"fill: {POLYP_COLOURS[0]}" in text


def test_without_labels_there_is_no_truth(rows: list[Results]) -> None:
    procedure = counted_procedures(rows[0], "counting.temporal")[0][0]
    drawing = draw_timeline(
        replace(procedure, polyp=np.full(len(procedure.track), "")), None, 0, found_text("Ours", procedure.cluster)
    )
    assert " found<" in drawing.svg
    assert "Truth" not in drawing.svg
    assert "<image" not in drawing.svg


def test_the_lesions_are_shown_if_they_were_counted(rows: list[Results]) -> None:
    assert shown_clustering(rows[0]) == "counting.lesions"
    without = {name: task for name, task in rows[0].tasks.items() if name != "counting.lesions"}
    assert shown_clustering(replace(rows[0], tasks=without)) == "counting.temporal"
    assert shown_clustering(replace(rows[0], tasks={})) is None


def test_without_labels_a_baseline_is_shown_on_the_same_tracks(rows: list[Results]) -> None:
    row, baseline = (unlabelled(one) for one in (rows[0], rows[-1]))
    procedure = counted_procedures(row, "counting.temporal", baseline=baseline)[0][0]
    alone = counted_procedures(baseline, "counting.temporal")[0]
    expected = next(other for other in alone if other.video == procedure.video)
    assert procedure.baseline is not None
    np.testing.assert_array_equal(procedure.baseline, expected.cluster)
    drawing = draw_timeline(procedure, None, 0, found_text("Ours", procedure.cluster), "Colour grid")
    assert f"Colour grid: {counted(int(expected.cluster.max()) + 1, 'polyp')} found" in drawing.svg
    assert "Truth" not in drawing.svg


def unlabelled(row: Results) -> Results:
    """The same results without polyps."""
    return replace(row, arrays={**row.arrays, "tracks/polyp": np.full_like(row.arrays["tracks/polyp"], "")})
