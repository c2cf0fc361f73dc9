"""Counting: cluster the tracks of each procedure and compare clusters with polyps (the authors' earlier papers).

`count_lesions` counts as `polyptrace lesions` does, without labels. Beside it three published clusterings of the
vectors of a procedure, each with a setting:

- threshold: tracks with a cosine of at least the setting are linked; clusters are the connected components.
- affinity: affinity propagation (scikit-learn, damping 0.9) on the cosines; the setting is the preference.
- temporal: affinity propagation with preference 0 on α minmax(cosine) + (1 - α) minmax(exp(-λ D)); the setting is α,
  λ is 1, and D is the gap in frames between two tracks over the length of the video, 0 where they overlap.

Minmax scales a matrix, diagonal included, to [0, 1]; a constant matrix becomes all 1. If affinity propagation finds no
exemplars, each track is its own cluster.

    fragmentation = clusters / polyps of a video (1 is ideal), mean and standard deviation over videos
    false positive rate = FP / (FP + TN) over pairs of tracks within a video; FP: two polyps in one cluster

The setting is tuned to a false positive rate of 5 %: the setting whose rate, over the pairs of all tuning videos with
two polyps or more, is closest; ties are broken by the fewest clusters. Each video uses the setting tuned on the other
videos. If no other video has two polyps, or nothing is labelled, the default is used.
"""

import warnings
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components
from sklearn.cluster import AffinityPropagation
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.cluster import pair_confusion_matrix

from polyptrace.core.arrays import Bools, Floats, Ints
from polyptrace.core.errors import UserError
from polyptrace.core.randomness import numpy_generator
from polyptrace.data.identity import by_appearance, group_rows
from polyptrace.embed import Embeddings
from polyptrace.evaluate.similarity import Labels, Vectors, label_codes, unit_rows
from polyptrace.lesions import lesions

Clustering = Literal["threshold", "affinity", "temporal"]
#: The settings that tuning chooses from, and the one that is used without tuning.
SETTINGS: dict[Clustering, Floats] = {
    "threshold": np.linspace(0.0, 1.0, 101),
    "affinity": np.linspace(-5.0, 5.0, 21),
    "temporal": np.linspace(0.3, 0.7, 41),
}
DEFAULT_SETTING: dict[Clustering, float] = {"threshold": 0.5, "affinity": 0.0, "temporal": 0.5}
TARGET = 0.05
DECAY = 1.0
#: Noise on similarities. scikit-learn adds 1e-16, too little to separate a symmetric pair of tracks.
JITTER = 1e-6


@dataclass(frozen=True)
class Counting:
    """Cluster of every track; for each video its setting, clusters, polyps (-1: no labels) and pairs."""

    cluster: Ints  # (N,), numbered within the video
    setting: Floats  # (V,)
    tuned: Bools  # (V,): False where the setting was given or the default
    clusters: Ints  # (V,)
    polyps: Ints  # (V,)
    pairs: Ints  # (V, 4): FP, TN, TP, FN
    interval: Ints | None = None  # (V, 2): smallest and largest count, where the clustering gives them

    @property
    def labelled(self) -> Bools:
        """Videos (V,) whose polyps are known."""
        return self.polyps > 0

    @property
    def fragmentation(self) -> float:
        """Clusters per polyp, mean over labelled videos."""
        return self._value("fragmentation")

    @property
    def fragmentations(self) -> Floats:
        """Clusters per polyp of each labelled video."""
        return self.clusters[self.labelled] / self.polyps[self.labelled]

    @property
    def false_positive_rate(self) -> float:
        """Share of two-polyp pairs in one cluster, in videos with two polyps or more."""
        return self._value("false_positive_rate")

    @property
    def recall(self) -> float:
        """Share of same-polyp pairs in one cluster."""
        return self._value("recall")

    @property
    def rand(self) -> Floats:
        """Adjusted Rand index of each labelled video; 1 where clusters and polyps are the same partition."""
        fp, tn, tp, fn = self.pairs[self.labelled].T.astype(np.float64)
        chance = (tp + fn) * (fn + tn) + (tp + fp) * (fp + tn)
        same = (fp == 0) & (fn == 0)
        return np.asarray(np.where(same, 1.0, 2 * (tp * tn - fn * fp) / np.where(chance == 0, 1.0, chance)))

    @property
    def errors(self) -> Ints:
        """Clusters minus polyps of each labelled video."""
        return (self.clusters - self.polyps)[self.labelled]

    def _value(self, metric: str) -> float:
        """A metric of the data themselves; NaN without labels."""
        every = np.ones((1, len(self.clusters)), dtype=np.int64)
        return float(self.draws(every).get(metric, np.full(1, np.nan))[0])

    def draws(self, counts: Ints) -> dict[str, Floats]:
        """Each metric on draws (R, V) of videos; without labels only the number of clusters."""
        weights = counts.astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            metrics = {"clusters": weights @ self.clusters / weights.sum(axis=1)}
            if not self.labelled.any():
                return metrics
            known = weights[:, self.labelled]
            videos = known.sum(axis=1)
            fragmentation = known @ self.fragmentations / videos
            square = known @ self.fragmentations**2 / videos
            several = weights[:, self.polyps > 1] @ self.pairs[self.polyps > 1]
            total = weights @ self.pairs
            if self.interval is not None:
                low, high = self.interval[self.labelled].T
                polyps = self.polyps[self.labelled]
                metrics["covered"] = known @ ((low <= polyps) & (polyps <= high)) / videos
            return metrics | {
                "fragmentation": fragmentation,
                "fragmentation_sd": np.sqrt(np.maximum(square - fragmentation**2, 0.0)),
                "false_positive_rate": several[:, 0] / (several[:, 0] + several[:, 1]),
                "recall": total[:, 2] / (total[:, 2] + total[:, 3]),
                "pair_f1": 2 * total[:, 2] / (2 * total[:, 2] + total[:, 0] + total[:, 3]),
                "rand": known @ self.rand / videos,
                "count_error": known @ np.abs(self.errors) / videos,
                "count_bias": known @ self.errors / videos,
            }


def count(
    vectors: Vectors,
    video: Labels,
    polyp: Labels | None = None,
    *,
    method: Clustering = "threshold",
    first: ArrayLike | None = None,
    last: ArrayLike | None = None,
    setting: float | None = None,
) -> Counting:
    """Counts the polyps of each procedure from whole tracks (N, D); the setting is tuned leaving one video out.

    A given `setting` is not tuned. Tracks without a polyp are clustered, but are in no pair; a video with such a track
    does not enter fragmentation.
    """
    if method not in SETTINGS:
        raise UserError(f"counting: clustering {method!r} is unknown -> use {', '.join(SETTINGS)}")
    unit = unit_rows(vectors)[0].numpy()
    videos = label_codes(video, len(unit), "video")
    if (videos < 0).any():
        raise UserError(f"counting: row {int(np.argmin(videos))} has no video -> give the procedure of each track")
    polyps = np.full(len(unit), -1) if polyp is None else label_codes(polyp, len(unit))
    members = group_rows(videos)
    candidates = SETTINGS[method] if setting is None and (polyps >= 0).any() else np.empty(0)
    settings = np.append(candidates, DEFAULT_SETTING[method] if setting is None else setting)
    labels = []  # of each video: (settings, tracks)
    for rows in members:
        times = None if first is None or last is None else (np.asarray(first)[rows], np.asarray(last)[rows])
        labels.append(_clusters(unit[rows], times, method, settings))
    return _chosen(members, labels, polyps, settings)


def count_lesions(tracks: Embeddings, video: Labels, polyp: Labels | None = None) -> Counting:
    """Counts the lesions of each procedure from whole tracks as `polyptrace lesions` does; labels only judge."""
    videos = label_codes(video, len(tracks), "video")
    polyps = np.full(len(tracks), -1) if polyp is None else label_codes(polyp, len(tracks))
    procedures = sorted(lesions(tracks), key=lambda each: int(videos[each.rows[0]]))
    members, clusters = [each.rows for each in procedures], [each.lesion[None] for each in procedures]
    counted = _chosen(members, clusters, polyps, np.full(1, np.nan))
    return replace(counted, interval=np.array([each.interval for each in procedures]))


def closeness(first: Ints, last: Ints) -> Floats:
    """The closeness in time (n, n) of tracks with these first and last frames, scaled by `minmax`."""
    gap = np.maximum(0, np.maximum(first - last[:, None], first[:, None] - last))
    return minmax(np.exp(-DECAY * gap / max(last.max() + 1, 1)))


def minmax(matrix: Floats) -> Floats:
    """The matrix scaled to [0, 1]; all 1 if it is constant."""
    low, high = matrix.min(), matrix.max()
    return np.ones_like(matrix) if high == low else (matrix - low) / (high - low)


def affinity_propagation(similarity: Floats, preference: float) -> Ints:
    """Clusters (n,) of a similarity matrix (n, n); each track its own cluster if there are no exemplars."""
    tracks = len(similarity)
    others = similarity[~np.eye(tracks, dtype=bool)]
    if tracks > 1 and np.ptp(others) > 0:
        similarity = similarity + JITTER * numpy_generator(0).standard_normal(similarity.shape)
    model = AffinityPropagation(
        affinity="precomputed", damping=0.9, max_iter=500, convergence_iter=50, preference=preference, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="All samples have mutually equal similarities")
        labels = model.fit(similarity).labels_
    return np.arange(tracks) if (labels < 0).any() else labels.astype(np.int64)


def _clusters(vectors: Vectors, times: tuple[Ints, Ints] | None, method: Clustering, settings: Floats) -> Ints:
    """Clusters (S, n) of the tracks of a video for S settings, numbered by first appearance."""
    unit = unit_rows(vectors)[0].double().numpy()
    cosine = np.round(np.clip(unit @ unit.T, -1.0, 1.0), 12)
    match method:
        case "threshold":
            labels = [connected_components(cosine >= s, directed=False)[1] for s in settings]
        case "affinity":
            labels = [affinity_propagation(cosine, s) for s in settings]
        case "temporal":
            if times is None:
                raise UserError("counting, temporal: no frames -> give the first and last frame of each track")
            alike, close = minmax(cosine), closeness(*times)
            labels = [affinity_propagation(s * alike + (1 - s) * close, 0.0) for s in settings]
    return np.stack([by_appearance(each) for each in labels])


def _chosen(members: list[Ints], labels: list[Ints], polyps: Ints, settings: Floats) -> Counting:
    """Each video with the setting tuned on the others; the last setting is the fixed one."""
    number = np.array([-1 if (polyps[rows] < 0).any() else len(np.unique(polyps[rows])) for rows in members])
    pairs = np.stack([_pairs(each, polyps[rows]) for rows, each in zip(members, labels, strict=True)])
    clusters = np.stack([each.max(axis=1) + 1 for each in labels])  # (V, settings)
    pick = np.full(len(members), len(settings) - 1)
    several = number > 1
    for left_out in range(len(members)):
        others = several & (np.arange(len(members)) != left_out)
        if len(settings) > 1 and others.any():
            pick[left_out] = _tune(pairs[others, :-1].sum(axis=0), clusters[others, :-1].sum(axis=0))
    every = np.arange(len(members))
    cluster = np.empty(len(polyps), dtype=np.int64)
    for rows, each, chosen in zip(members, labels, pick, strict=True):
        cluster[rows] = each[chosen]
    tuned = pick < len(settings) - 1
    return Counting(cluster, settings[pick], tuned, clusters[every, pick], number, pairs[every, pick])


def _tune(pairs: Ints, clusters: Ints) -> int:
    """The setting whose false positive rate is closest to `TARGET`; the fewest clusters among ties."""
    rate = pairs[:, 0] / (pairs[:, 0] + pairs[:, 1])
    return int(np.lexsort((clusters, np.round(np.abs(rate - TARGET), 12)))[0])


def _pairs(labels: Ints, polyp: Ints) -> Ints:
    """FP, TN, TP, FN (settings, 4) over pairs of tracks whose polyps are known."""
    known = polyp >= 0
    ordered = np.stack([pair_confusion_matrix(polyp[known], each[known]) for each in labels])  # TN, FP, FN, TP
    return np.asarray(ordered.reshape(len(labels), 4)[:, [1, 0, 3, 2]] // 2)
