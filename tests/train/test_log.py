"""The log of a run: files, loggers, resumption."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from polyptrace.config import Config, Train
from polyptrace.core.errors import UserError
from polyptrace.methods import Batch
from polyptrace.train.log import TrainingLog, discard_after
from polyptrace.train.run_folder import TrainingState

FABRIC: Any = SimpleNamespace(is_global_zero=True, world_size=1, device=torch.device("cpu"))
BATCH = Batch(np.zeros((2, 1), np.int64), np.arange(2), np.arange(2), np.zeros(2), 1)


def log(out: Path, loggers: Sequence[str], start: int, losses: Sequence[float], log_every: int = 1) -> None:
    """Logs one step for each loss, after `start` steps."""
    config = Config(train=Train(loggers=tuple(loggers), log_every=log_every))
    with TrainingLog(FABRIC, config, out, TrainingState(start, frames=16 * start), 100, 2) as training_log:
        for number, loss in enumerate(losses, start=start + 1):
            state = TrainingState(number, frames=16 * number)
            training_log.step(state, BATCH, {"loss": torch.tensor(loss)}, {"lr": 0.5}, stop=False)
        training_log.flush()


def lines(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def test_lines_after_the_checkpoint_and_an_incomplete_line_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"ste')
    discard_after(tmp_path, 2)
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n'
    discard_after(tmp_path, 0)
    assert path.read_text() == ""


def test_metrics_are_in_the_file_and_in_tensorboard_once_though_the_run_was_killed(tmp_path: Path) -> None:
    log(tmp_path, ["tensorboard"], 0, [1.0, 2.0, 3.0])
    log(tmp_path, ["tensorboard"], 2, [30.0])
    assert [line["loss"] for line in lines(tmp_path)] == [1.0, 2.0, 30.0]
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload().Scalars("loss")
    assert [(event.step, event.value) for event in events] == [(1, 1.0), (2, 2.0), (3, 30.0)]


def test_every_line_has_time_speed_and_memory(tmp_path: Path) -> None:
    log(tmp_path, [], 0, [1.0] * 6, log_every=2)
    assert [line["step"] for line in lines(tmp_path)] == [2, 4, 6]
    for line in lines(tmp_path):
        assert line["time"] > 1.7e9
        assert line["frames_per_second"] > 0
        assert 0.05 < line["memory_gib"] < 100
        assert line["frames"] == 16 * line["step"]


def test_processes_stop_after_the_same_step_though_only_one_writes_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.distributed.all_reduce", lambda requests: requests.fill_(1.0))  # the other process asks
    fabric: Any = SimpleNamespace(is_global_zero=True, world_size=2, device=torch.device("cpu"))
    stopped_after = []
    for checkpoint in (True, False):
        with TrainingLog(fabric, Config(train=Train(loggers=())), tmp_path, TrainingState(), 100, 2) as training_log:
            for step in range(1, 5):
                training_log.step(TrainingState(step), BATCH, {"loss": torch.tensor(1.0)}, {}, stop=False)
                if checkpoint:
                    training_log.flush()
                if training_log.stop:
                    stopped_after.append(step)
                    break
    assert stopped_after == [2, 2]


def test_an_unknown_logger_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="tensorboard, wandb, mlflow"):
        log(tmp_path, ["tensorbored"], 0, [])


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_logger_that_is_not_installed_is_refused_with_the_extra_to_install(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=rf"pip install 'polyptrace\[{name}\]'"):
        log(tmp_path, [name], 0, [])


def test_wandb_and_mlflow_resume_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are replaced by fakes, because they need a server."""
    calls: list[tuple[str, Any]] = []
    wandb, mlflow = ModuleType("wandb"), ModuleType("mlflow")

    def init(**options: Any) -> SimpleNamespace:
        calls.append(("wandb", options["id"]))
        return SimpleNamespace(log=lambda figures, step: calls.append(("wandb", (step, figures))), finish=lambda: None)

    def start_run(run_id: str = "new", run_name: str = "") -> SimpleNamespace:
        calls.append(("mlflow", run_id or run_name))
        return SimpleNamespace(info=SimpleNamespace(run_id="id-7"))

    wandb.__dict__["init"] = init
    mlflow.__dict__.update(
        set_experiment=lambda _: None,
        start_run=start_run,
        log_params=lambda _: None,
        log_metrics=lambda figures, step: calls.append(("mlflow", (step, figures))),
        end_run=lambda: None,
    )
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    for start in (0, 1):
        log(tmp_path, ["wandb", "mlflow"], start, [0.5])
    of_wandb = [value for name, value in calls if name == "wandb"]
    of_mlflow = [value for name, value in calls if name == "mlflow"]
    assert of_wandb[0] == of_wandb[2]
    assert of_wandb[1::2] == of_mlflow[1::2]
    assert [(step, metrics["loss"]) for step, metrics in of_wandb[1::2]] == [(1, 0.5), (2, 0.5)]
    assert of_mlflow[0::2] == ["new", "id-7"]
