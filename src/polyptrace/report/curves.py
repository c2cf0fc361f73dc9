"""Plots of results and of training.

Results: ROC and precision-recall curves, similarity histograms, and Table 1 as points with intervals. Training: the
metrics that a run logged.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from polyptrace import drawing
from polyptrace.config import Config, read_config
from polyptrace.core.arrays import Floats
from polyptrace.core.errors import UserError
from polyptrace.core.files import wrong_folder
from polyptrace.drawing import Drawing, LineStyle
from polyptrace.evaluate import Results
from polyptrace.evaluate.counting import TARGET
from polyptrace.report.ranking import MAIN, Measure, has_intervals, rank
from polyptrace.train import read_environment

AUROC, AUPR = (measure for measure in MAIN if measure.task == "reid")

#: The least range of an axis in per cent.
NARROWEST = 4.0

#: Keys of metrics.jsonl that are plotted, with their titles.
PLOTTED = {"loss": "Loss", "condition": "Anchors that meet the condition", "tau": "Temperature τ"}

_DOTTED: dict[str, Any] = {"color": drawing.SOFT, "linewidth": 0.7, "linestyle": (0, (2, 2))}


@drawing.styled
def pair_curves(rows: Sequence[Results], styles: Sequence[LineStyle], measure: Measure) -> Drawing:
    """ROC curves for AUROC, precision-recall curves for AUPR; the legend has the area with its interval."""
    figure = drawing.canvas(4.85, 4.3 + 0.17 * len(rows))
    axes = figure.add_subplot()
    if measure is AUROC:
        name, title, keys = "roc", "ROC", ("roc_fpr", "roc_tpr")
        axes.plot([0, 1], [0, 1], color=drawing.LINE, linewidth=1)
        axes.axvline(TARGET, **_DOTTED)  # where counting is tuned
        labels = ("false-positive rate: different polyps matched", "true-positive rate: same polyp matched")
    else:
        name, title, keys = "precision_recall", "Precision and recall", ("pr_recall", "pr_precision")
        axes.axhline(base_rate(rows[0]), **_DOTTED)
        labels = ("recall: pairs of the same polyp found", "precision: found pairs that are correct")
    entries, values = [], []
    for row, style in zip(rows, styles, strict=True):
        metric = row.tasks["reid"].metrics[measure.metric]
        x, y = (row.arrays[f"reid/{key}"] for key in keys)
        (line,) = axes.plot(x, y, color=style.colour, linestyle=style.dash, linewidth=style.width)
        entries.append((metric.value, line, f"{drawing.shortened(row.method.name)}  {measure.metric_text(metric)}"))
        values.append(f"{row.method.name} {measure.value_text(metric.value)}")
    axes.set(xlim=(0, 1), ylim=(0, 1.005), xlabel=labels[0], ylabel=labels[1])
    axes.set_title(title)
    axes.set_aspect("equal")
    best_first = [(line, text) for _, line, text in sorted(entries, key=lambda entry: -entry[0])]
    drawing.legend(
        figure,
        best_first,
        title=measure.name + (", 95 % interval" if has_intervals(rows, [measure]) else ""),
        loc="outside lower left",
    )
    return drawing.finished(figure, name, f"{title} curves. {measure.name}: {', '.join(values)}.")


@drawing.styled
def similarity_histogram(row: Results, number: int) -> Drawing:
    """Histograms of the similarities of one method: pairs of the same polyp and of different polyps."""
    figure = drawing.panel(3.2, 2.1, left=0.12, bottom=0.42)
    axes = figure.axes[0]
    edges = row.arrays["reid/edges"]
    for key, colour in (("different", drawing.WRONG), ("same", drawing.RIGHT)):
        counts = row.arrays[f"reid/{key}"].astype(np.float64)
        axes.stairs(counts / max(counts.sum(), 1), edges, fill=True, color=colour, alpha=0.28)
        axes.stairs(counts / max(counts.sum(), 1), edges, color=colour, linewidth=1.2)
    occupied = np.flatnonzero(row.arrays["reid/same"] + row.arrays["reid/different"])
    low, high = edges[occupied[0]], edges[occupied[-1] + 1]
    axes.set(xlim=(low - 0.02, min(high + 0.02, 1.0)), ylim=(0, None), xlabel="cosine similarity", yticks=[])
    axes.set_title(drawing.shortened(row.method.name))
    axes.locator_params(axis="x", nbins=5)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False, axis="y")
    auroc = AUROC.value_text(row.tasks["reid"].metrics["auroc"].value)
    description = f"Similarities of pairs of the same and of different polyps, {row.method.name}. AUROC {auroc}."
    return drawing.finished(figure, f"similarities_{number}", description)


def base_rate(row: Results) -> float:
    """The fraction of pairs that show the same polyp, which is the precision of random matching."""
    same, different = (float(row.arrays[f"reid/{key}"].sum()) for key in ("same", "different"))
    return same / max(same + different, 1.0)


@drawing.styled
def interval_plot(rows: Sequence[Results], measures: Sequence[Measure], styles: Sequence[LineStyle]) -> Drawing:
    """A panel for each measure, in per cent: points with intervals, filled if not distinguishable from the best."""
    names = [drawing.shortened(row.method.name, 24) for row in rows]
    left = 0.25 + 0.075 * max(map(len, names))
    figure = drawing.canvas(left + 1.15 * len(measures), 0.75 + 0.27 * len(rows))
    panels = np.atleast_1d(figure.subplots(1, len(measures), sharey=True))
    for axes, measure in zip(panels, measures, strict=True):
        _draw_intervals(axes, rows, measure, styles)
    panels[0].set_yticks(range(len(rows)), names, color=drawing.INK)
    panels[0].set_ylim(len(rows) - 0.4, -0.6)
    return drawing.finished(figure, "intervals", "Points with 95 % intervals for every method and measure of Table 1.")


def _draw_intervals(axes: Axes, rows: Sequence[Results], measure: Measure, styles: Sequence[LineStyle]) -> None:
    bounds, best = [], rank(rows, measure).best
    for y, (row, style) in enumerate(zip(rows, styles, strict=True)):
        metric = measure.of(row)
        if metric is None:
            continue
        low, value, high = (100 * bound for bound in (metric.low, metric.value, metric.high))
        axes.plot([low, high], [y, y], color=style.colour, linewidth=style.width)
        fill = style.colour if y in best else drawing.PAPER
        axes.plot(value, y, "o", color=style.colour, markerfacecolor=fill, markersize=5.5, zorder=3)
        bounds += [bound for bound in (low, value, high) if np.isfinite(bound)]
    axes.set_title(f"{measure.over}\n{measure.name}", fontsize=8.5, linespacing=1.35)
    low, high = min(bounds), max(bounds)
    if high - low < NARROWEST:  # of close or equal values, so that the labels of the axis fit side by side
        low = min(low, max((low + high - NARROWEST) / 2, 0.0), 100 - NARROWEST)
        high = max(high, low + NARROWEST)
    axes.set_xlim(low - 0.08 * (high - low), high + 0.08 * (high - low))
    axes.locator_params(axis="x", nbins=3)
    axes.ticklabel_format(axis="x", useOffset=False)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=True, axis="x", color=drawing.LINE)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="x", colors=drawing.SOFT)


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
            values = [np.nan if line.get(key) is None else float(line[key]) for key in PLOTTED]
            lines.append([float(line["step"]), *values])
            if not 0 <= lines[-1][0] < np.inf:
                raise ValueError
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            raise UserError(f"{path}: line {number} has no step -> wait if the run is still writing") from None
    if not lines:
        raise UserError(f"{path}: empty -> wait until the run has completed a step")
    step, *columns = np.array(lines).T
    metrics = {key: values for key, values in zip(PLOTTED, columns, strict=True) if np.isfinite(values).any()}
    data = read_environment(folder).data if (folder / "environment.json").is_file() else None
    source, tracklets = (Path(data.path), data.tracklets) if data else (None, "")
    return Run(folder, read_config(folder / "config.toml"), source, tracklets, step, metrics)


def training_curves(runs: Sequence[Run]) -> list[Drawing]:
    """One drawing for each metric that some run logged."""
    return [_training_curve(runs, key) for key in PLOTTED if any(key in run.metrics for run in runs)]


@drawing.styled
def _training_curve(runs: Sequence[Run], key: str) -> Drawing:
    """A metric of all runs: each step faint, with its running mean; the temperature as steps."""
    figure = drawing.canvas(3.2, 2.4)
    axes = figure.add_subplot()
    entries, last = [], []
    for run, colour in zip(runs, cycle((drawing.ACCENT, *drawing.METHOD_COLOURS)), strict=False):
        if key in run.metrics:
            known = np.isfinite(run.metrics[key])
            step, values, style = run.step[known], run.metrics[key][known], "steps-post"
            if key != "tau":
                axes.plot(step, values, color=colour, linewidth=0.7, alpha=0.3)
                values, style = running_mean(values, max(1, len(values) // 20)), "default"
            (line,) = axes.plot(step, values, color=colour, linewidth=1.7, drawstyle=style)
            entries.append((line, drawing.shortened(run.name)))
            last.append(f"{run.name} {values[-1]:.3g}")
    axes.set(title=PLOTTED[key], xlabel="step", xlim=(0, None), ylim=(0, None))
    if key == "condition":
        axes.set_ylim(0, 1.02)
        axes.yaxis.set_major_formatter(PercentFormatter(1, 0, " %"))
    axes.grid(visible=False, axis="x")
    if len(runs) > 1:
        drawing.legend(axes, entries)
    description = f"{PLOTTED[key]} during training; last value: {', '.join(last)}."
    return drawing.finished(figure, f"training_{key}", description)


def running_mean(values: Floats, window: int) -> Floats:
    """A running mean over `window` steps, over fewer at both ends."""
    kernel = np.ones(window)
    return np.asarray(np.convolve(values, kernel, "same") / np.convolve(np.ones(len(values)), kernel, "same"))
