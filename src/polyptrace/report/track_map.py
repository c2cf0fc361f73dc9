"""A map of tracks: their vectors in two dimensions, coloured by polyp, or by procedure without labels.

Up to 50 principal components, then t-SNE with a fixed seed. Neighbourhoods are meaningful; distances between groups
and the sizes of groups are not.
"""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from polyptrace import drawing
from polyptrace.core.arrays import Floats
from polyptrace.core.console import counted
from polyptrace.core.randomness import numpy_generator
from polyptrace.data.identity import join_keys
from polyptrace.drawing import Drawing
from polyptrace.evaluate import Results

COMPONENTS = 50
PERPLEXITY = 30.0

#: More tracks take minutes and hide each other; a random sample is shown.
MAX_TRACKS = 1500

#: Procedures in the legend, and its columns.
MAX_LEGEND, LEGEND_COLUMNS = 12, 2


def project_2d(vectors: NDArray[np.floating]) -> Floats:
    """Points (n, 2) of vectors (n, D); equal vectors have equal points."""
    points = np.asarray(vectors, np.float64)
    count, width = points.shape
    if count < 4:
        return np.stack([np.arange(count, dtype=np.float64), np.zeros(count)], axis=1)
    if np.ptp(points, axis=0).max() < 1e-6:
        return np.zeros((count, 2))
    if min(count, width) > COMPONENTS:
        points = PCA(COMPONENTS, svd_solver="full").fit_transform(points)
    tsne = TSNE(2, perplexity=min(PERPLEXITY, (count - 1) / 3), init="pca", random_state=0, metric="cosine")
    return np.asarray(tsne.fit_transform(points), np.float64)


@dataclass(frozen=True)
class MappedTracks:
    """The n tracks of a map: vectors (n, D), and the polyp of each or, if no polyp is known, its procedure."""

    vectors: NDArray[np.floating]
    group: NDArray[np.str_]  # "" unknown
    by_polyp: bool  # whether groups are polyps

    @property
    def groups(self) -> list[str]:
        """The names of the groups in the order of their colours."""
        return [name for name in dict.fromkeys(self.group.tolist()) if name]

    @property
    def summary(self) -> str:
        """For example "24 tracks of 6 polyps"."""
        tracks = counted(len(self.vectors), "track")
        kind = "polyp" if self.by_polyp else "procedure"
        return f"{tracks} of {counted(len(self.groups), kind)}" if self.groups else tracks


def mapped_tracks(row: Results) -> MappedTracks | None:
    """The tracks whose vectors the results contain, of retrieval if possible, so that all methods show the same.

    None if the results contain no vectors.
    """
    tables = (row.tasks[name].table for name in ("retrieval", *row.tasks) if name in row.tasks)
    table = next((name for name in tables if f"{name}/plane_vectors" in row.arrays), None)
    if table is None:
        return None
    vectors, index = row.arrays[f"{table}/plane_vectors"], row.arrays[f"{table}/plane_index"]
    sample = np.sort(numpy_generator(0).permutation(len(vectors))[:MAX_TRACKS])
    dataset, polyp, video = (row.arrays[f"{table}/{name}"][index[sample]] for name in ("dataset", "polyp", "video"))
    by_polyp = bool((polyp != "").any())
    return MappedTracks(vectors[sample], join_keys(dataset, polyp if by_polyp else video).astype(str), by_polyp)


@drawing.styled
def track_map(mapped: MappedTracks, method: str, number: int) -> Drawing:
    """The map of a method: each polyp has a colour, a marker, and lines from its median to its tracks.

    Without labels, each procedure has a colour and a marker, explained in a legend.
    """
    points = project_2d(mapped.vectors)
    names = [] if mapped.by_polyp else mapped.groups
    lines = -(-min(len(names), MAX_LEGEND + 1) // LEGEND_COLUMNS)
    below = 0.1 + (0.24 + 0.148 * lines if names else 0)  # inches
    figure = drawing.panel(3.2, 3.3 + below, left=0.12, bottom=below)
    axes = figure.axes[0]
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set(visible=True, color=drawing.LINE)
    axes.set_title(drawing.shortened(method))
    axes.margins(0.04)
    axes.plot(*points[mapped.group == ""].T, ".", color=drawing.SOFT, markersize=3, alpha=0.6)
    for group, name in enumerate(mapped.groups):
        members = points[mapped.group == name]
        if mapped.by_polyp:
            _draw_star(axes, members, group)
        axes.add_line(_markers(group, len(points), members))
    axes.autoscale_view()
    if names:
        _legend(figure, names)
    return drawing.finished(figure, f"map_{number}", f"Map of {mapped.summary} by {method}.")


def _draw_star(axes: Axes, points: Floats, group: int) -> None:
    """Lines from the median of a group to its points."""
    median = np.median(points, axis=0)
    lines = np.stack([np.broadcast_to(median, points.shape), points], axis=1)  # (n, 2 ends, 2)
    colour = drawing.POLYP_COLOURS[group % len(drawing.POLYP_COLOURS)]
    axes.add_collection(LineCollection(list(lines), colors=colour, linewidths=0.5, alpha=0.35, zorder=1))


def _markers(group: int, total: int, points: Floats) -> Line2D:
    """The markers of one group; smaller with more tracks in total."""
    return Line2D(
        *points.T,
        linestyle="none",
        marker=drawing.MARKERS[(group // len(drawing.POLYP_COLOURS) + group) % len(drawing.MARKERS)],
        color=drawing.POLYP_COLOURS[group % len(drawing.POLYP_COLOURS)],
        markersize=float(np.clip(60 / np.sqrt(total), 2.2, 5.5)),
        markeredgecolor=drawing.PAPER,
        markeredgewidth=0.35,
        alpha=0.95,
        zorder=2,
    )


def _legend(figure: Figure, names: list[str]) -> None:
    """The colours and markers of the first procedures, below the map."""
    one_dataset = len({name.partition("/")[0] for name in names}) == 1
    labels = [name.partition("/")[2] if one_dataset else name.lstrip("/") for name in names[:MAX_LEGEND]]
    shown = [label if len(label) <= 20 else f"…{label[-19:]}" for label in labels]  # names usually differ at the end
    entries = [(_markers(group, 1, np.empty((0, 2))), label) for group, label in enumerate(shown)]
    if len(names) > MAX_LEGEND:
        entries.append((Line2D([], [], linestyle="none"), f"and {len(names) - MAX_LEGEND:,} more"))
    drawing.legend(
        figure,
        entries,
        loc="lower left",
        bbox_to_anchor=(0.12 / figure.get_figwidth(), 0.05 / figure.get_figheight()),
        ncols=LEGEND_COLUMNS,
        title="Colour and marker: procedure",
        fontsize=7,
        title_fontsize=7.5,
        handlelength=1,
        labelspacing=0.35,
    )
