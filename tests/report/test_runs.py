"""Training curves."""

from pathlib import Path

import numpy as np
import pytest

from polyptrace.core.errors import UserError
from polyptrace.report.runs import load_run, running_mean, training_curves


def test_a_run_gives_its_figures_settings_and_data(run: Path) -> None:
    loaded = load_run(run)
    assert loaded.step.tolist() == list(range(1, 41))
    assert loaded.metrics["tau"][0] == 0.3
    assert loaded.config.supervision.tau_max == 12.0
    assert loaded.data is not None
    assert loaded.data.name == "coloured"


def test_each_logged_figure_is_drawn(run: Path) -> None:
    drawings = training_curves([load_run(run)])
    assert [drawing.name for drawing in drawings] == ["training_loss", "training_condition", "training_tau"]


def test_figures_that_a_method_does_not_log_are_left_out(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "sfe"
    other.mkdir()
    (other / "config.toml").write_text("", encoding="utf-8")
    (other / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.0}\n', encoding="utf-8")
    assert [drawing.name for drawing in training_curves([load_run(other)])] == ["training_loss"]
    both = training_curves([load_run(run), load_run(other)])
    assert "sfe" in both[0].svg


def test_a_running_mean_is_the_mean_of_the_available_values() -> None:
    values = np.array([4.0, 0.0, 2.0, 6.0, 3.0])
    expected = [values[max(0, n - 1) : n + 2].mean() for n in range(5)]
    np.testing.assert_allclose(running_mean(values, 3), expected)


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "contains no training run"), ("", "completed a step"), ('{"step": 1}\n{"st', "line 2")],
)
def test_a_broken_run_is_an_error_that_says_where(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "metrics.jsonl").write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        load_run(tmp_path)
