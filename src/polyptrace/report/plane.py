"""A map of tracks: their vectors in two dimensions, coloured by polyp, or by procedure where no polyp is known.

Up to 50 principal components, then t-SNE (seeded, so the same vectors give the same map). Neighbours are meant to stay
neighbours; distances between groups, and their sizes, mean little.
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

from polyptrace.core.console import counted
from polyptrace.data import join_keys
from polyptrace.evaluate import Results
from polyptrace.report.style import LESIONS, LINE, PAPER, SHAPES, SOFT, Drawing, finished, panel, shortened, styled

Floats = NDArray[np.float64]

COMPONENTS = 50
PERPLEXITY = 30.0

#: Tracks on a map: more take minutes, and cover each other.
MOST = 1500

#: Procedures that a legend names, in so many columns.
NAMED, COLUMNS = 12, 2


def plane(vectors: NDArray[np.floating], seed: int = 0) -> Floats:
    """Places (n, 2) of vectors (n, D); vectors that are all the same have one place."""
    points = np.asarray(vectors, np.float64)
    count, width = points.shape
    if count < 4:
        return np.stack([np.arange(count, dtype=np.float64), np.zeros(count)], axis=1)
    if np.ptp(points, axis=0).max() < 1e-6:
        return np.zeros((count, 2))
    if min(count, width) > COMPONENTS:
        points = PCA(COMPONENTS, svd_solver="full").fit_transform(points)
    tsne = TSNE(2, perplexity=min(PERPLEXITY, (count - 1) / 3), init="pca", random_state=seed, metric="cosine")
    return np.asarray(tsne.fit_transform(points), np.float64)


@dataclass(frozen=True)
class Mapped:
    """The n tracks of a map: vectors (n, D), and the polyp and the procedure of each, "" unknown."""

    vectors: NDArray[np.floating]
    polyp: NDArray[np.str_]
    procedure: NDArray[np.str_]

    @property
    def by_polyp(self) -> bool:
        """Whether colours stand for polyps: where none is known they stand for procedures."""
        return bool((self.polyp != "").any())

    @property
    def group(self) -> NDArray[np.str_]:
        """What has a colour and a shape."""
        return self.polyp if self.by_polyp else self.procedure

    @property
    def groups(self) -> list[str]:
        """Their names, in the order of their colours."""
        return [name for name in dict.fromkeys(self.group.tolist()) if name]

    @property
    def counted(self) -> str:
        """24 tracks of 6 polyps."""
        tracks = counted(len(self.vectors), "track")
        kind = "polyp" if self.by_polyp else "procedure"
        return f"{tracks} of {counted(len(self.groups), kind)}" if self.groups else tracks


def mapped_tracks(row: Results) -> Mapped:
    """The tracks that results keep for a map; the same for all methods."""
    table = row.tasks["retrieval"].table if "retrieval" in row.tasks else "tracks"
    index = row.arrays[f"{table}/plane_index"]
    dataset = row.arrays[f"{table}/dataset"][index]
    vectors = row.arrays[f"{table}/plane_vectors"]
    some = np.sort(np.random.default_rng(0).permutation(len(vectors))[:MOST])

    def named(column: str) -> NDArray[np.str_]:
        return join_keys(dataset, row.arrays[f"{table}/{column}"][index]).astype(str)[some]

    return Mapped(vectors[some], named("polyp"), named("video"))


def has_map(row: Results) -> bool:
    """Whether results kept vectors for a map."""
    return any(name.endswith("/plane_vectors") for name in row.arrays)


@styled
def track_map(row: Results, number_of_row: int, seed: int = 0) -> Drawing:
    """The map of one method: each polyp has a colour and a shape, and threads from its middle to its tracks.

    Without labels each procedure has them, with a legend and without threads.
    """
    mapped = mapped_tracks(row)
    places = plane(mapped.vectors, seed)
    names = [] if mapped.by_polyp else mapped.groups
    lines = -(-min(len(names), NAMED + 1) // COLUMNS)
    below = 0.1 + (0.24 + 0.148 * lines if names else 0)  # inches
    figure = panel(3.2, 3.3 + below, left=0.12, bottom=below)
    axes = figure.axes[0]
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set(visible=True, color=LINE)
    axes.set_title(shortened(row.method.name))
    axes.margins(0.04)
    axes.plot(*places[mapped.group == ""].T, ".", color=SOFT, markersize=3, alpha=0.6)
    for number, name in enumerate(mapped.groups):
        inside = places[mapped.group == name]
        if mapped.by_polyp:
            _threads(axes, inside, number)
        axes.add_line(_marks(number, len(places), inside))
    axes.autoscale_view()
    if names:
        _legend(figure, names)
    return finished(figure, f"map_{number_of_row}", f"Map of {mapped.counted} by {row.method.name}.")


def _threads(axes: Axes, places: Floats, number: int) -> None:
    middle = np.median(places, axis=0)
    threads = np.stack([np.broadcast_to(middle, places.shape), places], axis=1)  # (n, 2 ends, 2)
    colour = LESIONS[number % len(LESIONS)]
    axes.add_collection(LineCollection(list(threads), colors=colour, linewidths=0.5, alpha=0.35, zorder=1))


def _marks(number: int, total: int, places: Floats) -> Line2D:
    """The marks of one group among so many tracks."""
    return Line2D(
        *places.T,
        linestyle="none",
        marker=SHAPES[(number // len(LESIONS) + number) % len(SHAPES)],
        color=LESIONS[number % len(LESIONS)],
        markersize=float(np.clip(60 / np.sqrt(total), 2.2, 5.5)),
        markeredgecolor=PAPER,
        markeredgewidth=0.35,
        alpha=0.95,
        zorder=2,
    )


def _legend(figure: Figure, names: list[str]) -> None:
    """What colours and shapes stand for, below the map; the first procedures by name."""
    one_dataset = len({name.partition("/")[0] for name in names}) == 1
    said = [name.partition("/")[2] if one_dataset else name.lstrip("/") for name in names[:NAMED]]
    handles = [_marks(number, 1, np.empty((0, 2))) for number in range(len(said))]
    if len(names) > NAMED:
        handles.append(Line2D([], [], linestyle="none"))
        said.append(f"and {len(names) - NAMED:,} more")
    shown = figure.legend(
        handles,
        [" "] * len(handles),
        loc="lower left",
        bbox_to_anchor=(0.12 / figure.get_figwidth(), 0.05 / figure.get_figheight()),
        ncols=COLUMNS,
        title="Colour and shape: the procedure",
        alignment="left",
        fontsize=7,
        title_fontsize=7.5,
        handlelength=1,
        labelspacing=0.35,
    )
    for text, name in zip(shown.get_texts(), said, strict=True):
        text.set_text(name if len(name) <= 20 else f"…{name[-19:]}")  # names differ at their end
