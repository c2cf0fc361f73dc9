"""The paper's Figure 2 for any dataset: sampled ranks and the ratio of pure bags along the curriculum."""

from typing import Literal

import numpy as np
from matplotlib.axes import Axes

from polyptrace.core.console import counted
from polyptrace.drawing import ACCENT, INK, RIGHT, SOFT, WRONG, Drawing, canvas, finished, styled
from polyptrace.figures.statistics import CurriculumStatistics, Share
from polyptrace.figures.tracklets import Floats

Alignment = Literal["center", "top", "bottom"]


@styled
def sampled_ranks(statistics: CurriculumStatistics) -> Drawing:
    """Figure 2, left: the temporal rank of the sampled members against c."""
    figure = canvas(3.2, 2.75)
    axes = _axes(figure.add_subplot(), "Sampled rank")
    mean, low, high = statistics.rank.T
    axes.fill_between(statistics.c, low, high, color=ACCENT, alpha=0.16, linewidth=0)
    axes.plot(statistics.c, mean, color=ACCENT)
    axes.set_ylim(0, None)
    axes.set_ylabel("rank of the members")
    _at_end(axes, mean[-1], f"{mean[-1]:.1f}\nmean", ACCENT)
    _at_end(axes, high[-1], f"{high[-1]:.0f}\n90th perc.", SOFT)
    _temperatures(axes, statistics)
    description = f"Sampled rank along the curriculum: mean {mean[0]:.1f} at c = 0, {mean[-1]:.1f} at c = 1."
    return finished(figure, "curriculum_rank", description)


@styled
def pure_bags(statistics: CurriculumStatistics) -> Drawing | None:
    """Figure 2, right: the ratio of pure bags; None without labels."""
    if statistics.pure is None or statistics.wrong is None:
        return None
    figure = canvas(3.2, 2.75)
    axes = _axes(figure.add_subplot(), "Pure bags")
    _line(axes, statistics.c, statistics.pure, RIGHT, "pure")
    axes.set_ylim(0, 1.03)
    axes.yaxis.set_major_formatter(_percent)
    axes.set_ylabel("ratio of pure bags")
    _temperatures(axes, statistics)
    ratio = statistics.pure.value
    description = f"Ratio of pure bags along the curriculum: {ratio[0]:.0%} at c = 0, {ratio[-1]:.0%} at c = 1."
    return finished(figure, "curriculum_pure", description)


@styled
def wrong_members(statistics: CurriculumStatistics) -> Drawing | None:
    """The share of members that show another polyp, and of the gradient they receive; None without vectors."""
    if statistics.wrong is None or statistics.wrong_gradient is None:
        return None
    figure = canvas(3.2, 2.75)
    axes = _axes(figure.add_subplot(), "Wrong associations")
    members, gradient = statistics.wrong.value[-1], statistics.wrong_gradient.value[-1]
    near = abs(members - gradient) < 0.15 * statistics.wrong.high.max()  # keep the labels apart
    alignments: tuple[Alignment, Alignment] = ("center", "center") if not near else ("bottom", "top")
    upper, lower = alignments if members >= gradient else alignments[::-1]
    _line(axes, statistics.c, statistics.wrong, SOFT, "members", upper)
    _line(axes, statistics.c, statistics.wrong_gradient, WRONG, "gradient", lower)
    axes.set_ylim(0, None)
    axes.yaxis.set_major_formatter(_percent)
    axes.set_ylabel("share with another polyp")
    _temperatures(axes, statistics)
    description = (
        f"At c = 1, {members:.1%} of the members show other polyps and receive {gradient:.1%} of the gradient."
    )
    return finished(figure, "curriculum_gradient", description)


def curriculum_figures(statistics: CurriculumStatistics) -> list[Drawing]:
    """Figure 2 and, with vectors, the effect of the loss on wrong members; as far as labels and vectors allow."""
    drawings = (sampled_ranks(statistics), pure_bags(statistics), wrong_members(statistics))
    return [drawing for drawing in drawings if drawing is not None]


def curriculum_caption(statistics: CurriculumStatistics, data: str) -> str:
    """Counts behind the figures, and what their bands show."""
    times = "a bag" if statistics.repeats == 1 else f"{statistics.repeats} bags"
    text = (
        f"{data}: {times} of {statistics.bag_size} for each of {counted(statistics.anchors, 'anchor')} at"
        f" {counted(len(statistics.c), 'point')} of the curriculum. Rank band: 10th to 90th percentile."
    )
    if statistics.pure is None:
        return text + " Purity is unknown, because no polyp is labelled."
    return text + (
        f" A bag is pure if every member shows the anchor's polyp: {counted(statistics.labelled_bags, 'bag')} of"
        f" {counted(statistics.polyps, 'polyp')} at each point. Other bands: 95 % confidence intervals over polyps."
    )


def _percent(value: float, _position: object) -> str:
    return f"{100 * value:.0f} %"


def _axes(axes: Axes, title: str) -> Axes:
    axes.set_title(title)
    axes.set_xlim(0, 1)
    axes.set_xlabel("curriculum c")
    axes.grid(visible=False, axis="x")
    return axes


def _line(axes: Axes, c: Floats, share: Share, colour: str, name: str, alignment: Alignment = "center") -> None:
    axes.fill_between(c, share.low, share.high, color=colour, alpha=0.16, linewidth=0)
    axes.plot(c, share.value, color=colour)
    _at_end(axes, float(share.value[-1]), f"{100 * share.value[-1]:.1f} %\n{name}", colour, alignment)


def _at_end(axes: Axes, value: float, text: str, colour: str, alignment: Alignment = "center") -> None:
    axes.plot([1], [value], "o", color=colour, markersize=4, clip_on=False)
    axes.annotate(text, (1, value), xytext=(8, 0), textcoords="offset points", va=alignment, color=INK, fontsize=8)


def _temperatures(axes: Axes, statistics: CurriculumStatistics) -> None:
    """A second axis at the top with the temperature."""
    if not (np.isfinite(statistics.tau).all() and statistics.tau.all()):
        return
    ticks = np.linspace(0, 1, 5)
    top = axes.secondary_xaxis("top")
    top.set_xticks(ticks, [f"{tau:.3g}" for tau in np.interp(ticks, statistics.c, statistics.tau)])
    top.set_xlabel("temperature τ", labelpad=4)
    top.spines["top"].set_visible(False)
    top.tick_params(length=0)
