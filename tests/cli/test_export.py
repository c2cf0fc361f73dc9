"""`polyptrace export`, as it is typed; the graphs are tested with `polyptrace.embed`."""

import shlex
from pathlib import Path

import pytest

import polyptrace
from polyptrace.data import Dataset
from tests.command import call

SMALL = shlex.split("--encoder.backbone test_resnet --encoder.weights none --encoder.width 16 --encoder.heads 2")


def test_a_folder_has_the_results_of_its_own_encoder_on_the_card(
    coloured: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, name in ((0, "run"), (1, "other")):
        words = ["--train.seed", seed, "--train.epochs", 0, *SMALL]
        assert call("train", "ours", "--data", coloured.path, "--out", tmp_path / name, *words) == 0
    assert call("embed", tmp_path / "run", "--data", coloured.path, "--out", tmp_path / "vectors") == 0
    evaluated = tmp_path / "results"
    assert call("evaluate", "retrieval", "--embeddings", tmp_path / "vectors", "--out", evaluated) == 0
    words = ["--to", "folder", "--results", evaluated, "--licence", "apache-2.0"]
    assert call("export", tmp_path / "run", *words, "--precision", "float16", "--out", tmp_path / "half") == 0
    record = polyptrace.from_pretrained(tmp_path / "half").encoder.record
    assert record.licence == "apache-2.0"
    card = (tmp_path / "half/README.md").read_text()
    assert f"- Retrieval mAP: {record.results['Retrieval mAP']}" in card
    assert "[" in str(record.results["Retrieval mAP"])
    assert "measured before they were stored in float16" in card
    assert call("embed", tmp_path / "half", "--data", coloured.path, "--out", tmp_path / "rounded") == 0
    assert call("evaluate", "retrieval", "--embeddings", tmp_path / "rounded", "--out", tmp_path / "again") == 0
    words = ["--to", "folder", "--results", tmp_path / "again", "--precision", "float16", "--out", tmp_path / "same"]
    assert call("export", tmp_path / "half", *words) == 0
    assert "measured before" not in (tmp_path / "same/README.md").read_text()
    capsys.readouterr()
    words = ["--to", "folder", "--results", evaluated, "--out", tmp_path / "wrong"]
    assert call("export", tmp_path / "other", *words) == 2
    assert "vectors of another encoder" in capsys.readouterr().err
    assert not (tmp_path / "wrong").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["colour-grid", "--to", "onnx"], "colour-grid: was not trained here"),
        (["colour-grid", "--to", "tflite"], "--to tflite: not a format -> give onnx, pt2, folder"),
        (["colour-grid", "--to", "pt2", "--data", "x"], "--data: measures ONNX graphs"),
    ],
)
def test_what_is_mistyped_gets_one_line(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("export", *words, "--out", tmp_path / "out") == 2
    assert message in capsys.readouterr().err
