"""Re-identification in pictures: ROC, precision and recall, and the similarities of same and different polyps."""

from collections.abc import Sequence

import numpy as np

from polyptrace.evaluate import Results
from polyptrace.report.standing import MAIN, Measure, figure_of
from polyptrace.report.style import (
    LINE,
    RIGHT,
    SOFT,
    WRONG,
    Drawing,
    Pen,
    canvas,
    finished,
    legend,
    panel,
    shortened,
    styled,
)
from polyptrace.report.tables import number, span

_AUROC, _AUPR = (measure for measure in MAIN if measure.task == "reid")

#: The rate of false matches at which counting is tuned.
LOW_RATE = 0.05


@styled
def roc(rows: Sequence[Results], pens: Sequence[Pen]) -> Drawing:
    """True against false matches, one line per method; the legend has AUROC and its interval."""
    figure = canvas(4.85, 4.3 + 0.17 * len(rows))
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], color=LINE, linewidth=1)
    axes.axvline(LOW_RATE, color=SOFT, linewidth=0.7, linestyle=(0, (2, 2)))
    for row, pen in zip(rows, pens, strict=True):
        x, y = row.arrays["reid/roc_fpr"], row.arrays["reid/roc_tpr"]
        axes.plot(x, y, color=pen.colour, linestyle=pen.dash, linewidth=pen.width)
    axes.set(xlim=(0, 1), ylim=(0, 1.005), xlabel="pairs of different polyps taken for the same")
    axes.set_ylabel("pairs of the same polyp found")
    axes.set_title("ROC")
    axes.set_aspect("equal")
    legend(figure, _entries(rows, pens, _AUROC), "AUROC, 95 % interval")
    return finished(figure, "roc", f"ROC curves. {_words(rows, _AUROC)}")


@styled
def precision_recall(rows: Sequence[Results], pens: Sequence[Pen]) -> Drawing:
    """Precision against recall, one line per method; the legend has AUPR and its interval."""
    figure = canvas(4.85, 4.3 + 0.17 * len(rows))
    axes = figure.add_subplot()
    rate = base_rate(rows[0])
    axes.axhline(rate, color=SOFT, linewidth=0.7, linestyle=(0, (2, 2)))
    for row, pen in zip(rows, pens, strict=True):
        x, y = row.arrays["reid/pr_recall"], row.arrays["reid/pr_precision"]
        axes.plot(x, y, color=pen.colour, linestyle=pen.dash, linewidth=pen.width)
    axes.set(xlim=(0, 1), ylim=(0, 1.005), xlabel="recall: pairs of the same polyp found")
    axes.set_ylabel("precision: found pairs that are right")
    axes.set_title("Precision and recall")
    axes.set_aspect("equal")
    legend(figure, _entries(rows, pens, _AUPR), "AUPR, 95 % interval")
    return finished(figure, "precision_recall", f"Precision and recall curves. {_words(rows, _AUPR)}")


@styled
def similarities(row: Results, number_of_row: int) -> Drawing:
    """How similar the pairs of one method are: same polyp and different polyps, each with an area of one."""
    figure = panel(3.2, 2.1, left=0.12, bottom=0.42)
    axes = figure.axes[0]
    edges = row.arrays["reid/edges"]
    for key, colour in (("different", WRONG), ("same", RIGHT)):
        counts = row.arrays[f"reid/{key}"].astype(np.float64)
        axes.stairs(counts / max(counts.sum(), 1), edges, fill=True, color=colour, alpha=0.28)
        axes.stairs(counts / max(counts.sum(), 1), edges, color=colour, linewidth=1.2)
    seen = np.flatnonzero(row.arrays["reid/same"] + row.arrays["reid/different"])
    low, high = edges[seen[0]], edges[seen[-1] + 1]
    axes.set(xlim=(low - 0.02, min(high + 0.02, 1.0)), ylim=(0, None), xlabel="cosine of a pair", yticks=[])
    axes.set_title(shortened(row.method.name))
    axes.locator_params(axis="x", nbins=5)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False, axis="y")
    auroc = figure_of(row, _AUROC)
    said = "" if auroc is None else f" AUROC {number(_AUROC, auroc.value)}."
    words = f"Similarities of same and different polyps, {row.method.name}.{said}"
    return finished(figure, f"similarities_{number_of_row}", words)


def base_rate(row: Results) -> float:
    """The share of pairs that show the same polyp: the precision of chance."""
    same, different = (float(row.arrays[f"reid/{key}"].sum()) for key in ("same", "different"))
    return same / max(same + different, 1.0)


def _entries(rows: Sequence[Results], pens: Sequence[Pen], measure: Measure) -> list[tuple[Pen, str]]:
    """Legend entries, best first."""
    entries = []
    for row, pen in zip(rows, pens, strict=True):
        found = figure_of(row, measure)
        value = -1.0 if found is None else found.value
        said = "" if found is None else f"{number(measure, value, 1)}  [{span(measure, found.low, found.high)}]"
        entries.append((value, pen, f"{shortened(row.method.name)}  {said}"))
    return [(pen, text) for _, pen, text in sorted(entries, key=lambda entry: -entry[0])]


def _words(rows: Sequence[Results], measure: Measure) -> str:
    found = ((row.method.name, figure_of(row, measure)) for row in rows)
    return ", ".join(f"{name} {number(measure, f.value)}" for name, f in found if f is not None) + "."
