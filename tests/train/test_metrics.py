"""Figures on disk."""

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from polyptrace.core.errors import UserError
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


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_logger_that_is_not_installed_is_refused_with_the_extra_to_install(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=rf"pip install 'polyptrace\[{name}\]'"):
        Metrics(tmp_path, [name], 0, {})


def test_wandb_and_mlflow_go_on_with_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are stood in for: they cannot run here."""
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
    for step in (1, 2):
        with Metrics(tmp_path, ["wandb", "mlflow"], step - 1, {"a": 1}) as metrics:
            metrics.write(step, {"loss": 0.5})
    of_wandb = [value for name, value in calls if name == "wandb"]
    of_mlflow = [value for name, value in calls if name == "mlflow"]
    assert of_wandb[0] == of_wandb[2]
    assert of_wandb[1::2] == of_mlflow[1::2] == [(1, {"loss": 0.5}), (2, {"loss": 0.5})]
    assert of_mlflow[0::2] == ["new", "id-7"]
