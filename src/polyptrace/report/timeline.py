"""A procedure on a line of time: its tracks in the clusters that counting found, and beside them the truth.

Above, a lane for each cluster; below, where polyps are known, a lane for each polyp. The colour is the cluster's in
both, so a lane of the truth in one colour was counted once, and a lane in two was counted twice.
"""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.offsetbox import AnnotationBbox, OffsetImage
from numpy.typing import NDArray

from polyptrace.core.console import counted
from polyptrace.evaluate import Results
from polyptrace.report.clock import Clock
from polyptrace.report.film import Pictures
from polyptrace.report.style import INK, LESIONS, LINE, SOFT, Drawing, canvas, finished, styled

#: Clusterings in the order in which one is chosen to be shown.
WAYS = ("counting.temporal", "counting.affinity", "counting.threshold")

#: A track is drawn at least this wide, as a share of the axis.
LEAST = 0.004


@dataclass(frozen=True)
class Procedure:
    """The tracks of one procedure, in order of time."""

    dataset: str
    video: str
    rows: NDArray[np.int64]  # of the tracks' table
    track: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    fps: float
    cluster: NDArray[np.int64]  # numbered from 0 in order of appearance
    polyp: NDArray[np.str_]  # "" unknown

    @property
    def labelled(self) -> bool:
        return bool((self.polyp != "").all())


def shown_way(row: Results) -> str | None:
    """The clustering to show, or None if counting was not done."""
    return next((way for way in WAYS if way in row.tasks and row.tasks[way].status == "done"), None)


def procedures(row: Results, way: str, most: int = 6) -> tuple[list[Procedure], int]:
    """Procedures to show, those with the most polyps (or clusters) first, and how many there are."""
    table = row.tasks[way].table
    index, cluster = row.arrays[f"{way}/index"], row.arrays[f"{way}/cluster"]
    dataset, video = (row.arrays[f"{table}/{column}"][index] for column in ("dataset", "video"))
    names = list(dict.fromkeys(zip(dataset.tolist(), video.tolist(), strict=True)))
    found = [_procedure(row, table, index, cluster, (dataset == d) & (video == v), d, v) for d, v in names]
    found.sort(key=lambda p: (-len(set(p.polyp.tolist())), -len(set(p.cluster.tolist())), p.dataset, p.video))
    return found[:most], len(found)


def _procedure(
    row: Results,
    table: str,
    index: NDArray[np.int64],
    cluster: NDArray[np.int64],
    mask: NDArray[np.bool_],
    dataset: str,
    video: str,
) -> Procedure:
    def column(name: str) -> NDArray[np.generic]:
        return np.asarray(row.arrays[f"{table}/{name}"][index[chosen]])

    chosen = np.flatnonzero(mask)
    chosen = chosen[np.argsort(row.arrays[f"{table}/position"][index[chosen]], kind="stable")]
    number = {name: place for place, name in enumerate(dict.fromkeys(cluster[chosen].tolist()))}
    return Procedure(
        dataset,
        video,
        index[chosen],
        column("track").astype(np.int64),
        column("position").astype(np.int64),
        column("last").astype(np.int64),
        float(column("fps").astype(np.float64)[0]),
        np.array([number[name] for name in cluster[chosen].tolist()]),
        column("polyp").astype(str),
    )


@styled
def timeline(procedure: Procedure, pictures: Pictures | None, number: int) -> Drawing:
    """The procedure's tracks by cluster and, where known, by polyp; with pictures, a still of each lane."""
    clusters = int(procedure.cluster.max()) + 1
    polyps = list(dict.fromkeys(procedure.polyp.tolist())) if procedure.labelled else []
    lane = 0.34 if pictures is not None and clusters + len(polyps) <= 40 else 0.22
    stills = pictures if lane > 0.3 else None
    figure = canvas(10.2, 0.85 + lane * (clusters + len(polyps)) + (0.3 if polyps else 0))
    ratios = [clusters, len(polyps)] if polyps else [clusters]
    panels = np.atleast_1d(figure.subplots(len(ratios), 1, sharex=True, gridspec_kw={"height_ratios": ratios}))
    clock = Clock(procedure.fps)
    _lanes(panels[0], procedure, procedure.cluster, [str(n + 1) for n in range(clusters)], stills)
    panels[0].set_title(f"Found: {counted(clusters, 'polyp')}", fontsize=9)
    if polyps:
        _lanes(panels[1], procedure, np.array([polyps.index(p) for p in procedure.polyp]), polyps, stills)
        panels[1].set_title(f"Truth: {counted(len(polyps), 'polyp')}", fontsize=9)
    first, last = float(procedure.first.min()), float(procedure.last.max())
    pad = 0.01 * max(last - first, 1.0)
    panels[-1].set_xlim(first - pad, last + pad)
    panels[-1].set_xticks(*clock.ticks(first, last, 12))
    panels[-1].set_xlabel("time in the procedure" if clock.known else "frame of the procedure")
    tracks = counted(len(procedure.rows), "track")
    words = f"Procedure {procedure.video}: {tracks}, {counted(clusters, 'cluster')} found"
    words += f", {counted(len(polyps), 'polyp')} in truth." if polyps else ", truth not known."
    return finished(figure, f"timeline_{number}", words)


def _lanes(
    axes: Axes, procedure: Procedure, lane: NDArray[np.int64], names: list[str], pictures: Pictures | None
) -> None:
    """Draws each track in its lane, in the colour of its cluster, with the cluster's number where there is room."""
    span = max(int(procedure.last.max() - procedure.first.min()), 1)
    width = np.maximum(procedure.last - procedure.first, LEAST * span)
    for place in range(len(lane)):
        cluster = procedure.cluster[place]
        colour = LESIONS[cluster % len(LESIONS)]
        axes.barh(lane[place], width[place], left=procedure.first[place], height=0.62, color=colour, linewidth=0)
        if width[place] > 0.014 * span:
            middle = procedure.first[place] + width[place] / 2
            axes.text(middle, lane[place], str(cluster + 1), color="#fffffe", fontsize=6.5, ha="center", va="center")
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), names, color=INK, fontsize=7.5)
    axes.tick_params(axis="y", length=0, pad=4 if pictures is None else 30)
    axes.spines["left"].set_visible(False)
    axes.spines["bottom"].set_color(LINE)
    axes.tick_params(axis="x", color=SOFT)
    axes.hlines(range(len(names)), 0, 1, transform=axes.get_yaxis_transform(), color=LINE, linewidth=0.6, zorder=0)
    axes.grid(visible=False, axis="y")
    if pictures is not None:
        _stills(axes, procedure, lane, len(names), pictures)


def _stills(axes: Axes, procedure: Procedure, lane: NDArray[np.int64], lanes: int, pictures: Pictures) -> None:
    """A still of the longest track of each lane, left of it."""
    for place in range(lanes):
        inside = np.flatnonzero(lane == place)
        longest = inside[np.argmax((procedure.last - procedure.first)[inside])]
        key = (procedure.dataset, procedure.video, int(procedure.track[longest]), int(procedure.first[longest]))
        still = pictures.still(key, 48)
        if still is None:
            continue
        image = OffsetImage(still, zoom=0.44, interpolation="none")
        axes.add_artist(
            AnnotationBbox(
                image,
                (0, place),
                xycoords=axes.get_yaxis_transform(),
                xybox=(-17, 0),
                boxcoords="offset points",
                frameon=False,
                pad=0,
                box_alignment=(0.5, 0.5),
                annotation_clip=False,
            )
        )
