"""A map of tracks: their vectors in two dimensions, coloured by polyp.

Up to 50 principal components, then t-SNE (seeded, so the same vectors give the same map). Neighbours are meant to stay
neighbours; distances between groups, and their sizes, mean little.
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from polyptrace.evaluate import Results
from polyptrace.plural import counted
from polyptrace.report.style import LESIONS, LINE, PAPER, SHAPES, SOFT, Drawing, finished, panel, shortened, styled

Floats = NDArray[np.float64]

COMPONENTS = 50
PERPLEXITY = 30.0

#: Tracks on a map: more take minutes, and cover each other.
MOST = 1500


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


def mapped_tracks(row: Results) -> tuple[NDArray[np.floating], NDArray[np.str_]]:
    """Vectors (n, D) that results keep for a map, and dataset/polyp of each, "" unknown; the same for all methods."""
    table = row.tasks["retrieval"].table if "retrieval" in row.tasks else "tracks"
    index = row.arrays[f"{table}/plane_index"]
    polyp, dataset = row.arrays[f"{table}/polyp"][index], row.arrays[f"{table}/dataset"][index]
    names = np.array([f"{d}/{p}" if p else "" for d, p in zip(dataset, polyp, strict=True)], dtype=str)
    vectors = row.arrays[f"{table}/plane_vectors"]
    some = np.sort(np.random.default_rng(0).permutation(len(vectors))[:MOST])
    return vectors[some], names[some]


def has_map(row: Results) -> bool:
    """Whether results kept vectors for a map."""
    return any(name.endswith("/plane_vectors") for name in row.arrays)


@styled
def track_map(row: Results, number_of_row: int, seed: int = 0) -> Drawing:
    """The map of one method: each polyp has a colour and a shape, and threads from its middle to its tracks."""
    vectors, polyp = mapped_tracks(row)
    places = plane(vectors, seed)
    figure = panel(3.2, 3.4, left=0.12, bottom=0.1)
    axes = figure.axes[0]
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set(visible=True, color=LINE)
    axes.set_title(shortened(row.method.name))
    axes.margins(0.04)
    unknown = polyp == ""
    axes.plot(*places[unknown].T, ".", color=SOFT, markersize=3, alpha=0.6)
    for place, name in enumerate(dict.fromkeys(polyp[~unknown].tolist())):
        _polyp(axes, places[polyp == name], place, len(places))
    of_polyps = f" of {counted(len(set(polyp[~unknown])), 'polyp')}" if not unknown.all() else ""
    words = f"Map of {counted(len(places), 'track')}{of_polyps} by {row.method.name}."
    return finished(figure, f"map_{number_of_row}", words)


def _polyp(axes: Axes, places: Floats, number: int, total: int) -> None:
    colour = LESIONS[number % len(LESIONS)]
    shape = SHAPES[(number // len(LESIONS) + number) % len(SHAPES)]
    size = float(np.clip(60 / np.sqrt(total), 2.2, 5.5))
    middle = np.median(places, axis=0)
    threads = np.stack([np.broadcast_to(middle, places.shape), places], axis=1)  # (n, 2 ends, 2)
    axes.add_collection(LineCollection(list(threads), colors=colour, linewidths=0.5, alpha=0.35, zorder=1))
    axes.plot(
        *places.T,
        shape,
        color=colour,
        markersize=size,
        markeredgecolor=PAPER,
        markeredgewidth=0.35,
        alpha=0.95,
        zorder=2,
    )
