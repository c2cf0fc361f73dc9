"""The paper's Figure 1 for an anchor of one's own data: its bags at c = 0 and c = 1 on the procedure's timeline.

    polyptrace figures bag DATASET --encoder RUN --out FOLDER

Each member with its film strip, when it was seen, its share of the gradient (from an encoder's vectors), and whether it
shows the anchor's polyp (where that is known).
"""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle

from polyptrace.config import Supervision
from polyptrace.data import Dataset
from polyptrace.report.clock import Clock
from polyptrace.report.film import film, frames_of
from polyptrace.report.purity import Floats, Ints, Tracklets, draw, same_polyp, sampled_ranks, shares
from polyptrace.report.style import (
    ACCENT,
    INK,
    LESIONS,
    LINE,
    RIGHT,
    SOFT,
    WRONG,
    Drawing,
    canvas,
    finished,
    styled,
)

#: Inches: the figure, its margin, a film strip and the line of time.
WIDTH, HEIGHT, MARGIN = 11.0, 6.1, 0.1
STRIP, LINE_TOP, LINE_BOTTOM = 0.62, 3.28, 3.02
UPPER, LOWER = 4.75, 0.95


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
    """An anchor to show: one whose bag at c = 1 has members of its own and of another polyp, else any with a bag."""
    bags, _ = draw(tracklets, settings, 1.0, seed)
    same = same_polyp(tracklets.polyp, bags)
    full = (bags >= 0).sum(1) == (bags >= 0).sum(1).max()
    mixed = np.flatnonzero((same == 1).any(1) & (same == 0).any(1) & full)
    candidates = mixed if len(mixed) else np.flatnonzero(full)
    return int(np.random.default_rng(seed).choice(candidates))


@styled
def bag_figure(dataset: Dataset, tracklets: Tracklets, chosen: Ints, early: Bag, late: Bag) -> Drawing:
    """Both bags of an anchor, above and below the timeline; `chosen` are the tracklets' indices in the dataset."""
    figure = canvas(WIDTH, HEIGHT)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(0, HEIGHT))
    axes.set_axis_off()
    clock = Clock(float(dataset.tracklets.fps[chosen[early.anchor]]))
    when = _timeline(axes, tracklets, early.anchor, clock)
    for bag, base, side in ((early, UPPER, "Start of training"), (late, LOWER, "End of training")):
        _band(axes, dataset, tracklets, chosen, bag, base, side, clock, when)
    words = f"The bags of one anchor on the timeline of its procedure: {_counted(early)} at c = 0, {_counted(late)} at c = 1."
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
        return f"{size} members, polyps not known"
    return f"{int(bag.same.sum())} of {size} members show the anchor's polyp"


def _timeline(axes: Axes, tracklets: Tracklets, anchor: int, clock: Clock) -> Floats:
    """Draws all tracklets of the anchor's procedure; gives the place on the axis (inches) of every tracklet."""
    rows = np.flatnonzero(tracklets.video == tracklets.video[anchor])
    first, last = tracklets.position[rows].min(), tracklets.position[rows].max()
    left, right = MARGIN + 0.1, WIDTH - MARGIN - 0.1
    place = left + (tracklets.position - first) / max(last - first, 1) * (right - left)
    middle = (LINE_TOP + LINE_BOTTOM) / 2
    axes.plot([left - 0.1, right + 0.1], [middle, middle], color=LINE, linewidth=6, solid_capstyle="round", zorder=1)
    polyps = list(dict.fromkeys(tracklets.polyp[rows[np.argsort(tracklets.position[rows])]].tolist()))
    for row in rows:
        name = tracklets.polyp[row]
        colour = LESIONS[polyps.index(name) % len(LESIONS)] if name else SOFT
        axes.plot([place[row]] * 2, [LINE_BOTTOM, LINE_TOP], color=colour, linewidth=1.6, zorder=2)
    places, texts = clock.ticks(float(first), float(last))
    for at, text in zip(places, texts, strict=True):
        x = left + (at - first) / max(last - first, 1) * (right - left)
        axes.text(x, LINE_BOTTOM - 0.06, text, ha="center", va="top", fontsize=7, color=SOFT)
    axes.plot(place[anchor], middle, "o", color=ACCENT, markersize=9, zorder=6, markeredgecolor=INK)
    return np.asarray(place)


def _band(
    axes: Axes,
    dataset: Dataset,
    tracklets: Tracklets,
    chosen: Ints,
    bag: Bag,
    base: float,
    heading: str,
    clock: Clock,
    when: Floats,
) -> None:
    """One bag: the anchor's strip and its members' side by side, their strips standing on `base`."""
    columns = 1 + max(len(bag.members), 1)
    pitch = (WIDTH - 2 * MARGIN) / columns
    count = max(1, round(pitch * 0.94 / STRIP * 0.82))
    above = base > LINE_TOP
    top = base + STRIP
    axes.text(MARGIN, top + 0.42, heading, fontsize=10, fontweight="bold", va="bottom")
    tau = "" if bag.tau in (0.0, np.inf) else f", τ = {bag.tau:.3g}"
    axes.text(MARGIN, top + 0.24, f"c = {bag.c:g}{tau}", color=SOFT, va="bottom")
    right = _strip(axes, dataset, int(chosen[bag.anchor]), count, MARGIN, base, ACCENT, dashed=False)
    axes.text(MARGIN, base - 0.09, "anchor", va="top", color=ACCENT, fontweight="bold")
    moment = clock.at(float(tracklets.position[bag.anchor]))
    axes.text(right, base - 0.09, moment, va="top", ha="right", color=SOFT)
    for number, member in enumerate(bag.members):
        left = MARGIN + pitch * (number + 1)
        same = bag.same[number]
        colour = SOFT if np.isnan(same) else RIGHT if same else WRONG
        right = _strip(axes, dataset, int(chosen[member]), count, left, base, colour, dashed=same == 0)
        middle = (left + right) / 2
        ends = (base - 0.62, LINE_TOP + 0.03) if above else (top + 0.05, LINE_BOTTOM - 0.2)
        reach = when[member]
        bend = (ends[0] + ends[1]) / 2
        axes.plot(
            [middle, middle, reach, reach],
            [ends[0], bend + 0.12 * (1 if above else -1), bend - 0.12 * (1 if above else -1), ends[1]],
            color=colour,
            linewidth=1,
            linestyle="--" if same == 0 else "-",
            zorder=1.5,
        )
        _said(
            axes,
            bag,
            number,
            left,
            right,
            base,
            clock.apart(float(tracklets.position[member] - tracklets.position[bag.anchor])),
        )


def _strip(
    axes: Axes, dataset: Dataset, index: int, count: int, left: float, base: float, colour: str, *, dashed: bool
) -> float:
    """A film strip in a frame; gives its right edge."""
    picture = film(frames_of(dataset, index, count, 72))
    width = STRIP * picture.shape[1] / picture.shape[0]
    axes.imshow(picture, extent=(left, left + width, base, base + STRIP), interpolation="none", zorder=3, aspect="auto")
    frame = FancyBboxPatch(
        (left - 0.015, base - 0.015),
        width + 0.03,
        STRIP + 0.03,
        boxstyle="round,pad=0,rounding_size=0.04",
        fill=False,
        edgecolor=colour,
        linewidth=2,
        linestyle=(0, (3, 1.5)) if dashed else "-",
        zorder=4,
    )
    axes.add_patch(frame)
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(0, HEIGHT)
    return left + width


def _said(axes: Axes, bag: Bag, number: int, left: float, right: float, base: float, apart: str) -> None:
    """Below a member: rank and time, the share as a bar, and whether it is the same polyp."""
    axes.text(left, base - 0.09, f"rank {bag.rank[number]:g}", va="top")
    axes.text(right, base - 0.09, apart, va="top", ha="right", color=SOFT)
    same = bag.same[number]
    if not np.isnan(same):
        verdict, colour = ("✓ same polyp", RIGHT) if same else ("✗ other polyp", WRONG)
        axes.text(left, base - 0.45, verdict, va="top", color=colour, fontweight="bold")
    if bag.share is not None:
        share = float(bag.share[number])
        axes.add_patch(Rectangle((left, base - 0.37), right - left, 0.07, facecolor=LINE, linewidth=0))
        axes.add_patch(Rectangle((left, base - 0.37), (right - left) * share, 0.07, facecolor=INK, linewidth=0))
        axes.text(right, base - 0.45, f"share {100 * share:.0f} %", va="top", ha="right")
