"""The results folder: saved and loaded unchanged, checked on load, and tracks.csv."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyptrace.core.errors import UserError
from polyptrace.embed import Embeddings
from polyptrace.evaluate import Results, evaluate
from polyptrace.evaluate.results import Method, Task, track_list


@pytest.fixture(scope="module")
def results() -> Results:
    rng = np.random.default_rng(0)
    polyp = np.repeat([f"p{n}" for n in range(6)], 3)
    columns = {
        "vectors": rng.standard_normal((18, 4)),
        "polyp": polyp,
        "video": np.repeat(["a", "b", "c"], 6),
        "track": np.arange(18),
        "position": np.arange(18) * 100,
    }
    tasks = ("retrieval", "reid", "counting")
    return evaluate(dict.fromkeys(tasks, Embeddings.from_columns(columns)), tasks)


def test_results_are_loaded_as_they_were_saved(results: Results, tmp_path: Path) -> None:
    replace(results, generated=True).save(tmp_path / "R")
    loaded = Results.load(tmp_path / "R")
    assert loaded.method == results.method
    assert loaded.tasks == results.tasks
    assert loaded.generated
    assert loaded.arrays.keys() == results.arrays.keys()
    for name, values in results.arrays.items():
        np.testing.assert_array_equal(values, loaded.arrays[name])
    content = json.loads((tmp_path / "R" / "results.json").read_text())
    assert (content["format"], content["version"], content["generated"]) == ("polyptrace-results", 2, True)
    assert content["tasks"]["retrieval"]["metrics"]["map"]["n"] == content["tasks"]["retrieval"]["counts"]["queries"]


def test_an_undefined_bound_is_null_in_json_and_nan_when_loaded(results: Results, tmp_path: Path) -> None:
    task = results.tasks["reid"]
    undefined = replace(task, metrics={"auroc": replace(task.metrics["auroc"], low=float("nan"))})
    replace(results, tasks={"reid": undefined}).save(tmp_path / "R")
    content = json.loads((tmp_path / "R" / "results.json").read_text())
    assert content["tasks"]["reid"]["metrics"]["auroc"]["low"] is None
    assert np.isnan(Results.load(tmp_path / "R").tasks["reid"].metrics["auroc"].low)


def test_a_folder_without_results_is_an_error(results: Results, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Q: no such folder -> "):
        Results.load(tmp_path / "Q")
    with pytest.raises(UserError, match="contains no results -> give a folder that 'polyptrace evaluate' wrote"):
        Results.load(tmp_path)
    results.save(tmp_path / "R")
    (tmp_path / "R" / "arrays.npz").write_bytes(b"broken")
    with pytest.raises(UserError, match="evaluate again"):
        Results.load(tmp_path / "R")
    (tmp_path / "R" / "results.json").write_text('{"format": "other"}')
    with pytest.raises(UserError, match="not a results folder"):
        Results.load(tmp_path / "R")


def change(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Sets a field of the JSON content, or removes it with `...`."""

    def apply(content: dict[str, Any]) -> None:
        *parents, last = path.split("/")
        for parent in parents:
            content = content[parent]
        if value is ...:
            del content[last]
        else:
            content[last] = value

    return apply


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (change("version", 1), "results of version 1, not 2"),
        (change("method", ...), "results.json: method: is missing"),
        (change("method/name", 3), "results.json: method.name: 3 is not text"),
        (change("method/group", "?"), r"results.json: method: .*group '\?' is unknown"),
        (change("tasks/reid/metrics/auroc/value", "high"), "tasks.reid.metrics.auroc.value: 'high' is not a number"),
        (change("tasks/reid/metrics/auroc/n", 1.5), "tasks.reid.metrics.auroc.n: 1.5 is not a whole number"),
        (change("tasks/reid/status", "maybe"), "tasks.reid.status: 'maybe' is not one of"),
        (change("tasks", []), r"results.json: tasks: \[\] is not an object"),
        (change("extra", 1), "results.json: extra: is not a known field"),
    ],
)
def test_a_damaged_field_of_results_json_is_named(
    results: Results, tmp_path: Path, edit: Callable[[dict[str, Any]], None], message: str
) -> None:
    results.save(tmp_path / "R")
    path = tmp_path / "R" / "results.json"
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=message):
        Results.load(tmp_path / "R")


@pytest.mark.parametrize(
    ("array", "values", "message"),
    [
        ("retrieval/draws/map", None, "retrieval/draws/map: is missing"),
        ("retrieval/draws/map", np.array(["x"]), "retrieval/draws/map: is not an array of draws"),
        ("retrieval/query", np.full(18, 99), "retrieval/query: refers to rows outside tracks"),
        ("retrieval/top", np.full((18, 5), -2), "retrieval/top: refers to rows outside tracks"),
        ("retrieval/ap", np.zeros(3), "retrieval/ap: does not have the length of retrieval/query"),
        (
            "counting.threshold/cluster",
            np.zeros(3, int),
            "cluster: does not have the length of counting.threshold/index",
        ),
    ],
)
def test_a_damaged_array_is_named(
    results: Results, tmp_path: Path, array: str, values: np.ndarray | None, message: str
) -> None:
    results.save(tmp_path / "R")
    arrays = {name: each for name, each in results.arrays.items() if name != array}
    np.savez(tmp_path / "R" / "arrays.npz", **(arrays if values is None else arrays | {array: values}))
    with pytest.raises(UserError, match=f"arrays.npz: .*{message}"):
        Results.load(tmp_path / "R")


def test_an_unknown_group_or_label_use_is_an_error() -> None:
    with pytest.raises(UserError, match="Endoscopy FM"):
        Method("x", group="Endoscopy")
    with pytest.raises(UserError, match="label-free given tracks"):
        Method("x", labels="none")


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
    tasks = dict.fromkeys(("counting.threshold", "counting.temporal"), Task("track", "tracks"))
    lines = track_list(tasks, arrays)
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


@pytest.mark.parametrize("ranked", [2, 7])
def test_the_list_has_the_tracks_that_were_counted_if_others_were_ranked(tmp_path: Path, ranked: int) -> None:
    def tracks(number: int) -> Embeddings:
        columns = {"vectors": np.eye(8)[:number], "video": np.full(number, f"v{number}"), "track": np.arange(number)}
        return Embeddings.from_columns(columns)

    evaluate({"retrieval": tracks(ranked), "counting": tracks(4)}, ["retrieval", "counting"]).save(tmp_path / "R")
    lines = list(csv.DictReader((tmp_path / "R/tracks.csv").open(encoding="utf-8")))
    assert [(line["video"], line["track"], line["threshold"]) for line in lines] == [
        ("v4", str(number), str(number + 1)) for number in range(4)
    ]


def test_a_name_that_is_a_formula_is_neutralised_in_the_list(tmp_path: Path) -> None:
    columns = {"vectors": np.eye(2), "video": np.array(["=cmd()", "=cmd()"]), "track": np.arange(2)}
    evaluate({"counting": Embeddings.from_columns(columns)}, ["counting"]).save(tmp_path / "R")
    with (tmp_path / "R" / "tracks.csv").open(encoding="utf-8") as file:
        assert {line["video"] for line in csv.DictReader(file)} == {"'=cmd()"}
