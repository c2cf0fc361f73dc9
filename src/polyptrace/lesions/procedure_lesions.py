"""The lesions of procedures: tracks per lesion, confidence, weakest links and the distribution of the count.

for procedure in lesions(Embeddings.load("vectors/mine")):
    print(procedure.video, procedure.count_text)  # 4 lesions (3–5)
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from polyptrace.core.arrays import Floats, Ints
from polyptrace.core.console import counted
from polyptrace.embed import Embeddings
from polyptrace.lesions.clustering import Partition, pair_scores, partition, weakest_link
from polyptrace.lesions.fitting import fit_same
from polyptrace.lesions.same import SAME_FILE, ProcedureTracks, SameModel, procedures

#: Tracks of a lesion that are further apart belong to two sightings.
SIGHTING_GAP_S = 30.0

#: Two groups of tracks whose probability of being one lesion lies between these are reported as uncertain.
UNCERTAIN = (0.1, 0.9)


@dataclass(frozen=True)
class Link:
    """Two tracks, as rows of the table, and a probability that they show the same lesion."""

    first: int
    second: int
    probability: float


@dataclass(frozen=True)
class ProcedureLesions:
    """The lesions of one procedure. Rows are those of the table of whole tracks, in temporal order."""

    dataset: str
    video: str
    rows: Ints
    lesion: Ints  # (n,) 0, 1, ... by first appearance
    confidence: Floats  # (lesions,) probability that a lesion consists of exactly these tracks
    weakest: tuple[Link | None, ...]  # of each lesion: the weakest link of its tree; None for one track
    distribution: Floats  # (n + 1,) probability of each count
    interval: tuple[int, int]  # central 90 % of the count
    uncertain: tuple[Link, ...]  # undecided groups, by their most similar tracks; most uncertain first

    @property
    def count(self) -> int:
        """Number of lesions."""
        return len(self.confidence)

    @property
    def count_text(self) -> str:
        """The count and its interval, such as "4 lesions (3–5)"."""
        low, high = self.interval
        return counted(self.count, "lesion") + ("" if low == high else f" ({low}–{high})")

    def tracks_of(self, lesion: int) -> Ints:
        """Rows of a lesion's tracks."""
        return np.asarray(self.rows[self.lesion == lesion])


def lesions(embeddings: Embeddings, *, same: SameModel | None = None) -> list[ProcedureLesions]:
    """The lesions of each procedure, procedures in sorted order; without a model it is fitted without labels."""
    tracks = embeddings.whole_tracks("lesions")
    model = same or fit_same(tracks)
    model.check(tracks, "same")
    return [_procedure_lesions(tracks, procedure, model) for procedure in procedures(tracks, model.centre)]


def same_model(
    vectors: Path, tracks: Embeddings, *, path: Path | None = None, labels: bool = False, refit: bool = False
) -> tuple[SameModel, Path | None]:
    """The model of some vectors: of the given file, of `same.json` beside them, or a new fit; and the file it is from.

    The file is None for a new fit. With `labels`, the file beside the vectors is used only if it was fitted so.
    """
    stored = vectors / SAME_FILE
    used = stored if path is None and not refit and stored.is_file() else path
    if used is not None:
        model = SameModel.load(used)
        if path is not None or not labels or model.labelled_pairs:
            model.check(tracks, str(used))
            return model, used
    return fit_same(tracks, labels=labels), None


def _procedure_lesions(tracks: Embeddings, procedure: ProcedureTracks, model: SameModel) -> ProcedureLesions:
    rows, scores = procedure.rows, pair_scores(procedure, model)
    solved = partition(scores)
    log_odds = np.where(scores.simultaneous, -np.inf, scores.log_odds)
    weakest = []
    for lesion in range(solved.count):
        link = weakest_link(log_odds, np.flatnonzero(solved.lesion == lesion))
        weakest.append(link and Link(int(rows[link[0]]), int(rows[link[1]]), _probability(solved, *link)))
    return ProcedureLesions(
        str(tracks.dataset[rows[0]]),
        str(tracks.video[rows[0]]),
        rows,
        solved.lesion,
        solved.confidence,
        tuple(weakest),
        solved.distribution,
        solved.interval,
        tuple(_uncertain(solved, log_odds, rows)),
    )


def _probability(solved: Partition, first: int, second: int, log_odds: float) -> float:
    """Of two groups the probability of the posterior, as in `uncertain`; within a group that of the pair alone."""
    a, b = int(solved.group[first]), int(solved.group[second])
    return float(1 / (1 + np.exp(-log_odds)) if a == b else solved.together[a, b])


def _uncertain(solved: Partition, log_odds: Floats, rows: Ints) -> list[Link]:
    """For each two undecided groups the two tracks that look most like one lesion."""
    links = []
    low, high = UNCERTAIN
    first, second = np.nonzero(np.triu((solved.together > low) & (solved.together < high), 1))
    for a, b in zip(first.tolist(), second.tolist(), strict=True):
        inside, others = np.flatnonzero(solved.group == a), np.flatnonzero(solved.group == b)
        best = np.divmod(np.argmax(log_odds[np.ix_(inside, others)]), len(others))
        i, j = sorted((inside[best[0]], others[best[1]]))
        links.append(Link(int(rows[i]), int(rows[j]), float(solved.together[a, b])))
    return sorted(links, key=lambda link: (abs(link.probability - 0.5), link.first, link.second))
