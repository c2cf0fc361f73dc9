"""A procedure on a time axis: its tracks in the clusters that counting found, above the true polyps.

The upper panel has a lane for each cluster. The lower one has a lane for each true polyp or, without labels, for each
cluster of a baseline. Colour and number are those of the cluster in both panels, so a lane in one colour was counted
as one polyp.
"""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.offsetbox import AnnotationBbox, OffsetImage
from numpy.typing import NDArray

from polyptrace.core.arrays import Ints
from polyptrace.core.console import counted
from polyptrace.core.timecode import has_rate, time_ticks
from polyptrace.data.identity import TrackKey, by_appearance, codes, group_rows, join_keys
from polyptrace.drawing import INK, LINE, POLYP_COLOURS, SOFT, Drawing, canvas, finished, styled
from polyptrace.evaluate import Results
from polyptrace.film_strips import TrackImages
from polyptrace.report.ranking import CLUSTERINGS

#: Shortest drawn track and shortest track with a number, as fractions of the axis.
MIN_WIDTH, NUMBERED_WIDTH = 0.004, 0.014

#: With more lanes than this, no images are shown.
MAX_IMAGES = 40


@dataclass(frozen=True)
class TrackTimes:
    """The tracks of one procedure in temporal order."""

    dataset: str
    video: str
    track: Ints
    first: Ints
    last: Ints
    fps: float
    cluster: Ints  # numbered from 0 in order of appearance
    polyp: NDArray[np.str_]  # "" unknown
    baseline: Ints | None = None  # clusters of a baseline

    @property
    def labelled(self) -> bool:
        return bool((self.polyp != "").all())


def shown_clustering(row: Results) -> str | None:
    """The first of `CLUSTERINGS` whose clusters of the tracks a row has; None if it has none."""
    return next((task for task in CLUSTERINGS if row.done(task) and f"{task}/cluster" in row.arrays), None)


def counted_procedures(
    row: Results, task: str, count: int = 6, baseline: Results | None = None
) -> tuple[list[TrackTimes], int]:
    """Up to `count` procedures, those with the most polyps (or clusters) first; and the total number."""
    names = ("dataset", "video", "track", "position", "last", "fps", "polyp")
    dataset, video, track, first, last, fps, polyp = row.columns(task, *names)
    cluster = row.arrays[f"{task}/cluster"]
    other = None if baseline is None else _clusters_of(baseline, task, row.track_keys(task))
    procedures = []
    for members in group_rows(codes(join_keys(dataset, video))):
        rows = members[np.argsort(first[members], kind="stable")]
        procedures.append(
            TrackTimes(
                str(dataset[rows[0]]),
                str(video[rows[0]]),
                track[rows],
                first[rows],
                last[rows],
                float(fps[rows[0]]),
                by_appearance(cluster[rows]),
                polyp[rows],
                None if other is None or (other[rows] < 0).any() else by_appearance(other[rows]),
            )
        )
    procedures.sort(key=lambda p: (-len(set(p.polyp.tolist())), -len(set(p.cluster.tolist())), p.dataset, p.video))
    return procedures[:count], len(procedures)


def _clusters_of(row: Results, task: str, wanted: list[TrackKey]) -> Ints | None:
    """The clusters of another row for some tracks; -1 for tracks that it does not have."""
    if not row.done(task):
        return None
    cluster_of = dict(zip(row.track_keys(task), row.arrays[f"{task}/cluster"].tolist(), strict=True))
    return np.array([cluster_of.get(key, -1) for key in wanted], np.int64)


def found_text(method: str, cluster: Ints) -> str:
    """How many polyps a method found, from the cluster of each track."""
    return f"{method}: {counted(int(cluster.max()) + 1, 'polyp')} found"


@styled
def draw_timeline(
    procedure: TrackTimes, images: TrackImages | None, number: int, heading: str, baseline: str = ""
) -> Drawing:
    """The tracks by cluster and below by polyp, or by cluster of the baseline; with an image of each lane if given."""
    panels = [(heading, procedure.cluster, _numbers(procedure.cluster))]
    if procedure.labelled:
        polyps = list(dict.fromkeys(procedure.polyp.tolist()))
        panels.append((f"Truth: {counted(len(polyps), 'polyp')}", by_appearance(procedure.polyp), polyps))
    elif procedure.baseline is not None:
        panels.append((found_text(baseline, procedure.baseline), procedure.baseline, _numbers(procedure.baseline)))
    total = sum(len(names) for _, _, names in panels)
    with_images = images is not None and total <= MAX_IMAGES
    figure = canvas(10.2, 0.85 + (0.34 if with_images else 0.22) * total + 0.3 * (len(panels) - 1))
    ratios = [len(names) for _, _, names in panels]
    axes = np.atleast_1d(figure.subplots(len(panels), 1, sharex=True, gridspec_kw={"height_ratios": ratios}))
    for one, (title, lanes, names) in zip(axes, panels, strict=True):
        _draw_lanes(one, procedure, lanes, names, images if with_images else None)
        one.set_title(title, fontsize=9)
    first, last = float(procedure.first.min()), float(procedure.last.max())
    padding = 0.01 * max(last - first, 1.0)
    axes[-1].set_xlim(first - padding, last + padding)
    axes[-1].set_xticks(*time_ticks(first, last, procedure.fps, 12))
    axes[-1].set_xlabel("time in the procedure" if has_rate(procedure.fps) else "frame")
    titles = "; ".join(title for title, _, _ in panels)
    description = f"Procedure {procedure.video}: {counted(len(procedure.track), 'track')}. {titles}."
    return finished(figure, f"timeline_{number}", description)


def _numbers(cluster: Ints) -> list[str]:
    return [str(number + 1) for number in range(int(cluster.max()) + 1)]


def _draw_lanes(axes: Axes, procedure: TrackTimes, lane: Ints, names: list[str], images: TrackImages | None) -> None:
    """Draws each track in its lane, in the colour of its cluster and with its number where there is room."""
    span = max(int(procedure.last.max() - procedure.first.min()), 1)
    width = np.maximum(procedure.last - procedure.first, MIN_WIDTH * span)
    for y, left, length, cluster in zip(lane, procedure.first, width, procedure.cluster, strict=True):
        colour = POLYP_COLOURS[cluster % len(POLYP_COLOURS)]
        axes.barh(y, length, left=left, height=0.62, color=colour, linewidth=0)
        if length > NUMBERED_WIDTH * span:
            middle = left + length / 2  # white also in the dark mode of a page, where PAPER is dark
            axes.text(middle, y, str(cluster + 1), color="#ffffff", fontsize=6.5, ha="center", va="center")
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), names, color=INK, fontsize=7.5)
    axes.tick_params(axis="y", length=0, pad=4 if images is None else 30)
    axes.spines["left"].set_visible(False)
    axes.spines["bottom"].set_color(LINE)
    axes.tick_params(axis="x", color=SOFT)
    axes.hlines(range(len(names)), 0, 1, transform=axes.get_yaxis_transform(), color=LINE, linewidth=0.6, zorder=0)
    axes.grid(visible=False, axis="y")
    if images is not None:
        _draw_images(axes, procedure, lane, len(names), images)


def _draw_images(axes: Axes, procedure: TrackTimes, lane: Ints, lanes: int, images: TrackImages) -> None:
    """An image of the longest track of each lane, to its left."""
    for y in range(lanes):
        inside = np.flatnonzero(lane == y)
        longest = inside[np.argmax((procedure.last - procedure.first)[inside])]
        key = (procedure.dataset, procedure.video, int(procedure.track[longest]), int(procedure.first[longest]))
        still = images.still(key, 48)
        if still is None:
            continue
        box = AnnotationBbox(
            OffsetImage(still, zoom=0.44, interpolation="none"),
            (0, y),
            xycoords=axes.get_yaxis_transform(),
            xybox=(-17, 0),
            boxcoords="offset points",
            frameon=False,
            annotation_clip=False,
        )
        axes.add_artist(box)
