"""Table 1 to look at: every figure of every method as a dot with its 95 % interval."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from polyptrace.evaluate import Results
from polyptrace.report.standing import Measure, Standing, figure_of
from polyptrace.report.style import INK, LINE, PAPER, SOFT, Drawing, Pen, canvas, finished, shortened, styled


@styled
def forest(
    rows: Sequence[Results], measures: Sequence[Measure], standings: Sequence[Standing], pens: Sequence[Pen]
) -> Drawing:
    """A panel for each measure; a full dot is best or not told apart from it, an open one is not."""
    names = [shortened(row.method.name, 24) for row in rows]
    left = 0.25 + 0.075 * max(map(len, names))
    figure = canvas(left + 1.15 * len(measures), 0.75 + 0.27 * len(rows))
    panels = np.atleast_1d(figure.subplots(1, len(measures), sharey=True))
    for axes, measure, standing in zip(panels, measures, standings, strict=True):
        _panel(axes, rows, measure, standing, pens)
    panels[0].set_yticks(range(len(rows)), names, color=INK)
    panels[0].set_ylim(len(rows) - 0.4, -0.6)
    words = "Dots with 95 % intervals for every method and figure of Table 1."
    return finished(figure, "intervals", words)


def _panel(axes: Axes, rows: Sequence[Results], measure: Measure, standing: Standing, pens: Sequence[Pen]) -> None:
    scale = 100 if measure.percent else 1
    ends = []
    for place, (row, pen) in enumerate(zip(rows, pens, strict=True)):
        found = figure_of(row, measure)
        if found is None:
            continue
        low, value, high = (scale * bound for bound in (found.low, found.value, found.high))
        axes.plot([low, high], [place, place], color=pen.colour, linewidth=pen.width)
        full = place in standing.best
        axes.plot(
            value, place, "o", color=pen.colour, markerfacecolor=pen.colour if full else PAPER, markersize=5.5, zorder=3
        )
        ends += [bound for bound in (low, value, high) if np.isfinite(bound)]
    axes.set_title(f"{measure.over}\n{measure.name}", fontsize=8.5, linespacing=1.35)
    reach = max(max(ends) - min(ends), 0.01 * scale)  # where all are equal, still a hundredth to stand in
    axes.set_xlim(min(ends) - 0.08 * reach, max(ends) + 0.08 * reach)
    axes.locator_params(axis="x", nbins=3)
    axes.ticklabel_format(axis="x", useOffset=False)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=True, axis="x", color=LINE)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="x", colors=SOFT)
