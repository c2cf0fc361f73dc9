"""The paper's Figure 1 for any anchor: its bags at c = 0 and c = 1 above and below the timeline of its procedure."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, PathPatch, Rectangle
from matplotlib.path import Path

from polyptrace.config import Supervision
from polyptrace.core.arrays import Floats, Ints
from polyptrace.core.console import counted
from polyptrace.core.randomness import numpy_generator
from polyptrace.core.timecode import time_offset, time_ticks, timecode
from polyptrace.data import Dataset
from polyptrace.drawing import ACCENT, INK, LINE, PAPER, RIGHT, SOFT, WRONG, Drawing, canvas, finished, styled
from polyptrace.figures.figure2 import TrainingTracklets, bag_ranks, bags_at, gradient_shares
from polyptrace.film_strips import CropImages, film_strip
from polyptrace.supervision.purity import same_polyp

#: Layout in inches: figure size, margin, top and bottom of the timeline, lower edge of the strips of both bags.
WIDTH, HEIGHT, MARGIN = 10.2, 5.9, 0.12
TIMELINE_TOP, TIMELINE_BOTTOM = 3.28, 3.02
UPPER, LOWER = 4.62, 0.78


@dataclass(frozen=True)
class AnchorBag:
    """The bag of one anchor: K members in order of rank."""

    anchor: int
    c: float
    tau: float
    members: Ints
    rank: Floats
    same: Floats  # 1 the anchor's polyp, 0 another, NaN unknown
    share: Floats | None  # of the gradient


@dataclass(frozen=True)
class _Canvas:
    """What both bags are drawn from."""

    axes: Axes
    images: CropImages
    tracklets: TrainingTracklets
    fps: float
    x: Floats  # position of each tracklet on the timeline, in inches


def bag_at(tracklets: TrainingTracklets, settings: Supervision, anchor: int, c: float, seed: int = 0) -> AnchorBag:
    """The bag that training would draw for an anchor at progress c."""
    bags, tau = bags_at(tracklets, settings, c, seed)
    ranks = bag_ranks(tracklets, bags)[anchor]
    order = np.argsort(ranks, kind="stable")[: int((bags[anchor] >= 0).sum())]  # NaN (no member) sorts last
    members = bags[anchor][order]
    share = None
    if tracklets.vectors is not None and len(members):
        share = gradient_shares(tracklets.vectors, np.array([anchor]), members[None], tracklets.temperature)[0]
    same = same_polyp(bags, tracklets.polyp)[anchor][order]
    return AnchorBag(anchor, c, tau, members, ranks[order], same, share)


def illustrative_anchor(tracklets: TrainingTracklets, settings: Supervision, seed: int = 0) -> int:
    """A random anchor among those that best show the curriculum.

    Preferred are anchors whose bag is pure at c = 0 and contains their own and another polyp at c = 1; then those for
    which only the second holds; then any with a full bag.
    """
    early, late = (bags_at(tracklets, settings, c, seed)[0] for c in (0.0, 1.0))
    full = (late >= 0).sum(1) == (late >= 0).sum(1).max()
    same = same_polyp(late, tracklets.polyp)
    mixed = full & (same == 1).any(1) & (same == 0).any(1)
    pure = ((same_polyp(early, tracklets.polyp) == 1) | (early < 0)).all(1)
    candidates = next(np.flatnonzero(group) for group in (mixed & pure, mixed, full) if group.any())
    return int(numpy_generator(seed).choice(candidates))


@styled
def bag_figure(dataset: Dataset, tracklets: TrainingTracklets, early: AnchorBag, late: AnchorBag) -> Drawing:
    """Both bags of an anchor, above and below the timeline."""
    figure = canvas(WIDTH, HEIGHT)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(0, HEIGHT))
    axes.set_axis_off()
    fps = float(dataset.tracklets.fps[tracklets.index[early.anchor]])
    x = _draw_timeline(axes, tracklets, early.anchor, fps)
    drawn = _Canvas(axes, CropImages(dataset), tracklets, fps, x)
    _draw_bag(drawn, early, UPPER, "Start of the curriculum")
    _draw_bag(drawn, late, LOWER, "End of the curriculum")
    description = (
        f"The bags of one anchor and the timeline of its procedure: {_composition(early)} at c = 0,"
        f" {_composition(late)} at c = 1."
    )
    return finished(figure, "bag", description)


def bag_caption(dataset: Dataset, tracklets: TrainingTracklets, early: AnchorBag, late: AnchorBag) -> str:
    """Which anchor is shown, and what its bags contain."""
    table, index = dataset.tracklets, int(tracklets.index[early.anchor])
    text = (
        f"Tracklet {early.anchor} of {table.dataset[index]}, procedure {table.video[index]}, frame"
        f" {table.position[index]:,}. At c = 0: {_composition(early)}. At c = 1: {_composition(late)}."
    )
    if late.share is not None:
        text += " Share of the gradient: how strongly the noise-aware loss pulls each member towards the anchor."
    return text


def _composition(bag: AnchorBag) -> str:
    size = len(bag.members)
    if np.isnan(bag.same).any():
        return f"{counted(size, 'member')}, polyps unknown"
    return f"{int(bag.same.sum())} of {counted(size, 'member')} show the anchor's polyp"


def _draw_timeline(axes: Axes, tracklets: TrainingTracklets, anchor: int, fps: float) -> Floats:
    """Draws the tracklets of the anchor's procedure; returns the x position of every tracklet (N,) in inches."""
    rows = np.flatnonzero(tracklets.video == tracklets.video[anchor])
    first, last = tracklets.position[rows].min(), tracklets.position[rows].max()
    left, right = MARGIN + 0.1, WIDTH - MARGIN - 0.1
    scale = (right - left) / max(int(last - first), 1)
    x = left + (tracklets.position - first) * scale
    middle = (TIMELINE_TOP + TIMELINE_BOTTOM) / 2
    axes.plot([left, right], [middle, middle], color=LINE, linewidth=5, solid_capstyle="round", zorder=1)
    polyp = tracklets.polyp[anchor]
    for row in rows:
        known = bool(tracklets.polyp[row] and polyp)
        colour = (RIGHT if tracklets.polyp[row] == polyp else WRONG) if known else SOFT
        axes.plot([x[row]] * 2, [TIMELINE_BOTTOM, TIMELINE_TOP], color=colour, linewidth=1.3, zorder=2)
    for tick, label in zip(*time_ticks(float(first), float(last), fps), strict=True):
        at = left + (tick - first) * scale
        axes.text(at, TIMELINE_BOTTOM - 0.06, label, ha="center", va="top", fontsize=7, color=SOFT)
    axes.plot(x[anchor], middle, "o", color=ACCENT, markersize=9, zorder=6, markeredgecolor=PAPER, markeredgewidth=1.5)
    return np.asarray(x)


def _draw_bag(drawn: _Canvas, bag: AnchorBag, base: float, heading: str) -> None:
    """The strips of the anchor and of its members side by side, with their lower edge at `base`."""
    axes, position = drawn.axes, drawn.tracklets.position
    pitch = (WIDTH - 2 * MARGIN) / (1 + max(len(bag.members), 1))
    width = 0.92 * pitch
    height = _draw_strip(drawn, bag.anchor, (MARGIN, base, width), ACCENT)
    axes.text(MARGIN, base + height + 0.28, heading, fontsize=10, fontweight="bold", va="bottom")
    tau = "" if bag.tau in (0.0, np.inf) else f", τ = {bag.tau:.3g}"
    axes.text(MARGIN, base + height + 0.11, f"c = {bag.c:g}{tau}", color=SOFT, va="bottom")
    axes.text(MARGIN, base - 0.09, "anchor", va="top", color=ACCENT, fontweight="bold")
    moment = timecode(float(position[bag.anchor]), drawn.fps)
    axes.text(MARGIN + width, base - 0.09, moment, va="top", ha="right", color=SOFT)
    if bag.share is not None:
        axes.text(MARGIN, base - 0.335, "share of the gradient", va="center", color=SOFT)
    for number, member in enumerate(bag.members):
        left = MARGIN + pitch * (number + 1)
        same = bag.same[number]
        colour = SOFT if np.isnan(same) else RIGHT if same else WRONG
        _draw_strip(drawn, int(member), (left, base, width), colour, dashed=same == 0)
        offset = time_offset(float(position[member] - position[bag.anchor]), drawn.fps)
        _label_member(axes, bag, number, (left, left + width), base, offset)
        above = base > TIMELINE_TOP
        ends = (base - 0.64, TIMELINE_TOP + 0.03) if above else (base + height + 0.04, TIMELINE_BOTTOM - 0.2)
        begin, end = (left + width / 2, ends[0]), (float(drawn.x[member]), ends[1])
        _draw_connection(axes, begin, end, colour, dashed=same == 0)


def _draw_connection(
    axes: Axes, begin: tuple[float, float], end: tuple[float, float], colour: str, *, dashed: bool
) -> None:
    """A curve from a strip to the timeline, vertical at both ends."""
    middle = (begin[1] + end[1]) / 2
    path = Path([begin, (begin[0], middle), (end[0], middle), end], [Path.MOVETO, *[Path.CURVE4] * 3])
    style = (0, (3, 1.5)) if dashed else "-"
    axes.add_patch(PathPatch(path, fill=False, edgecolor=colour, linewidth=1.1, linestyle=style, zorder=1.5))


def _draw_strip(
    drawn: _Canvas, tracklet: int, corner: tuple[float, float, float], colour: str, *, dashed: bool = False
) -> float:
    """A framed film strip at (left, bottom, width) in inches; returns its height."""
    left, base, width = corner
    frames = drawn.images.frames(int(drawn.tracklets.index[tracklet]), max(1, round(width / 0.5)), 120)
    strip = film_strip(frames)
    height = float(width * strip.shape[0] / strip.shape[1])
    extent = (left, left + width, base, base + height)
    drawn.axes.imshow(strip, extent=extent, interpolation="none", zorder=3, aspect="auto")
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
    drawn.axes.add_patch(frame)
    drawn.axes.set(xlim=(0, WIDTH), ylim=(0, HEIGHT))  # imshow changes the limits
    return height


def _label_member(
    axes: Axes, bag: AnchorBag, number: int, edges: tuple[float, float], base: float, offset: str
) -> None:
    """Below a member: rank and time offset, share of the gradient, and whether it shows the same polyp."""
    left, right = edges
    axes.text(left, base - 0.09, f"rank {bag.rank[number]:g}", va="top")
    axes.text(right, base - 0.09, offset, va="top", ha="right", color=SOFT)
    same = bag.same[number]
    if not np.isnan(same):
        label, colour = ("✓ same polyp", RIGHT) if same else ("✗ other polyp", WRONG)
        axes.text(left, base - 0.44, label, va="top", color=colour, fontweight="bold")
    if bag.share is not None:
        share = float(bag.share[number])
        axes.add_patch(Rectangle((left, base - 0.37), right - left, 0.07, facecolor=LINE, linewidth=0))
        axes.add_patch(Rectangle((left, base - 0.37), (right - left) * share, 0.07, facecolor=INK, linewidth=0))
        axes.text(right, base - 0.44, f"{100 * share:.0f} %", va="top", ha="right")
