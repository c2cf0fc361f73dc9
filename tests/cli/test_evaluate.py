"""`polyptrace evaluate` as a user calls it."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.command import call


@pytest.fixture
def theirs(tmp_path):
    rng = np.random.default_rng(0)
    polyp = np.repeat(np.arange(12), 5)
    np.savez(
        tmp_path / "theirs.npz",
        vectors=rng.standard_normal((12, 8))[polyp] + 0.5 * rng.standard_normal((60, 8)),
        polyp=polyp,
        video=polyp // 3,
        histology=np.where(polyp % 2, "villous", "HP"),
    )
    return tmp_path / "theirs.npz"


def test_vectors_of_other_programs_are_evaluated_and_the_table_is_printed(theirs, tmp_path, capsys):
    code = call(
        "evaluate",
        *("retrieval", "reid", "--embeddings", theirs, "--out", tmp_path / "R", "--evaluate.bootstrap", "40"),
        *("--name", "Theirs", "--group", "Endoscopy FM", "--trained-on-test", "size", "--evaluate.cluster=polyp"),
    )
    assert code == 0
    content = json.loads((tmp_path / "R" / "results.json").read_text())
    assert content["method"]["name"] == "Theirs"
    assert content["method"]["group"] == "Endoscopy FM"
    assert content["method"]["trained_on_test"] == ["size"]
    assert content["settings"]["evaluate"]["bootstrap"] == 40
    assert content["settings"]["evaluate"]["cluster"] == "polyp"
    assert content["tasks"]["retrieval"]["drawn"] == 12
    assert len(content["embeddings"][0]["sha256"]) == 64
    assert "size" not in content["tasks"]
    shown = capsys.readouterr().out
    assert f"{100 * content['tasks']['retrieval']['metrics']['map']['value']:.2f}" in shown
    assert "no polyp is seen in two procedures" in shown


@pytest.mark.parametrize("name", ["Ours [v2]", "a[/b]"])
def test_a_name_with_brackets_is_printed_as_it_is(name, theirs, tmp_path, capsys):
    words = ("--embeddings", theirs, "--out", tmp_path / "R", "--evaluate.bootstrap", "20", "--name", name)
    assert call("evaluate", "retrieval", *words) == 0
    assert name in capsys.readouterr().out


def test_all_tasks_run_by_default_and_give_reasons(theirs, tmp_path, capsys):
    quick = ("--evaluate.bootstrap", "20", "--evaluate.repeats", "2")
    assert call("evaluate", "--embeddings", theirs, "--out", tmp_path / "R", "--histology", "villous=1", *quick) == 0
    tasks = json.loads((tmp_path / "R" / "results.json").read_text())["tasks"]
    assert tasks["histology"]["status"] == "done"
    assert tasks["histology"]["counts"]["polyps_of_class_1"] == 6
    assert tasks["size"]["status"] == "skipped"
    assert "size_mm" in capsys.readouterr().out


def test_without_labels_and_videos_nothing_is_written(tmp_path, capsys):
    np.savez(tmp_path / "bare.npz", vectors=np.eye(4))
    assert call("evaluate", "--embeddings", tmp_path / "bare.npz", "--out", tmp_path / "R") == 2
    shown = capsys.readouterr()
    assert "needs polyp labels" in shown.out
    assert "nothing could be evaluated -> add what is missing" in shown.err
    assert not (tmp_path / "R").exists()


def test_a_remark_that_several_tasks_share_is_printed_once(theirs, tmp_path, capsys):
    words = ("reid", "size", "--embeddings", theirs, "--out", tmp_path / "R", "--evaluate.bootstrap", "20")
    assert call("evaluate", *words) == 0
    remarks = {}
    for name, task in json.loads((tmp_path / "R" / "results.json").read_text())["tasks"].items():
        remarks.setdefault(task["reason"], []).append(name)
    shared = next(remark for remark, names in remarks.items() if remark and len(names) > 1)
    shown = capsys.readouterr().out
    assert shown.count(shared) == 1
    assert ", ".join(remarks[shared]) in shown


def test_seeds_are_combined(theirs, tmp_path):
    for seed in (0, 1):
        words = ("retrieval", "--embeddings", theirs, "--name", "Theirs", "--evaluate.bootstrap", "20")
        assert call("evaluate", *words, "--out", tmp_path / f"R{seed}") == 0
    assert call("evaluate", "--combine", tmp_path / "R0", "--combine", tmp_path / "R1", "--out", tmp_path / "R") == 0
    assert json.loads((tmp_path / "R" / "results.json").read_text())["method"]["seeds"] == 2


@pytest.mark.parametrize("command", [["evaluate", "--combine", "R", "--combine", "x/../R"], ["report", "R", "R"]])
def test_one_folder_is_not_two_training_seeds(command, theirs, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").mkdir()
    assert call("evaluate", "retrieval", "--embeddings", theirs, "--evaluate.bootstrap", "20", "--out", "R") == 0
    assert call(*command, "--out", "out") == 2
    assert "R: is given twice" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["paris"], "task 'paris'"),
        (["retrieval"], "no embeddings"),
        (["retrieval", "--embeddings", "nowhere"], "no such file"),
        (["size", "--embeddings-for", "size"], "not TASK=PATH"),
        (["retrieval", "--evaluate.bootstrp", "9", "--embeddings", "x"], "did you mean --evaluate.bootstrap?"),
        (["retrieval", "--embedding", "x"], "--embedding: no such option or setting -> did you mean --embeddings?"),
        (["histology", "--histology", "villous=2"], "not NAME=LABEL"),
        (["size", "--combine", "R0"], "--combine: takes no size -> leave it out"),
        (["--combine", "R0", "--evaluate.bootstrap", "9"], "--combine: takes no --evaluate.bootstrap -> leave it out"),
        (["--combine", "R0", "--embeddings", "x"], "--combine: takes no --embeddings -> leave it out"),
        (["size", "--train-for", "sizes=x"], "task 'sizes'"),
        (["reid", "--train-for", "size=x"], "--train-for size: this task is not evaluated"),
        (["reid", "--embeddings-for", "size=x"], "--embeddings-for size: this task is not evaluated"),
        (["retrieval", "--embeddings", "x", "--group", "Ours"], "group 'Ours' is unknown -> use Baseline"),
        (["retrieval", "--embeddings", "x", "--labels", "none"], "label use 'none' is unknown -> use label-free"),
        (["retrieval", "--embeddings", "x", "--trained-on-test", "sizes"], "task 'sizes'"),
    ],
)
def test_errors_are_one_line_and_exit_code_two(words, message, tmp_path, capsys):
    assert call("evaluate", *words, "--out", tmp_path / "R") == 2
    assert message in capsys.readouterr().err.replace("\n", " ")
    assert not (tmp_path / "R").exists()


def test_a_report_is_not_replaced_by_results(theirs, tmp_path, capsys):
    words = ("retrieval", "--embeddings", theirs, "--evaluate.bootstrap", "20")
    assert call("evaluate", *words, "--out", tmp_path / "R") == 0
    assert call("report", tmp_path / "R", "--out", tmp_path / "report") == 0
    assert call("evaluate", *words, "--out", tmp_path / "report", "--overwrite") == 2
    assert "this command did not write it" in capsys.readouterr().err.replace("\n", " ")
    assert call("evaluate", *words, "--out", tmp_path / "R", "--overwrite") == 0


def test_an_unknown_histology_is_an_error_that_shows_how_to_map_it(theirs, tmp_path, capsys):
    assert call("evaluate", "histology", "--embeddings", theirs, "--out", tmp_path / "R") == 2
    assert "--histology NAME=1" in capsys.readouterr().err.replace("\n", " ")


def test_the_help_lists_every_column(capsys):
    assert call("evaluate", "--help") == 0
    shown = capsys.readouterr().out
    for column in ("vectors", "vector", "polyp", "video", "size_mm", "histology", "position", "last", "fps", "unit"):
        assert column in shown


def test_a_published_split_is_given_as_two_inputs(theirs, tmp_path):
    with np.load(theirs) as archive:
        columns = dict(archive) | {"track": np.arange(60), "histology": np.where(archive["polyp"] % 2, "AD", "HP")}
    for name, rows in (("train", columns["polyp"] < 8), ("test", columns["polyp"] >= 8)):
        np.savez(tmp_path / f"{name}.npz", **{key: values[rows] for key, values in columns.items()})
    words = ("histology", "--embeddings", tmp_path / "test.npz", "--train-for", f"histology={tmp_path / 'train.npz'}")
    assert call("evaluate", *words, "--evaluate.repeats", "2", "--out", tmp_path / "R") == 0
    content = json.loads((tmp_path / "R" / "results.json").read_text())
    assert content["tasks"]["histology"]["protocol"]["split"] == "given"
    assert content["tasks"]["histology"]["metrics"]["accuracy"]["n"] == 20
    assert [Path(source["path"]).name for source in content["embeddings"]] == ["test.npz", "train.npz"]


def test_two_inputs_that_share_a_video_are_an_error(theirs, tmp_path, capsys):
    words = ("retrieval", "--embeddings", theirs, "--embeddings", theirs)
    assert call("evaluate", *words, "--out", tmp_path / "R") == 2
    assert "both contain '0' of dataset ''" in capsys.readouterr().err.replace("\n", " ")
