"""Training runs and their curves."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from polyptrace.config import Config, read_config
from polyptrace.core.arrays import Floats
from polyptrace.core.errors import UserError
from polyptrace.core.files import wrong_folder
from polyptrace.drawing import ACCENT, METHODS, Drawing, LineStyle, canvas, finished, legend, shortened, styled
from polyptrace.train import read_environment

#: Keys of metrics.jsonl that are plotted, with their titles.
PLOTTED = {"loss": "Loss", "condition": "Anchors that meet the condition", "tau": "Temperature τ"}


@dataclass(frozen=True)
class Run:
    """The parts of a run folder that a report shows."""

    folder: Path
    config: Config
    data: Path | None  # the dataset it was trained on, if recorded
    data_hash: str  # SHA-256 of its tracklets.parquet, "" if not recorded
    step: Floats
    metrics: dict[str, Floats]  # by key, (steps,); NaN where a line has no value

    @property
    def name(self) -> str:
        return self.folder.name


def load_run(folder: Path) -> Run:
    """Reads config.toml, environment.json and metrics.jsonl of a run folder."""
    path = folder / "metrics.jsonl"
    if not path.is_file():
        raise wrong_folder(folder, "train")
    lines = []
    for number, text in enumerate(path.read_bytes().splitlines(), 1):
        try:
            line = json.loads(text)
            values = {key: np.nan if line.get(key) is None else float(line[key]) for key in PLOTTED}
            step = float(line["step"])
            if not 0 <= step < np.inf:
                raise ValueError
            lines.append({"step": step, **values})
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            raise UserError(
                f"{path}: line {number} is not a JSON object with a step -> wait if the run is still writing"
            ) from None
    if not lines:
        raise UserError(f"{path}: empty -> wait until the run has completed a step")
    data = read_environment(folder).data if (folder / "environment.json").is_file() else None
    metrics = {key: np.array([line[key] for line in lines]) for key in PLOTTED}
    return Run(
        folder,
        read_config(folder / "config.toml"),
        Path(data.path) if data else None,
        data.tracklets if data else "",
        np.array([line["step"] for line in lines]),
        {key: values for key, values in metrics.items() if np.isfinite(values).any()},
    )


def training_curves(runs: Sequence[Run]) -> list[Drawing]:
    """One drawing for each metric that some run logged."""
    return [_training_curve(runs, key) for key in PLOTTED if any(key in run.metrics for run in runs)]


@styled
def _training_curve(runs: Sequence[Run], key: str) -> Drawing:
    figure = canvas(3.2, 2.4)
    axes = figure.add_subplot()
    entries, last = [], []
    for number, run in enumerate(runs):
        if key in run.metrics:
            colour = ACCENT if number == 0 else METHODS[(number - 1) % len(METHODS)]
            known = np.isfinite(run.metrics[key])
            final = _draw_curve(axes, run.step[known], run.metrics[key][known], colour, smooth=key != "tau")
            last.append(f"{run.name} {final:.3g}")
            entries.append((LineStyle(colour), shortened(run.name)))
    axes.set(title=PLOTTED[key], xlabel="step", xlim=(0, None), ylim=(0, None))
    if key == "condition":
        axes.set_ylim(0, 1.02)
        axes.yaxis.set_major_formatter(PercentFormatter(1, 0, " %"))
    axes.grid(visible=False, axis="x")
    if len(runs) > 1:
        legend(axes, entries)
    description = f"{PLOTTED[key]} during training; last value: {', '.join(last)}."
    return finished(figure, f"training_{key}", description)


def _draw_curve(axes: Axes, step: Floats, values: Floats, colour: str, *, smooth: bool) -> float:
    """Draws a curve, faint with its running mean if `smooth`; returns the last value."""
    if not smooth:
        axes.step(step, values, where="post", color=colour, linewidth=1.7)
        return float(values[-1])
    mean = running_mean(values, max(1, len(values) // 20))
    axes.plot(step, values, color=colour, linewidth=0.7, alpha=0.3)
    axes.plot(step, mean, color=colour, linewidth=1.7)
    return float(mean[-1])


def running_mean(values: Floats, window: int) -> Floats:
    """A running mean over `window` steps, over fewer at both ends."""
    kernel = np.ones(window)
    return np.asarray(np.convolve(values, kernel, "same") / np.convolve(np.ones(len(values)), kernel, "same"))
