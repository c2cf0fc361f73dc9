"""Maps of tracks."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from polyptrace.drawing import POLYP_COLOURS, SOFT, Drawing
from polyptrace.embed import Embeddings
from polyptrace.evaluate import Results, evaluate
from polyptrace.report.track_map import mapped_tracks, project_2d, track_map


def draw(row: Results) -> Drawing:
    """The map of a row."""
    mapped = mapped_tracks(row)
    assert mapped is not None
    return track_map(mapped, row.method.name, 0)


def test_the_same_vectors_give_the_same_map_and_groups_stay_together() -> None:
    random = np.random.default_rng(0)
    group = np.repeat(np.arange(3), 12)
    vectors = 5 * np.eye(8)[group] + random.normal(scale=0.1, size=(36, 8))
    points = project_2d(vectors)
    np.testing.assert_array_equal(points, project_2d(vectors))
    distance = np.linalg.norm(points[:, None] - points[None], axis=2) + np.eye(36) * 1e9
    assert (group[distance.argmin(1)] == group).all()


def test_few_or_equal_vectors_have_places_too() -> None:
    assert project_2d(np.eye(3)).shape == (3, 2)
    assert not project_2d(np.ones((20, 8))).any()
    assert project_2d(np.empty((0, 8))).shape == (0, 2)


def test_a_map_shows_the_tracks_that_results_kept(rows: list[Results]) -> None:
    mapped = mapped_tracks(rows[0])
    assert mapped is not None
    assert len(mapped.vectors) == len(mapped.group) == 24
    assert mapped.by_polyp
    assert len(set(mapped.group)) == 6
    drawing = draw(rows[0])
    assert "24 tracks of 6 polyps" in drawing.description
    assert "procedure" not in drawing.svg


def test_the_map_shows_the_counted_tracks_if_there_were_none_to_rank() -> None:
    tracklets = Embeddings.from_columns({"vectors": np.eye(3), "unit": np.full(3, "tracklet")})
    tracks = Embeddings.from_columns({"vectors": np.eye(5), "video": np.full(5, "v"), "track": np.arange(5)})
    row = evaluate({"retrieval": tracklets, "counting": tracks}, ["retrieval", "counting"])
    mapped = mapped_tracks(row)
    assert mapped is not None
    assert not mapped.by_polyp
    assert mapped.group.tolist() == ["/v"] * 5


def test_without_labels_colours_are_those_of_procedures_and_a_legend_says_so(unlabelled: Path) -> None:
    row = Results.load(unlabelled)
    drawing = draw(row)
    assert "24 tracks of 3 procedures" in drawing.description
    assert "Colour and marker: procedure" in drawing.svg
    for number, name in enumerate(("v0", "v1", "v2")):
        assert f">{name}<" in drawing.svg
        assert POLYP_COLOURS[number] in drawing.svg
    assert POLYP_COLOURS[3] not in drawing.svg
    assert SOFT not in drawing.svg.replace(f"stroke: {SOFT}", "")


def test_a_legend_of_many_procedures_names_some_and_counts_the_others(unlabelled: Path) -> None:
    row = Results.load(unlabelled)
    videos = np.array([f"case_{number:02d}" for number in range(24)])
    drawing = draw(replace(row, arrays={**row.arrays, "tracks/video": videos}))
    assert ">case_11<" in drawing.svg
    assert ">case_12<" not in drawing.svg
    assert ">and 12 more<" in drawing.svg


def test_tracks_of_no_known_polyp_or_procedure_are_grey(unlabelled: Path) -> None:
    row = Results.load(unlabelled)
    drawing = draw(replace(row, arrays={**row.arrays, "tracks/video": np.full(24, "")}))
    assert drawing.description == "Map of 24 tracks by Mine."
    assert "procedure" not in drawing.svg


def test_results_without_vectors_have_no_map(rows: list[Results]) -> None:
    kept = {name: values for name, values in rows[0].arrays.items() if "plane" not in name}
    assert mapped_tracks(replace(rows[0], arrays=kept)) is None
