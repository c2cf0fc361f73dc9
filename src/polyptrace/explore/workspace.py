"""What `explore` works on: vectors, the probability of the same lesion, and the journal, one procedure at a time."""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryFile
from threading import RLock
from typing import Literal, NamedTuple

import numpy as np

from polyptrace.core.arrays import Bools, Floats, Ints
from polyptrace.data.identity import group_rows, video_keys
from polyptrace.embed import Embeddings
from polyptrace.explore.identities import Identities, agreement, identities
from polyptrace.explore.journal import Event, Item, Journal, active_events, undoable
from polyptrace.explore.questions import Check, Question, next_check, next_question
from polyptrace.lesions import (
    SAME_FILE,
    PairScores,
    ProcedureTracks,
    SameModel,
    check_frames,
    count_interval,
    pair_scores,
    partition,
    procedures,
    same_model,
)

#: Tracks that are grouped together. Longer procedures are grouped in windows of this many tracks in temporal order.
WINDOW = 1000
#: Groups of tracks whose partitions are enumerated: fewer than in `lesions`, because every answer waits for it.
MAX_GROUPS = 9
#: Log ratio of two items that are known to show the same lesion; it dominates every mean over pairs.
KNOWN_SAME = 1e9
#: States and groupings of a procedure that are kept in memory: of all annotators, and of some of them.
KEPT = 8


@dataclass(frozen=True)
class Grouping:
    """The lesions of a procedure: what the answers leave open is decided by the probability."""

    lesion: Ints  # of each item: 0, 1, ... by first appearance; -1 for items that show no lesion
    confidence: Floats  # of each lesion
    interval: tuple[int, int]  # central 90 % of the count


class Candidate(NamedTuple):
    """A track that may show the same lesion as another one."""

    item: int
    cosine: float
    gap_s: float
    probability: float
    known: str  # "same", "different", "simultaneous", or "" if nothing is known


@dataclass
class ExploredProcedure:
    """One procedure: its tracks, their scores and what the answers say."""

    key: str
    rows: Ints  # of the table of tracks, in temporal order
    tracks: ProcedureTracks
    items: list[Item]
    model: SameModel
    journal: Journal

    def __post_init__(self) -> None:
        self._scores = cache(self._window_scores)
        self._state = lru_cache(KEPT)(self._replay)  # by annotator and number of events
        self._grouping = lru_cache(KEPT)(self._group)

    def state(self, who: str | None = None) -> Identities:
        """Who is who according to the answers of all annotators, or of one."""
        return self._state(who, len(self.journal.events))

    def grouping(self, who: str | None = None) -> Grouping:
        """The lesions, given the answers."""
        return self._grouping(who, len(self.journal.events))

    def question(self, who: str | None = None) -> Question | None:
        """The next best question; "unsure" pairs are not asked again."""
        state, lesion = self.state(who), self.grouping(who).lesion
        unsure = {(each.first, each.second) for each in state.statements if each.same is None}
        for items, scores in self._windows(state):
            question = next_question(state, items, scores, lesion[items], unsure)
            if question is not None:
                return question
        return None

    def left(self, who: str | None = None) -> int:
        """How many more answers settle everything, if the lesions that are shown are the true ones."""
        state, lesion = self.state(who), self.grouping(who).lesion
        components = {int(state.component[item]): int(lesion[item]) for item in np.flatnonzero(lesion >= 0).tolist()}
        lesions = set(components.values())
        apart = {
            (min(a, b), max(a, b))
            for component, a in components.items()
            for other in state.different.get(component, ())
            if (b := components.get(other, a)) != a
        }
        return len(components) - len(lesions) + len(lesions) * (len(lesions) - 1) // 2 - len(apart)

    def check(self, who: str | None = None) -> Check | None:
        """The next check of an answer that is probably wrong."""
        state = self.state(who)
        checks = (next_check(state, items, scores) for items, scores in self._windows(state))
        return max((each for each in checks if each is not None), key=lambda each: each.wrong, default=None)

    def forget(self) -> None:
        """Forgets what was derived from the journal, after its events were changed."""
        self._state.cache_clear()
        self._grouping.cache_clear()

    def pairs(self, item: int, others: Ints, who: str | None = None) -> tuple[Floats, Floats, Floats]:
        """Cosine, gap (s) and P(same lesion) of an item and others; the two halves of a split track are different."""
        track = self.state(who).track
        mine, theirs = np.full(len(others), track[item]), track[others]
        first, second = np.minimum(mine, theirs), np.maximum(mine, theirs)
        apart = first != second
        cosine, gap, probability = np.ones(len(others)), np.zeros(len(others)), np.zeros(len(others))
        cosine[apart], gap[apart], pause, simultaneous = self.tracks.pairs(first[apart], second[apart])
        probability[apart] = self.model.probability(cosine[apart], gap[apart], pause, simultaneous)
        return cosine, gap, probability

    def candidates(self, item: int, top: int, who: str | None = None) -> list[Candidate]:
        """The other items, most probably the same lesion first."""
        state = self.state(who)
        others = np.flatnonzero((np.arange(len(state.items)) != item) & ~state.rejected)
        cosine, gap, probability = self.pairs(item, others, who)
        order = np.lexsort((-cosine, -probability))[:top]
        candidates = []
        for number in order.tolist():
            other = int(others[number])
            known = "same" if state.component[other] == state.component[item] else ""
            if state.apart(item, other):
                statements = state.different[int(state.component[item])][int(state.component[other])]
                known = "different" if statements else "simultaneous"
            pair = float(cosine[number]), float(gap[number]), float(probability[number])
            candidates.append(Candidate(other, *pair, known))
        return candidates

    def conflict(self, event: Event, who: str | None = None) -> str:
        """Why an edit is refused: a track was changed, or tracks of one lesion would be visible at the same time."""
        state = self.state(who)
        index = {item: number for number, item in enumerate(state.items)}
        target = [event.to] if event.to else []
        for item in (*event.items, *event.others, *target):
            if item not in index:
                return f"track {item[0]} was changed in the meantime -> reload the page"
        joins = event.kind in ("merge", "move") or event.answer == "same"
        joined = {index[item] for item in (*event.items, *target)} if joins else set()
        if event.kind == "merge":
            joined = {int(member) for number in joined for member in state.members(number)}
        latest = -1
        for number in sorted(joined):  # items are in temporal order
            if latest >= 0 and state.items[number][1] <= state.items[latest][2]:
                first, second = state.names[latest], state.names[number]
                return f"tracks {first} and {second} are visible at the same time, so they show two lesions"
            if latest < 0 or state.items[number][2] > state.items[latest][2]:
                latest = number
        return ""

    def _replay(self, who: str | None, _revision: int) -> Identities:
        return identities(self.items, self.journal.events, self.key, who)

    def _group(self, who: str | None, _revision: int) -> Grouping:
        state = self.state(who)
        lesion = np.full(len(state.items), -1)
        confidence: list[float] = []
        distribution = np.ones(1)
        for items, scores in self._windows(state):
            known = _constrained(scores, state.component[items], state.apart_matrix(items))
            solved = partition(known, MAX_GROUPS)
            lesion[items] = solved.lesion + len(confidence)
            confidence += solved.confidence.tolist()
            distribution = np.convolve(distribution, np.trim_zeros(solved.distribution, "b"))
        return Grouping(lesion, np.array(confidence), count_interval(distribution, len(confidence)))

    def _windows(self, state: Identities) -> list[tuple[Ints, PairScores]]:
        """The items of each window that show a lesion, and the scores of their pairs."""
        windows = []
        for start in range(0, len(self.rows), WINDOW):
            inside = (state.track >= start) & (state.track < start + WINDOW) & ~state.rejected
            items = np.flatnonzero(inside)
            if not len(items):
                continue
            scores, index = self._scores(start), state.track[items] - start
            if len(index) != len(scores.prior) or (np.diff(index) != 1).any():
                scores = scores.select(index)
            windows.append((items, scores))
        return windows

    def _window_scores(self, start: int) -> PairScores:
        some, tracks = slice(start, start + WINDOW), self.tracks
        part = ProcedureTracks(tracks.rows[some], tracks.unit[some], tracks.start_s[some], tracks.end_s[some])
        return pair_scores(part, self.model)


def _constrained(scores: PairScores, component: Ints, apart: Bools) -> PairScores:
    """Scores that leave a partition no choice about what is known."""
    same = component[:, None] == component
    return replace(scores, ratio=np.where(same, np.float32(KNOWN_SAME), scores.ratio), simultaneous=apart & ~same)


def on_disk(tracks: Embeddings) -> Embeddings:
    """The same table with its vectors in a temporary file, of which only the procedures in use are in memory."""
    with TemporaryFile() as file:
        tracks.vectors.tofile(file)
        vectors = np.memmap(file, np.float32, "r", shape=tracks.vectors.shape)  # outlives the name of the file
    return replace(tracks, vectors=vectors)


class Workspace:
    """The vectors and the journal of a session; safe to use from several threads."""

    def __init__(self, vectors: Path, tracks: Embeddings, journal: Journal) -> None:
        self.vectors, self.tracks, self.journal = vectors, tracks, journal
        self.lock = RLock()
        check_frames(tracks, str(vectors))
        names, code = np.unique(video_keys(tracks).astype(str), return_inverse=True)
        self.keys: list[str] = names.tolist()
        self.rows = group_rows(code)
        self._procedure = lru_cache(2)(self._load)

    @cached_property
    def model(self) -> SameModel:
        """The probability of the same lesion: `same.json` beside the vectors, or fitted now and written there."""
        with self.lock:
            model, source = same_model(self.vectors, self.tracks)
            if source is None and self.vectors.is_dir():
                with suppress(OSError):  # a read-only folder: it is fitted again next time
                    model.save(self.vectors / SAME_FILE)
            return model

    def procedure(self, number: int) -> ExploredProcedure:
        """A procedure by its index among the sorted keys. The last two stay in memory."""
        with self.lock:
            return self._procedure(number)

    def withdraw(self, kind: Literal["undo", "redo"], who: str, video: str, event: int = 0) -> Event | None:
        """Undoes or redoes an edit by its number, or for 0 an annotator's last one in a procedure; None without one."""
        with self.lock:
            events = self.journal.events
            if not event:
                event = undoable(events, who, video)[kind == "redo"]
                return self.journal.append(kind, who, event=event) if event else None
            active = {each.id for each in active_events(events)}
            known = {each.id for each in events if each.kind not in ("undo", "redo")}
            possible = event in active if kind == "undo" else event in known - active
            return self.journal.append(kind, who, event=event) if possible else None

    def kappas(self, number: int) -> list[tuple[str, str, float, int]]:
        """Cohen's kappa of each two annotators of a procedure, and the pairs that both have decided."""
        procedure = self.procedure(number)
        people = sorted({event.who for event in self.journal.events if event.video == procedure.key})
        return [
            (first, second, *agreement(procedure.state(first), procedure.state(second)))
            for first, second in combinations(people, 2)
        ]

    def _load(self, number: int) -> ExploredProcedure:
        rows = self.rows[number]
        (tracks,) = procedures(self.tracks.rows(rows), self.model.centre)
        rows = rows[tracks.rows]
        columns = (getattr(self.tracks, name)[rows].tolist() for name in ("track", "position", "last"))
        return ExploredProcedure(
            self.keys[number], rows, tracks, list(zip(*columns, strict=True)), self.model, self.journal
        )
