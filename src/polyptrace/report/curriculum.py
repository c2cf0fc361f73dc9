"""The paper's Figure 2 for any dataset: sampled ranks, and the ratio of pure bags, through the curriculum.

polyptrace figures curriculum DATASET --out FOLDER
"""

from typing import Literal

import numpy as np
from matplotlib.axes import Axes

from polyptrace.core.console import counted
from polyptrace.report.purity import Curriculum, Floats, Share
from polyptrace.report.style import ACCENT, INK, RIGHT, SOFT, WRONG, Drawing, canvas, finished, styled

Side = Literal["center", "top", "bottom"]


@styled
def sampled_rank(curriculum: Curriculum) -> Drawing:
    """Figure 2, left: the ranks that bags are drawn from, as c goes from 0 to 1."""
    figure = canvas(3.2, 2.75)
    axes = _axes(figure.add_subplot(), "Sampled rank")
    mean, low, high = curriculum.rank.T
    axes.fill_between(curriculum.c, low, high, color=ACCENT, alpha=0.16, linewidth=0)
    axes.plot(curriculum.c, mean, color=ACCENT)
    axes.set_ylim(0, None)
    axes.set_ylabel("rank of the members")
    _at_end(axes, mean[-1], f"{mean[-1]:.1f}\nmean", ACCENT)
    _at_end(axes, high[-1], f"{high[-1]:.0f}\n90th perc.", SOFT)
    _temperatures(axes, curriculum)
    words = f"Sampled rank through the curriculum: mean {mean[0]:.1f} at c = 0, {mean[-1]:.1f} at c = 1."
    return finished(figure, "curriculum_rank", words)


@styled
def pure_bags(curriculum: Curriculum) -> Drawing | None:
    """Figure 2, right: the ratio of pure bags; None where no polyp is known."""
    if curriculum.pure is None or curriculum.wrong is None:
        return None
    figure = canvas(3.2, 2.75)
    axes = _axes(figure.add_subplot(), "Pure bags")
    _line(axes, curriculum.c, curriculum.pure, RIGHT, "pure")
    axes.set_ylim(0, 1.03)
    axes.yaxis.set_major_formatter(_percent)
    axes.set_ylabel("ratio of pure bags")
    _temperatures(axes, curriculum)
    ratio = curriculum.pure.value
    words = f"Ratio of pure bags through the curriculum: {ratio[0]:.0%} at c = 0, {ratio[-1]:.0%} at c = 1."
    return finished(figure, "curriculum_pure", words)


@styled
def wrong_members(curriculum: Curriculum) -> Drawing | None:
    """How many members are of another polyp, and how little of the gradient they get; None without vectors."""
    if curriculum.wrong is None or curriculum.wrong_gradient is None:
        return None
    figure = canvas(3.2, 2.75)
    axes = _axes(figure.add_subplot(), "Wrong associations")
    members, gradient = curriculum.wrong.value[-1], curriculum.wrong_gradient.value[-1]
    near = abs(members - gradient) < 0.15 * curriculum.wrong.high.max()  # then one name stands above, one below
    sides: tuple[Side, Side] = ("center", "center") if not near else ("bottom", "top")
    upper, lower = sides if members >= gradient else sides[::-1]
    _line(axes, curriculum.c, curriculum.wrong, SOFT, "members", upper)
    _line(axes, curriculum.c, curriculum.wrong_gradient, WRONG, "gradient", lower)
    axes.set_ylim(0, None)
    axes.yaxis.set_major_formatter(_percent)
    axes.set_ylabel("share of other polyps")
    _temperatures(axes, curriculum)
    words = f"At c = 1 other polyps are {members:.1%} of the members and get {gradient:.1%} of the gradient."
    return finished(figure, "curriculum_gradient", words)


def curriculum_figures(curriculum: Curriculum) -> list[Drawing]:
    """Figure 2 and, with vectors, what the loss does about it: as many as the data allow."""
    drawings = (sampled_rank(curriculum), pure_bags(curriculum), wrong_members(curriculum))
    return [drawing for drawing in drawings if drawing is not None]


def curriculum_caption(curriculum: Curriculum, data: str) -> str:
    """What was drawn, and over how many."""
    times = "a bag" if curriculum.epochs == 1 else f"{curriculum.epochs} bags"
    text = (
        f"{data}: {times} of {curriculum.bag_size} for each of {counted(curriculum.anchors, 'anchor')} at"
        f" {counted(len(curriculum.c), 'point')} of the curriculum. Band of the ranks: 10th to 90th percentile."
    )
    if curriculum.pure is None:
        return text + " No polyps are labelled, so purity is not known."
    return text + (
        f" A bag is pure when all its members show the anchor's polyp: {counted(curriculum.judged, 'bag')} of"
        f" {counted(curriculum.polyps, 'polyp')} at each point. Other bands: 95 % intervals over polyps."
    )


def _percent(value: float, _place: object) -> str:
    return f"{100 * value:.0f} %"


def _axes(axes: Axes, title: str) -> Axes:
    axes.set_title(title)
    axes.set_xlim(0, 1)
    axes.set_xlabel("curriculum c")
    axes.grid(visible=False, axis="x")
    return axes


def _line(axes: Axes, c: Floats, share: Share, colour: str, name: str, side: Side = "center") -> None:
    axes.fill_between(c, share.low, share.high, color=colour, alpha=0.16, linewidth=0)
    axes.plot(c, share.value, color=colour)
    _at_end(axes, float(share.value[-1]), f"{100 * share.value[-1]:.1f} %\n{name}", colour, side)


def _at_end(axes: Axes, value: float, text: str, colour: str, side: Side = "center") -> None:
    axes.plot([1], [value], "o", color=colour, markersize=4, clip_on=False)
    axes.annotate(text, (1, value), xytext=(8, 0), textcoords="offset points", va=side, color=INK, fontsize=8)


def _temperatures(axes: Axes, curriculum: Curriculum) -> None:
    """The temperature at five values of c, above the axes."""
    if not (np.isfinite(curriculum.tau).all() and curriculum.tau.all()):
        return
    ticks = np.linspace(0, 1, 5)
    above = axes.secondary_xaxis("top")
    above.set_xticks(ticks, [f"{tau:.3g}" for tau in np.interp(ticks, curriculum.c, curriculum.tau)])
    above.set_xlabel("temperature τ", labelpad=4)
    above.spines["top"].set_visible(False)
    above.tick_params(length=0)
