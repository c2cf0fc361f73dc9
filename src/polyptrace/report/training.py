"""How a training run went: loss, temperature, and the share of anchors that meet the paper's condition."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from polyptrace.config import Config, read_config
from polyptrace.core.errors import UserError
from polyptrace.core.files import read_json
from polyptrace.report.style import ACCENT, OTHERS, Drawing, Pen, canvas, finished, legend, shortened, styled

Floats = NDArray[np.float64]

#: Key in metrics.jsonl, and title.
PANELS = {"loss": "Loss", "condition": "Anchors meeting the condition", "tau": "Temperature τ"}


@dataclass(frozen=True)
class Run:
    """A run folder as far as a report shows it."""

    name: str
    config: Config
    data: Path | None  # the dataset it was trained on, where it says so
    step: Floats
    figures: dict[str, Floats]  # by key, (steps,), NaN where a line had none


def load_run(folder: Path) -> Run:
    """Reads config.toml, environment.json and metrics.jsonl of a run."""
    path = folder / "metrics.jsonl"
    if not path.is_file():
        raise UserError(f"{folder}: not a run (no metrics.jsonl) -> give a folder that 'polyptrace train' wrote")
    lines = []
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            raise UserError(f"{path}: line {number} is not JSON -> is the run still writing?") from None
    if not lines:
        raise UserError(f"{path}: empty -> the run has not made a step yet")
    environment = read_json(folder / "environment.json") if (folder / "environment.json").is_file() else {}
    data = environment.get("data", {}).get("path")
    figures = {key: np.array([line.get(key, np.nan) for line in lines], np.float64) for key in PANELS}
    return Run(
        folder.name,
        read_config(folder / "config.toml"),
        None if data is None else Path(data),
        np.array([line["step"] for line in lines], np.float64),
        {key: values for key, values in figures.items() if np.isfinite(values).any()},
    )


def smoothed(values: Floats, window: int) -> Floats:
    """A running mean over `window` steps, fewer at both ends."""
    kernel = np.ones(window)
    return np.asarray(np.convolve(values, kernel, "same") / np.convolve(np.ones(len(values)), kernel, "same"))


def training_figures(runs: Sequence[Run]) -> list[Drawing]:
    """One drawing for each figure that some run logged."""
    return [_drawing(runs, key) for key in PANELS if any(key in run.figures for run in runs)]


@styled
def _drawing(runs: Sequence[Run], key: str) -> Drawing:
    title, share = PANELS[key], key == "condition"
    figure = canvas(3.2, 2.4)
    axes = figure.add_subplot()
    entries, last = [], []
    for run, colour in zip(runs, _colours(len(runs)), strict=True):
        if key in run.figures:
            known = np.isfinite(run.figures[key])
            final = _line(axes, run.step[known], run.figures[key][known], colour, steady=key == "tau")
            last.append(f"{run.name} {final:.3g}")
            entries.append((Pen(colour), shortened(run.name)))
    axes.set_title(title)
    axes.set_xlabel("step")
    axes.set_xlim(0, None)
    axes.set_ylim(0, 1.02 if share else None)
    if share:
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    axes.grid(visible=False, axis="x")
    if len(runs) > 1:
        legend(axes, entries)
    return finished(figure, f"training_{key}", f"{title} over training; at the end: {', '.join(last)}.")


def _line(axes: Axes, step: Floats, values: Floats, colour: str, *, steady: bool) -> float:
    """Draws every step faintly and their running mean over it, or a steady figure as it is; gives the last value."""
    if steady:
        axes.step(step, values, where="post", color=colour, linewidth=1.7)
        return float(values[-1])
    mean = smoothed(values, max(1, len(values) // 20))
    axes.plot(step, values, color=colour, linewidth=0.7, alpha=0.3)
    axes.plot(step, mean, color=colour, linewidth=1.7)
    return float(mean[-1])


def _colours(count: int) -> list[str]:
    return [ACCENT, *(OTHERS[n % len(OTHERS)] for n in range(count - 1))][:count]
