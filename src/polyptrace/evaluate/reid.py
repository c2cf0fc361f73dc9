"""Re-identification: do two tracklets show the same polyp? AUROC and AUPR over every unordered pair (Section 3).

AUROC counts a tie as half. AUPR is the average precision Σ_k (R_k - R_{k-1}) P_k over the thresholds, where pairs of
equal score are accepted together, since that is what a threshold does (scikit-learn defines both in the same way).

Outcomes that need a decision: tracklets without a polyp are left out and counted; a zero vector has cosine 0 with
all; without a same-polyp pair both are NaN; without a different-polyp pair AUROC is NaN and AUPR 1.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from polyptrace.evaluate.pair_draws import pair_draws
from polyptrace.evaluate.pairs import PairCounts, areas, count_pairs
from polyptrace.evaluate.similarity import Labels, Vectors, label_codes, unit_vectors

#: Bins of the similarity histograms, from -1 to 1.
EDGES = np.linspace(-1.0, 1.0, 101)


@dataclass(frozen=True)
class ReID:
    """The two areas, and the counts by score from which curves and histograms come."""

    auroc: float
    aupr: float
    counts: PairCounts
    unlabelled: int
    zero_vectors: int

    @property
    def same_pairs(self) -> int:
        """Pairs that show the same polyp."""
        return int(self.counts.same.sum())

    @property
    def different_pairs(self) -> int:
        """Pairs that show two polyps."""
        return int(self.counts.different.sum())

    def roc(self, points: int = 1000) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(false positive rate, true positive rate) from (0, 0) to (1, 1), at most so many points."""
        false, true = self._shares()
        kept = _thinned(false, true, points)
        return np.concatenate([[0.0], false[kept]]), np.concatenate([[0.0], true[kept]])

    def precision_recall(self, points: int = 1000) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(recall, precision) with rising recall, at most so many points."""
        true, false = self.counts.same.cumsum(), self.counts.different.cumsum()
        kept = _thinned(*self._shares(), points)
        return true[kept] / max(true[-1], 1), true[kept] / (true[kept] + false[kept])

    def histograms(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(same, different): pairs in each bin of `EDGES`."""
        same = np.histogram(self.counts.score, EDGES, weights=self.counts.same)[0]
        different = np.histogram(self.counts.score, EDGES, weights=self.counts.different)[0]
        return same.astype(np.int64), different.astype(np.int64)

    def _shares(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        true, false = self.counts.same.cumsum(), self.counts.different.cumsum()
        return false / max(self.different_pairs, 1), true / max(self.same_pairs, 1)


def reid(vectors: Vectors, polyp: Labels, *, device: str | torch.device = "cpu") -> ReID:
    """AUROC and AUPR, fractions in [0, 1], of (N, D) vectors and their polyps (N,)."""
    unit, zero_vectors = unit_vectors(vectors, device)
    codes = label_codes(polyp, len(unit))
    known = _by_polyp(codes)
    counts = count_pairs(unit[torch.as_tensor(known, device=unit.device)], codes[known])
    auroc, aupr = areas(counts.same, counts.different)
    return ReID(
        auroc=float(auroc),
        aupr=float(aupr),
        counts=counts,
        unlabelled=len(codes) - len(known),
        zero_vectors=zero_vectors,
    )


def reid_draws(
    vectors: Vectors,
    polyp: Labels,
    cluster: NDArray[np.int64],
    counts: NDArray[np.int64],
    result: ReID,
    *,
    device: str | torch.device = "cpu",
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(AUROC, AUPR) on each bootstrap draw (R,): clusters 0..C-1 (N,), how often each was taken (R, C)."""
    unit, _ = unit_vectors(vectors, device)
    codes = label_codes(polyp, len(unit))
    known = _by_polyp(codes)
    chosen = unit[torch.as_tensor(known, device=unit.device)]
    return pair_draws(chosen, codes[known], cluster[known], counts, result.counts)


def _by_polyp(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows that have a polyp, a polyp's rows next to each other."""
    known = np.flatnonzero(codes >= 0)
    return known[np.argsort(codes[known], kind="stable")]


def _thinned(false: NDArray[np.float64], true: NDArray[np.float64], points: int) -> NDArray[np.int64]:
    """Thresholds spread evenly along both axes, the first and last among them."""
    if len(false) < points:
        return np.arange(len(false))
    steps = np.linspace(0.0, 1.0, points // 2)
    last = len(false) - 1
    along = [np.minimum(np.searchsorted(axis, steps), last) for axis in (false, true)]
    return np.unique(np.concatenate([[0], *along, [last]]))[-points + 1 :]
