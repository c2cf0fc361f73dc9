"""Which tracks of one procedure show the same polyp: three clusterings of their vectors, no labels needed.

    cluster(vectors, "threshold", 0.5)                       # (n,) 0, 1, ... in order of first appearance

- threshold: tracks whose cosine is at least the setting are linked; clusters are the connected components.
- affinity: affinity propagation on the cosines; the setting is the preference. Each of up to as many clusters as
  tracks has an exemplar.
- temporal: affinity propagation, preference 0, on α minmax(cosine) + (1 - α) minmax(exp(-λ D)); the setting is α,
  λ is 1, and D is the gap in frames between two tracks over the length of the video, 0 where they overlap.

Minmax stretches a matrix, diagonal included, to [0, 1]; a matrix of equal numbers becomes all 1. Where affinity
propagation has found no exemplars after 500 rounds, each track is a cluster of its own.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components

from polyptrace.core.errors import UserError
from polyptrace.evaluate.affinity import affinity_propagation
from polyptrace.evaluate.similarity import Vectors, unit_vectors

Clustering = Literal["threshold", "affinity", "temporal"]
#: The settings that tuning chooses from, and the one that stands where there is nothing to tune on.
SETTINGS: dict[Clustering, NDArray[np.float64]] = {
    "threshold": np.linspace(0.0, 1.0, 101),
    "affinity": np.linspace(-5.0, 5.0, 21),
    "temporal": np.linspace(0.3, 0.7, 41),
}
DEFAULT: dict[Clustering, float] = {"threshold": 0.5, "affinity": 0.0, "temporal": 0.5}
DECAY = 1.0


def cluster(
    vectors: Vectors,
    method: Clustering = "threshold",
    setting: float | None = None,
    *,
    first: ArrayLike | None = None,
    last: ArrayLike | None = None,
    length: int | None = None,
) -> NDArray[np.int64]:
    """Clusters (n,) of the tracks of one procedure, numbered by first appearance.

    `temporal` needs each track's `first` and `last` frame; the video's `length` in frames is the last frame seen, if
    it is not given. Without a `setting` the stated default stands.
    """
    check_method(method)
    matrices = similarities(vectors, method, first, last, length)
    settings = np.array([DEFAULT[method] if setting is None else setting])
    return np.asarray(cluster_matrices(matrices, method, settings)[0])


def check_method(method: str) -> None:
    """Raises where there is no such clustering."""
    if method not in SETTINGS:
        raise UserError(f"counting: clustering {method!r} -> {', '.join(SETTINGS)}")


def similarities(
    vectors: Vectors,
    method: Clustering,
    first: ArrayLike | None = None,
    last: ArrayLike | None = None,
    length: int | None = None,
) -> tuple[NDArray[np.float64], ...]:
    """The matrices (n, n) that a clustering works on: cosines; for `temporal` stretched, and closeness in time."""
    unit = unit_vectors(vectors)[0].double().numpy()
    cosine = np.round(np.clip(unit @ unit.T, -1.0, 1.0), 12)
    if method != "temporal":
        return (cosine,)
    if first is None or last is None:
        raise UserError("counting: temporal clustering -> give the first and last frame of each track")
    start, end = np.asarray(first, dtype=np.float64), np.asarray(last, dtype=np.float64)
    gap = np.maximum(0.0, np.maximum(start - end[:, None], start[:, None] - end))
    frames = max(end.max() + 1 if length is None else length, 1)
    return _stretched(cosine), _stretched(np.exp(-DECAY * gap / frames))


def cluster_matrices(
    similarity: tuple[NDArray[np.float64], ...], method: Clustering, settings: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Clusters (S, n) for S settings from what `similarities` gave, numbered by first appearance."""
    match method:
        case "threshold":
            found = [connected_components(similarity[0] >= s, directed=False)[1] for s in settings]
        case "affinity":
            found = list(affinity_propagation(np.repeat(similarity[0][None], len(settings), axis=0), settings))
        case "temporal":
            share = settings[:, None, None]
            mixed = share * similarity[0] + (1 - share) * similarity[1]
            found = list(affinity_propagation(mixed, np.zeros(len(settings))))
    return np.stack([_by_appearance(labels) for labels in found])


def _stretched(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    low, high = matrix.min(), matrix.max()
    return np.ones_like(matrix) if high == low else (matrix - low) / (high - low)


def _by_appearance(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    _, seen, place = np.unique(labels, return_index=True, return_inverse=True)
    number = np.empty(len(seen), dtype=np.int64)
    number[np.argsort(seen)] = np.arange(len(seen))
    return number[place.reshape(-1)]
