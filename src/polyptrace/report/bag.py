"""The paper's Figure 1 for an anchor of one's own data: its bags at c = 0 and c = 1 on the procedure's timeline.

    polyptrace figures bag DATASET --encoder RUN --out FOLDER

Each member with its film strip, when it was seen, its share of the gradient (from an encoder's vectors), and whether it
shows the anchor's polyp (where that is known).
"""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, PathPatch, Rectangle
from matplotlib.path import Path

from polyptrace.config import Supervision
from polyptrace.core.console import counted
from polyptrace.data import Dataset
from polyptrace.report.clock import Clock
from polyptrace.report.film import film, frames_of
from polyptrace.report.purity import Floats, Ints, Tracklets, draw, same_polyp, sampled_ranks, shares
from polyptrace.report.style import (
    ACCENT,
    INK,
    LINE,
    PAPER,
    RIGHT,
    SOFT,
    WRONG,
    Drawing,
    canvas,
    finished,
    styled,
)

#: Inches: the figure, its margin, the line of time, and where the strips of both bags stand.
WIDTH, HEIGHT, MARGIN = 10.2, 5.9, 0.12
LINE_TOP, LINE_BOTTOM = 3.28, 3.02
UPPER, LOWER = 4.62, 0.78


@dataclass(frozen=True)
class Bag:
    """The bag of one anchor, K members in order of rank."""

    anchor: int
    c: float
    tau: float
    members: Ints
    rank: Floats
    same: Floats  # 1 the anchor's polyp, 0 another, NaN not known
    share: Floats | None  # of the gradient


@dataclass(frozen=True)
class Scene:
    """What both bags of the figure are drawn from; `chosen` are the tracklets' indices in the dataset."""

    dataset: Dataset
    tracklets: Tracklets
    chosen: Ints
    clock: Clock


def bag_of(tracklets: Tracklets, settings: Supervision, anchor: int, c: float, seed: int = 0) -> Bag:
    """The bag that training would draw for an anchor at progress c."""
    bags, tau = draw(tracklets, settings, c, seed)
    ranks = sampled_ranks(tracklets.video, tracklets.position, bags)[anchor]
    order = np.argsort(ranks, kind="stable")[: int((bags[anchor] >= 0).sum())]  # NaN, where there is none, is last
    members = bags[anchor][order]
    share = None
    if tracklets.vectors is not None and len(members):
        share = shares(tracklets.vectors, np.array([anchor]), members[None])[0]
    same = same_polyp(tracklets.polyp, bags)[anchor][order]
    return Bag(anchor, c, tau, members, ranks[order], same, share)


def telling_anchor(tracklets: Tracklets, settings: Supervision, seed: int = 0) -> int:
    """An anchor to show, drawn from those that show most of what the curriculum does.

    At best its bag is pure at c = 0 and holds its own and another polyp at c = 1; then the second alone; else any.
    """
    early, late = (draw(tracklets, settings, c, seed)[0] for c in (0.0, 1.0))
    full = (late >= 0).sum(1) == (late >= 0).sum(1).max()
    same = same_polyp(tracklets.polyp, late)
    mixed = full & (same == 1).any(1) & (same == 0).any(1)
    pure = ((same_polyp(tracklets.polyp, early) == 1) | (early < 0)).all(1)
    candidates = next(np.flatnonzero(kind) for kind in (mixed & pure, mixed, full) if kind.any())
    return int(np.random.default_rng(seed).choice(candidates))


@styled
def bag_figure(dataset: Dataset, tracklets: Tracklets, chosen: Ints, early: Bag, late: Bag) -> Drawing:
    """Both bags of an anchor, above and below the timeline; `chosen` are the tracklets' indices in the dataset."""
    figure = canvas(WIDTH, HEIGHT)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(0, HEIGHT))
    axes.set_axis_off()
    scene = Scene(dataset, tracklets, chosen, Clock(float(dataset.tracklets.fps[chosen[early.anchor]])))
    when = _timeline(axes, tracklets, early.anchor, scene.clock)
    _band(axes, scene, early, UPPER, "Start of training", when)
    _band(axes, scene, late, LOWER, "End of training", when)
    words = (
        f"The bags of one anchor and the timeline of its procedure: {_counted(early)} at c = 0, {_counted(late)} at 1."
    )
    return finished(figure, "bag", words)


def bag_caption(dataset: Dataset, chosen: Ints, early: Bag, late: Bag) -> str:
    """Which anchor it is, and what its bags hold."""
    table, index = dataset.tracklets, int(chosen[early.anchor])
    text = (
        f"Tracklet {early.anchor} of {table.dataset[index]}, procedure {table.video[index]}, frame"
        f" {table.position[index]:,}. At c = 0: {_counted(early)}. At c = 1: {_counted(late)}."
    )
    if late.share is not None:
        text += " Share: the part of the pull towards the anchor that a member gets in the noise-aware loss."
    return text


def _counted(bag: Bag) -> str:
    size = len(bag.members)
    if np.isnan(bag.same).any():
        return f"{counted(size, 'member')}, polyps not known"
    return f"{int(bag.same.sum())} of {counted(size, 'member')} show the anchor's polyp"


def _timeline(axes: Axes, tracklets: Tracklets, anchor: int, clock: Clock) -> Floats:
    """Draws all tracklets of the anchor's procedure; gives the place on the axis (inches) of every tracklet."""
    rows = np.flatnonzero(tracklets.video == tracklets.video[anchor])
    first, last = tracklets.position[rows].min(), tracklets.position[rows].max()
    left, right = MARGIN + 0.1, WIDTH - MARGIN - 0.1
    place = left + (tracklets.position - first) / max(last - first, 1) * (right - left)
    middle = (LINE_TOP + LINE_BOTTOM) / 2
    axes.plot([left, right], [middle, middle], color=LINE, linewidth=5, solid_capstyle="round", zorder=1)
    own = tracklets.polyp[anchor]
    for row in rows:
        known = bool(tracklets.polyp[row] and own)
        colour = (RIGHT if tracklets.polyp[row] == own else WRONG) if known else SOFT
        axes.plot([place[row]] * 2, [LINE_BOTTOM, LINE_TOP], color=colour, linewidth=1.3, zorder=2)
    places, texts = clock.ticks(float(first), float(last))
    for at, text in zip(places, texts, strict=True):
        x = left + (at - first) / max(last - first, 1) * (right - left)
        axes.text(x, LINE_BOTTOM - 0.06, text, ha="center", va="top", fontsize=7, color=SOFT)
    axes.plot(
        place[anchor], middle, "o", color=ACCENT, markersize=9, zorder=6, markeredgecolor=PAPER, markeredgewidth=1.5
    )
    return np.asarray(place)


def _band(axes: Axes, scene: Scene, bag: Bag, base: float, heading: str, when: Floats) -> None:
    """One bag: the anchor's strip and its members' side by side, their strips standing on `base`."""
    pitch = (WIDTH - 2 * MARGIN) / (1 + max(len(bag.members), 1))
    width = 0.92 * pitch
    frames = max(1, round(width / 0.5))
    position = scene.tracklets.position
    height = _strip(axes, scene, bag.anchor, frames, (MARGIN, base, width), ACCENT)
    axes.text(MARGIN, base + height + 0.28, heading, fontsize=10, fontweight="bold", va="bottom")
    tau = "" if bag.tau in (0.0, np.inf) else f", τ = {bag.tau:.3g}"
    axes.text(MARGIN, base + height + 0.11, f"c = {bag.c:g}{tau}", color=SOFT, va="bottom")
    axes.text(MARGIN, base - 0.09, "anchor", va="top", color=ACCENT, fontweight="bold")
    axes.text(
        MARGIN + width, base - 0.09, scene.clock.at(float(position[bag.anchor])), va="top", ha="right", color=SOFT
    )
    if bag.share is not None:
        axes.text(MARGIN, base - 0.335, "share of the gradient", va="center", color=SOFT)
    for number, member in enumerate(bag.members):
        left = MARGIN + pitch * (number + 1)
        same = bag.same[number]
        colour = SOFT if np.isnan(same) else RIGHT if same else WRONG
        _strip(axes, scene, int(member), frames, (left, base, width), colour, dashed=same == 0)
        apart = scene.clock.apart(float(position[member] - position[bag.anchor]))
        _said(axes, bag, number, left, left + width, base, apart)
        upper = base > LINE_TOP
        ends = (base - 0.64, LINE_TOP + 0.03) if upper else (base + height + 0.04, LINE_BOTTOM - 0.2)
        _thread(axes, (left + width / 2, ends[0]), (float(when[member]), ends[1]), colour, dashed=same == 0)


def _thread(axes: Axes, begin: tuple[float, float], end: tuple[float, float], colour: str, *, dashed: bool) -> None:
    """A line that leaves a strip upright and meets the timeline upright."""
    middle = (begin[1] + end[1]) / 2
    path = Path([begin, (begin[0], middle), (end[0], middle), end], [Path.MOVETO, *[Path.CURVE4] * 3])
    style = (0, (3, 1.5)) if dashed else "-"
    axes.add_patch(PathPatch(path, fill=False, edgecolor=colour, linewidth=1.1, linestyle=style, zorder=1.5))


def _strip(
    axes: Axes,
    scene: Scene,
    tracklet: int,
    frames: int,
    place: tuple[float, float, float],
    colour: str,
    *,
    dashed: bool = False,
) -> float:
    """A film strip in a frame, at (left, bottom, width) in inches; gives its height."""
    left, base, width = place
    picture = film(frames_of(scene.dataset, int(scene.chosen[tracklet]), frames, 72))
    height = float(width * picture.shape[0] / picture.shape[1])
    axes.imshow(
        picture, extent=(left, left + width, base, base + height), interpolation="none", zorder=3, aspect="auto"
    )
    frame = FancyBboxPatch(
        (left - 0.015, base - 0.015),
        width + 0.03,
        height + 0.03,
        boxstyle="round,pad=0,rounding_size=0.04",
        fill=False,
        edgecolor=colour,
        linewidth=2,
        linestyle=(0, (3, 1.5)) if dashed else "-",
        zorder=4,
    )
    axes.add_patch(frame)
    axes.set(xlim=(0, WIDTH), ylim=(0, HEIGHT))
    return height


def _said(axes: Axes, bag: Bag, number: int, left: float, right: float, base: float, apart: str) -> None:
    """Below a member: rank and time, the share as a bar, and whether it is the same polyp."""
    axes.text(left, base - 0.09, f"rank {bag.rank[number]:g}", va="top")
    axes.text(right, base - 0.09, apart, va="top", ha="right", color=SOFT)
    same = bag.same[number]
    if not np.isnan(same):
        verdict, colour = ("✓ same polyp", RIGHT) if same else ("✗ other polyp", WRONG)
        axes.text(left, base - 0.44, verdict, va="top", color=colour, fontweight="bold")
    if bag.share is not None:
        share = float(bag.share[number])
        axes.add_patch(Rectangle((left, base - 0.37), right - left, 0.07, facecolor=LINE, linewidth=0))
        axes.add_patch(Rectangle((left, base - 0.37), (right - left) * share, 0.07, facecolor=INK, linewidth=0))
        axes.text(right, base - 0.44, f"{100 * share:.0f} %", va="top", ha="right")
