"""`polyptrace train` and `polyptrace embed`, as they are typed."""

import os
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import polyptrace
from campaigns.commands import content, different
from polyptrace.core.files import read_json, write_json
from polyptrace.core.lock import lock
from polyptrace.data import Dataset
from polyptrace.embed import Embeddings
from polyptrace.encoders import weights
from tests.command import call

SMALL = shlex.split("--encoder.backbone test_resnet --encoder.weights none --encoder.width 16 --encoder.heads 2")


def settings(out: Path) -> dict[str, dict[str, object]]:
    return tomllib.loads((out / "config.toml").read_text())


def test_a_run_is_trained_and_embedded(coloured: Dataset, tmp_path: Path) -> None:
    out, vectors = tmp_path / "run", tmp_path / "vectors"
    assert call("train", "ours", "--data", coloured.path, "--out", out, *SMALL, "--train.frames", 100) == 0
    assert call("embed", out, "--data", coloured.path, "--out", vectors) == 0
    table = Embeddings.load(vectors)
    assert len(table) == len(coloured.tracklets)
    assert table.info["from"] == str(out)
    encoder = polyptrace.from_pretrained(out)
    assert table.info["fingerprint"] == encoder.fingerprint
    tolerance = 1e-5 if encoder.precision == "float32" else 1e-2
    again = encoder(coloured.crops[rows] for rows in coloured.tracklets.rows)
    np.testing.assert_allclose(again, table.vectors, atol=tolerance, rtol=0)


def test_finished_vectors_are_kept_by_the_same_command_and_refused_by_another(
    coloured: Dataset,
    make_dataset: Callable[..., Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    out = tmp_path / "v"
    words = ["embed", "colour-grid", "--data", coloured.path, "--out", out]
    assert call(*words) == 0
    before = content(out)
    assert call(*words) == 0
    assert "already exists, made from the same data" in capsys.readouterr().err
    other = make_dataset(tmp_path / "other", [[4, 4]])
    info = read_json(other / "dataset.json")
    write_json(other / "dataset.json", info | {"hashes": {"tracklets.parquet": "of the other"}})
    for changed, message in (
        (
            ["embed", "frozen:test_resnet", "--weights", "none", *words[2:]],
            "encoder: 'colour-grid' -> 'frozen:test_resnet'",
        ),
        ([*words, "--embed.enlarge", "true"], "embed.enlarge: False -> True"),
        (["embed", "colour-grid", "--data", other, "--out", out], "data: not the dataset of these vectors"),
    ):
        assert call(*changed) == 2
        error = capsys.readouterr().err
        assert message in error
        assert "or replace this one with --overwrite" in error
    assert content(out) == before


def test_the_same_commands_give_the_same_bytes_in_another_process(
    coloured: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        shlex.split(f"train ours --data {coloured.path} --out run --train.frames 600 --train.threads 1") + SMALL,
        shlex.split(f"embed run --data {coloured.path} --out vectors"),
        shlex.split("evaluate retrieval reid --embeddings vectors --evaluate.bootstrap 20 --out results"),
    ]
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(sys, "argv", ["-c"])  # recorded
    assert [call(*line) for line in lines] == [0] * len(lines)
    code = f"from polyptrace.cli import main\nfor line in {lines}:\n    try: main(line)\n    except SystemExit: pass"
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "there", env=environment, check=True)
    here, there = content(tmp_path / "here"), content(tmp_path / "there")
    assert {"run/encoder/model.safetensors", "vectors/embeddings.parquet", "results/results.json"} < set(here)
    assert [name for name in different(here, there) if "tensorboard" not in name] == []  # its files have times


def test_a_method_starts_from_its_published_settings_and_the_user_has_the_last_word(
    coloured: Dataset, tmp_path: Path
) -> None:
    (tmp_path / "mine.toml").write_text("[optimiser]\nlr = 0.5\nweight_decay = 0.25\n")
    words = ["--data", coloured.path, *SMALL, "--train.epochs", "0"]
    assert call("train", "sfe", "--out", tmp_path / "published", *words) == 0
    published = settings(tmp_path / "published")
    assert published["optimiser"] == {"name": "adam", "lr": 7.5e-5, "weight_decay": 1e-4, "schedule": "one-cycle"}
    assert published["train"]["method"] == "sfe"
    words += ["--config", tmp_path / "mine.toml", "--optimiser.lr", "0.125"]
    assert call("train", "sfe", "--out", tmp_path / "mine", *words) == 0
    mine = settings(tmp_path / "mine")["optimiser"]
    assert mine == {"name": "adam", "lr": 0.125, "weight_decay": 0.25, "schedule": "one-cycle"}


def test_the_default_encoder_embeds_and_its_architecture_is_that_of_training_from_it(
    coloured: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "PRETRAINED", tmp_path)
    words = ["--data", coloured.path, "--train.loggers", "", "--train.epochs", "0"]
    assert call("train", "ours", "--out", tmp_path / "run", *words, *SMALL) == 0
    (tmp_path / "run/encoder").rename(tmp_path / "default")
    assert call("train", "ours", "--out", tmp_path / "tuned", *words, "--init-from", "default") == 0
    assert settings(tmp_path / "tuned")["encoder"] == settings(tmp_path / "run")["encoder"] | {"weights": "imagenet"}
    assert call("embed", "default", "--data", coloured.path, "--out", tmp_path / "vectors") == 0
    assert call("embed", tmp_path / "tuned", "--data", coloured.path, "--out", tmp_path / "tuned-vectors") == 0
    table, tuned = Embeddings.load(tmp_path / "vectors"), Embeddings.load(tmp_path / "tuned-vectors")
    assert table.info["fingerprint"] == tuned.info["fingerprint"]
    assert table.info["method"]["name"] == "Default encoder"
    assert (
        call("train", "mve", "--out", tmp_path / "other", *words, "--init-from", "default", "--encoder.width", "8") == 2
    )


def test_ctrl_c_writes_a_checkpoint_and_the_same_command_resumes(coloured: Dataset, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["train", "ours", "--data", coloured.path, "--out", out, *SMALL, "--train.epochs", "500"]
    command = [sys.executable, "-m", "polyptrace", *map(str, words), "--supervision.bags-per-batch", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not (out / "metrics.jsonl").exists():
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, printed = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopping after this step, with a checkpoint" in printed
    assert "Traceback" not in printed
    (checkpoint,) = (out / "checkpoints").iterdir()
    assert len((out / "metrics.jsonl").read_text().splitlines()) == int(checkpoint.stem.removeprefix("step-"))


def test_a_run_is_replaced_with_overwrite_only(coloured: Dataset, tmp_path: Path) -> None:
    words = ["train", "ours", "--data", coloured.path, "--out", tmp_path / "r", *SMALL, "--train.frames", "100"]
    assert call(*words) == 0
    assert call(*words, "--train.seed", "1") == 2
    assert call(*words, "--train.seed", "1", "--overwrite") == 0
    assert settings(tmp_path / "r")["train"]["seed"] == 1


def test_vectors_are_not_replaced_while_explore_writes_answers_beside_them(
    coloured: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["embed", "colour-grid", "--data", coloured.path, "--out", tmp_path / "v"]
    assert call(*words) == 0
    answers = tmp_path / "v/answers.jsonl"
    for first in (True, False):  # the first answer creates the file
        with lock(answers):
            assert call(*words, "--overwrite") == 2
        assert f"{answers}: in use by process" in capsys.readouterr().err, first
        answers.write_text('{"format": 1}\n')
    (tmp_path / "v/same.json").write_text("{}")
    assert call(*words, "--overwrite") == 0
    assert f"removed: {tmp_path}/v/same.json" in " ".join(capsys.readouterr().out.split())
    assert answers.read_text() == '{"format": 1}\n'
    assert not list((tmp_path / "v").glob(".*"))


def test_what_is_mistyped_gets_one_line_not_a_traceback(
    coloured: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--data", coloured.path, "--out", tmp_path / "r"]
    (tmp_path / "file").touch()
    for mistyped, printed in (
        (["embed", "colour-grid", *words, "--data", coloured.path], "--data: takes one value, but was given 2"),
        (["embed", "colour-grid", "--data", coloured.path, "--out", tmp_path / "file/v"], "file cannot be written to"),
        (["embed", "colour-grid", "--data", coloured.path.parent, "--out", tmp_path / "r"], f"give {coloured.path}"),
        (["train", "our", *words], "not a method"),
        (["train", "ours", *words, "--out", tmp_path / "other"], "--out: takes one value, but was given 2"),
        (["train", "ours", *words, "--train.epochs=1", "--train.epochs", "2"], "--train.epochs: takes one value"),
        (["train", "ours", *words, "--optimiser.lrr", "1"], "optimiser.lr"),
        (["embed", tmp_path / "nowhere.ckpt", *words], "no such file"),
    ):
        assert call(*mistyped) == 2
        assert printed in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


def test_a_second_run_is_refused_while_the_first_trains_and_starts_after_it_was_killed(
    coloured: Dataset,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    start_waiting: Callable[..., "subprocess.Popen[str]"],
) -> None:
    words = ["train", "ours", "--data", coloured.path, "--out", tmp_path / "r", *SMALL, "--train.frames", "100"]
    first = start_waiting("polyptrace.train.loop.run_steps", *words)
    for more in ([], ["--overwrite"]):
        assert call(*words, *more) == 2
        assert f"in use by process {first.pid} on " in capsys.readouterr().err
    first.kill()
    first.wait()
    assert call(*words) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["r"]
