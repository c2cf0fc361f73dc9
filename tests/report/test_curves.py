"""ROC, precision and recall, similarities, training curves."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from polyptrace import drawing
from polyptrace.core.errors import UserError
from polyptrace.drawing import Drawing, LineStyle, finished
from polyptrace.evaluate import Results
from polyptrace.report.curves import (
    AUPR,
    AUROC,
    base_rate,
    interval_plot,
    load_run,
    pair_curves,
    running_mean,
    similarity_histogram,
    training_curves,
)
from polyptrace.report.page import Page, render_page
from polyptrace.report.ranking import MAIN
from polyptrace.report.sections import Content, training


def test_the_legend_lists_each_method_with_its_interval_best_first(rows: list[Results]) -> None:
    weak, ours = rows[-1], rows[0]
    for measure in (AUROC, AUPR):
        drawing = pair_curves([weak, ours], [LineStyle("red"), LineStyle("blue")], measure)
        metric = ours.tasks["reid"].metrics[measure.metric]
        assert f"Ours  {100 * metric.value:.1f} [{100 * metric.low:.1f}–{100 * metric.high:.1f}]" in drawing.svg
        assert drawing.svg.index("Ours  ") < drawing.svg.index("&lt;script&gt;")


def test_the_legend_shows_no_brackets_without_an_interval(rows: list[Results]) -> None:
    task = rows[0].tasks["reid"]
    metric = replace(task.metrics["auroc"], low=math.nan, high=math.nan)
    alone = replace(rows[0], tasks={"reid": replace(task, metrics=dict(task.metrics) | {"auroc": metric})})
    drawing = pair_curves([alone], [LineStyle("blue")], AUROC)
    assert f"Ours  {100 * metric.value:.1f}" in drawing.svg
    assert "[" not in drawing.svg.partition("Ours  ")[2].partition("<")[0]


def test_precision_of_chance_is_the_share_of_same_pairs(rows: list[Results]) -> None:
    counts = rows[0].tasks["reid"].counts
    expected = counts["same_pairs"] / (counts["same_pairs"] + counts["different_pairs"])
    assert abs(base_rate(rows[0]) - expected) < 1e-12
    assert "Ours" in pair_curves([rows[0]], [LineStyle("blue")], AUPR).description


def test_similarities_are_drawn_for_any_method(rows: list[Results]) -> None:
    drawing = similarity_histogram(rows[-1], 7)
    assert drawing.name == "similarities_7"
    assert "AUROC" in drawing.description


@pytest.mark.parametrize("values", [(1.0, 1.0), (0.0, 0.0), (0.99982, 0.99994), (0.5213, 0.5213), (0.02, 0.97)])
def test_labels_of_interval_axes_do_not_overlap_and_all_points_are_inside(
    values: tuple[float, ...], make_row: Callable[..., Results], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [make_row(f"method {n}", value, spread=1e-4) for n, value in enumerate(values)]
    figures: list[Figure] = []

    def keep(figure: Figure, *text: str) -> Drawing:
        figures.append(figure)
        return finished(figure, *text)

    monkeypatch.setattr(drawing, "finished", keep)
    interval_plot(rows, MAIN[:1], [LineStyle("blue"), LineStyle("red")])
    axes = figures[0].axes[0]
    low, high = axes.get_xlim()
    assert low <= 100 * min(values) - 0.02 < 100 * max(values) + 0.02 <= high
    shown = [label for label in axes.get_xticklabels() if low <= label.get_position()[0] <= high]
    boxes = [label.get_window_extent() for label in shown]
    assert len(boxes) >= 2
    assert all(left.x1 + 3 < right.x0 for left, right in pairwise(boxes))


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


def test_the_page_says_whether_the_curriculum_advanced(run: Path) -> None:
    loaded = load_run(run)
    constant = replace(loaded, metrics={**loaded.metrics, "tau": np.full(40, 0.3)})
    without = replace(loaded, metrics={"loss": loaded.metrics["loss"]})
    texts = []
    for each in (loaded, constant, without):
        section = training(Content([], 0, [], runs=[each]))
        assert section is not None
        texts.append(render_page(Page("Title", "Lead", (section,), generated=False)))
    assert ["becomes harder as τ grows" in text for text in texts] == [True, False, False]
    assert ["only the start of the curriculum" in text for text in texts] == [False, True, False]


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
