"""Figures on disk."""

import json
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from polyptrace.errors import UserError
from polyptrace.train.metrics import Metrics, cut_back


def test_lines_after_the_checkpoint_and_half_a_line_are_cut(tmp_path: Path) -> None:
    log = tmp_path / "metrics.jsonl"
    log.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"ste')
    cut_back(log, 2)
    assert log.read_text() == '{"step": 1}\n{"step": 2}\n'


def test_figures_go_to_the_log_and_to_tensorboard_once_each_though_the_run_was_killed(tmp_path: Path) -> None:
    with Metrics(tmp_path, ["tensorboard"], 0, {}) as metrics:
        for step in (1, 2, 3):
            metrics.write(step, {"loss": float(step)})
    with Metrics(tmp_path, ["tensorboard"], 2, {}) as metrics:
        metrics.write(3, {"loss": 30.0})
    assert [json.loads(line)["loss"] for line in metrics.path.read_text().splitlines()] == [1.0, 2.0, 30.0]
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload().Scalars("loss")
    assert [(event.step, event.value) for event in events] == [(1, 1.0), (2, 2.0), (3, 30.0)]


def test_an_unknown_logger_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="tensorboard, wandb, mlflow"):
        Metrics(tmp_path, ["tensorbored"], 0, {})
