"""Counting: cluster the tracks of each procedure; clusters against polyps (the authors' earlier papers).

    fragmentation = clusters / polyps of a video (1 is ideal), mean and standard deviation over videos
    false positive rate = FP / (FP + TN) over pairs of tracks within a video: FP pairs of two polyps in one cluster

The setting is tuned to a false positive rate of 5 %: the one whose rate, over the pairs of all tuning videos with two
polyps or more, is closest; among equals the one with the fewest clusters. Each video is clustered with the setting
tuned on the others. Where no other video has two polyps (or nothing is labelled) the stated default stands.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polyptrace.core.errors import UserError
from polyptrace.evaluate.clustering import DEFAULT, SETTINGS, Clustering, check_method, cluster_matrices, similarities
from polyptrace.evaluate.similarity import Labels, Vectors, label_codes, unit_vectors

TARGET = 0.05


@dataclass(frozen=True)
class Counting:
    """Clusters of every track, and for each video its setting, clusters, polyps (-1: no labels) and pairs."""

    cluster: NDArray[np.int64]  # (N,), numbered within the video
    video: NDArray[np.int64]  # (N,) codes, in sorted order of the names
    setting: NDArray[np.float64]  # (V,)
    tuned: NDArray[np.bool_]  # (V,): False where the default stood
    clusters: NDArray[np.int64]  # (V,)
    polyps: NDArray[np.int64]  # (V,)
    pairs: NDArray[np.int64]  # (V, 4): FP, TN, TP, FN

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Videos (V,) whose polyps are known."""
        return self.polyps > 0

    @property
    def fragmentation(self) -> float:
        """Clusters per polyp, mean over labelled videos."""
        return float(self.fragmentations.mean()) if self.labelled.any() else float("nan")

    @property
    def fragmentations(self) -> NDArray[np.float64]:
        """Clusters per polyp of each labelled video."""
        return self.clusters[self.labelled] / self.polyps[self.labelled]

    @property
    def false_positive_rate(self) -> float:
        """Share of two-polyp pairs that share a cluster, in videos with two polyps or more."""
        several = self.pairs[self.polyps > 1].sum(axis=0)
        return _share(several[0], several[0] + several[1])

    @property
    def recall(self) -> float:
        """Share of same-polyp pairs that share a cluster."""
        total = self.pairs.sum(axis=0)
        return _share(total[2], total[2] + total[3])

    @property
    def errors(self) -> NDArray[np.int64]:
        """Clusters minus polyps of each labelled video."""
        return (self.clusters - self.polyps)[self.labelled]


def count(
    vectors: Vectors,
    video: Labels,
    polyp: Labels | None = None,
    *,
    method: Clustering = "threshold",
    first: ArrayLike | None = None,
    last: ArrayLike | None = None,
    setting: float | None = None,
    target: float = TARGET,
) -> Counting:
    """Counts polyps in each procedure from whole tracks (N, D); leave-one-video-out tuning where labels allow it.

    A fixed `setting` is used as it is. Tracks without polyp are clustered, but do not enter pairs; a video in
    which any track lacks its polyp does not enter fragmentation.
    """
    check_method(method)
    rows = unit_vectors(vectors)[0].numpy()
    videos = label_codes(video, len(rows), "video")
    if (videos < 0).any():
        raise UserError(f"counting: row {int(np.argmin(videos))} has no video -> name the procedure of each track")
    polyps = np.full(len(rows), -1) if polyp is None else label_codes(polyp, len(rows))
    members = [np.flatnonzero(videos == code) for code in range(videos.max() + 1)]
    candidates = SETTINGS[method] if setting is None and (polyps >= 0).any() else np.empty(0)
    fixed = DEFAULT[method] if setting is None else setting
    tried = np.append(candidates, fixed)
    starts, ends = (np.zeros(0) if frame is None else np.asarray(frame) for frame in (first, last))
    labels = []  # of each video: (settings, tracks)
    for own in members:
        times = (starts[own], ends[own]) if len(starts) and len(ends) else (None, None)
        matrices = similarities(rows[own], method, *times)
        labels.append(cluster_matrices(matrices, method, tried))
    return _chosen(members, labels, polyps, tried, target)


def _chosen(
    members: list[NDArray[np.int64]],
    labels: list[NDArray[np.int64]],
    polyps: NDArray[np.int64],
    tried: NDArray[np.float64],
    target: float,
) -> Counting:
    """Each video with the setting that the others choose; the last of `tried` is the fixed one."""
    number = np.array([_number(polyps[own]) for own in members])
    pairs = np.stack([_pairs(own_labels, polyps[own]) for own, own_labels in zip(members, labels, strict=True)])
    found = np.stack([own_labels.max(axis=1) + 1 for own_labels in labels])  # (V, settings)
    pick = np.full(len(members), len(tried) - 1)
    tuned = np.zeros(len(members), dtype=bool)
    several = number > 1
    for left_out in range(len(members)):
        others = several & (np.arange(len(members)) != left_out)
        if len(tried) > 1 and others.any():
            pick[left_out] = _tune(pairs[others, :-1].sum(axis=0), found[others, :-1].sum(axis=0), target)
            tuned[left_out] = True
    every = np.arange(len(members))
    cluster = np.empty(len(polyps), dtype=np.int64)
    video = np.empty(len(polyps), dtype=np.int64)
    for code, own in enumerate(members):
        cluster[own] = labels[code][pick[code]]
        video[own] = code
    return Counting(cluster, video, tried[pick], tuned, found[every, pick], number, pairs[every, pick])


def _tune(pairs: NDArray[np.int64], clusters: NDArray[np.int64], target: float) -> int:
    """The setting whose false positive rate is closest to the target; fewest clusters among equals."""
    rate = pairs[:, 0] / (pairs[:, 0] + pairs[:, 1])
    return int(np.lexsort((clusters, np.round(np.abs(rate - target), 12)))[0])


def _pairs(labels: NDArray[np.int64], polyp: NDArray[np.int64]) -> NDArray[np.int64]:
    """FP, TN, TP, FN (settings, 4) over pairs of tracks whose polyps are known."""
    known = np.flatnonzero(polyp >= 0)
    codes = np.unique(polyp[known], return_inverse=True)[1].reshape(-1)
    same, every = _in_pairs(np.bincount(codes)), _in_pairs(np.array([len(known)]))
    counts = np.empty((len(labels), 4), dtype=np.int64)
    for number, own in enumerate(labels[:, known]):
        together = _in_pairs(np.bincount(own))
        both = _in_pairs(np.bincount(own * len(known) + codes))
        counts[number] = together - both, every - same - together + both, both, same - both
    return counts


def _in_pairs(members: NDArray[np.int64]) -> int:
    """Unordered pairs inside groups of so many members."""
    return int((members * (members - 1) // 2).sum())


def _number(polyp: NDArray[np.int64]) -> int:
    return -1 if (polyp < 0).any() else len(np.unique(polyp))


def _share(part: int, whole: int) -> float:
    return float(part / whole) if whole else float("nan")
