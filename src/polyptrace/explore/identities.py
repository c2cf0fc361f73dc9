"""Identities that follow from the answers: their transitive closure, and where they contradict each other.

The items of a procedure are its tracks; a track that was split is two items. Each event says of pairs of items that
they show the same lesion or different ones. Later answers of an annotator on a pair replace earlier ones. In the
order of events,

- "same" joins the components of the two items, and "different" keeps two components apart;
- tracks that are visible at the same time are apart;
- a statement that the earlier ones exclude is a contradiction: it is shown with the events that exclude it, and has no
  effect until one of them is withdrawn.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from polyptrace.core.arrays import Bools, Ints
from polyptrace.explore.journal import Event, Item, active_events

#: An item of an older linking is the present item that shares more than this share of their frames.
MIN_OVERLAP = 0.5


@dataclass(frozen=True)
class Statement:
    """One pair of items, by number, and what an event says about it; `same` is None if the annotator is unsure."""

    event: int
    who: str
    first: int
    second: int
    same: bool | None


#: Of each item, the other items that statements link it with, and these statements.
Links = dict[int, list[tuple[int, Statement]]]


@dataclass(frozen=True)
class Contradiction:
    """A statement without effect, and the events that exclude it; none if time alone does."""

    statement: Statement
    because: tuple[int, ...]
    people: tuple[str, ...]  # whose statements these are; more than one: a disagreement


@dataclass
class Identities:
    """The items of one procedure in temporal order, and what the answers say about them."""

    items: list[Item]
    track: Ints  # index of each item's track in the procedure
    rejected: Bools
    notes: dict[int, str]
    statements: list[Statement]
    component: Ints  # smallest item that is known to show the same lesion
    different: dict[int, dict[int, list[Statement]]]  # components that are apart, both ways; by time: no statement
    contradictions: list[Contradiction] = field(default_factory=list)
    unmapped: list[Event] = field(default_factory=list)  # events on tracks that do not exist any more
    mapped: int = 0  # items of events that were found by overlap
    set_aside: list[int] = field(default_factory=list)  # events on tracks that were split later
    repeated: set[tuple[int, int]] = field(default_factory=set)  # pairs that one annotator answered more than once

    @property
    def names(self) -> list[str]:
        """The name of each item: its track, such as 8; for parts of a split track also the part, such as 8.1."""
        parts = Counter(self.track.tolist())
        number: Counter[int] = Counter()
        names = []
        for item, track in zip(self.items, self.track.tolist(), strict=True):
            number[track] += 1
            names.append(f"{item[0]}.{number[track]}" if parts[track] > 1 else str(item[0]))
        return names

    def members(self, item: int) -> Ints:
        """The items that are known to show the lesion of an item."""
        return np.flatnonzero(self.component == self.component[item])

    def apart(self, first: int, second: int) -> bool:
        """Whether two items are known to show different lesions."""
        return int(self.component[second]) in self.different.get(int(self.component[first]), ())

    def apart_components(self, names: Ints) -> Bools:
        """The pairs (C, C) of some components that are known to show different lesions."""
        index = {int(name): number for number, name in enumerate(names)}
        known = np.zeros((len(names), len(names)), bool)
        for name, number in index.items():
            known[number, [index[other] for other in self.different.get(name, ()) if other in index]] = True
        return known

    def apart_matrix(self, items: Ints) -> Bools:
        """The pairs (n, n) of some items that are known to show different lesions."""
        names, code = np.unique(self.component[items], return_inverse=True)
        return np.asarray(self.apart_components(names)[np.ix_(code, code)])

    def undecided(self, items: Bools) -> int:
        """Pairs of components of some items that no answer joins or keeps apart; these items are settled at 0."""
        names = np.unique(self.component[items])
        return len(names) * (len(names) - 1) // 2 - int(np.triu(self.apart_components(names), 1).sum())

    def answered(self) -> Bools:
        """The items that some statement decides about."""
        mentioned = np.zeros(len(self.items), bool)
        for each in self.statements:
            if each.same is not None:
                mentioned[[each.first, each.second]] = True
        return mentioned

    def decided(self) -> Bools:
        """The items that show no lesion, and the answered ones whose pairs with all other answered ones are decided."""
        chosen = self.answered() & ~self.rejected
        names, code = np.unique(self.component[chosen], return_inverse=True)
        decided = self.rejected.copy()
        decided[chosen] = (self.apart_components(names).sum(axis=1) == len(names) - 1)[code]
        return decided


def identities(tracks: Sequence[Item], events: Sequence[Event], video: str, who: str | None = None) -> Identities:
    """Replays the events of a procedure; with `who`, only the statements of one annotator. Splits are everybody's."""
    active = [event for event in active_events(events) if event.video == video]
    known = _Items(tracks)
    for event in active:
        if event.kind == "split":
            known.split(event)
    state = known.freeze()
    pairs: dict[tuple[str, int, int], Statement] = {}
    for event in active:
        if who is not None and event.who != who and event.kind != "split":
            continue
        for statement in _statements(event, known, state, pairs.values()):
            if pairs.pop((statement.who, statement.first, statement.second), None):  # the latest is the last
                state.repeated.add((statement.first, statement.second))
            pairs[statement.who, statement.first, statement.second] = statement
    state.unmapped = list({event.id: event for event in known.unmapped}.values())
    state.mapped, state.set_aside = known.mapped, sorted(known.set_aside)
    state.statements = list(pairs.values())
    _close(state)
    return state


class _Items:
    """The present items, each with the index of its track in the procedure, and those that events are about."""

    def __init__(self, tracks: Sequence[Item]) -> None:
        self.track = {item: number for number, item in enumerate(tracks)}
        self.number: dict[Item, int] = {}  # of each present item, by temporal order; known after `freeze`
        self.halves: dict[Item, tuple[Item, Item, int]] = {}  # of split items, with the event
        self.unmapped: list[Event] = []
        self.set_aside: set[int] = set()
        self.mapped = 0

    def split(self, event: Event) -> None:
        item = self.find(event.items[0], event)
        if item is None:
            return
        number, first, last = item
        if not first < event.frame <= last:
            self.unmapped.append(event)
            return
        before, after = (number, first, event.frame - 1), (number, event.frame, last)
        self.halves[item] = (before, after, event.id)
        self.track |= dict.fromkeys((before, after), self.track.pop(item))

    def find(self, item: Item, event: Event) -> Item | None:
        """The present item of an item of an event; None, and the event is listed, if there is none."""
        if item in self.track:
            return item
        if item in self.halves:
            self.set_aside.add(event.id)
            return None
        candidates = [other for other in self.track if _overlap(item, other) > MIN_OVERLAP]
        named = [other for other in candidates if other[0] == item[0]]
        if len(candidates) > 1 and len(named) == 1:
            candidates = named
        if len(candidates) != 1:
            self.unmapped.append(event)
            return None
        self.mapped += 1
        return candidates[0]

    def numbers(self, items: Iterable[Item], event: Event) -> list[int]:
        """The numbers of the items of an event, as far as they are present."""
        present = [self.find(item, event) for item in items]
        return [self.number[item] for item in present if item is not None]

    def freeze(self) -> Identities:
        """Numbers the items in temporal order, when all are split; those that share a frame are apart."""
        items = sorted(self.track, key=lambda item: (item[1:], item[0]))
        self.number = {item: number for number, item in enumerate(items)}
        first, last = (np.array([item[side] for item in items], np.int64) for side in (1, 2))
        different: dict[int, dict[int, list[Statement]]] = {}
        until = np.searchsorted(first, last, "right")  # items that start before this one ends
        for early, end in enumerate(until.tolist()):
            for late in range(early + 1, end):
                different.setdefault(early, {})[late] = []
                different.setdefault(late, {})[early] = []
        track = np.array([self.track[item] for item in items], np.int64)
        return Identities(items, track, np.zeros(len(items), bool), {}, [], np.arange(len(items)), different)


def _overlap(first: Item, second: Item) -> float:
    shared = min(first[2], second[2]) - max(first[1], second[1]) + 1
    return shared / (max(first[2], second[2]) - min(first[1], second[1]) + 1) if shared > 0 else 0.0


def _statements(event: Event, known: _Items, state: Identities, earlier: Iterable[Statement]) -> Iterator[Statement]:
    """What an event says about pairs of items; its other effects are applied to the state."""
    if event.kind == "split":
        halves = [half for half in known.halves.values() if half[2] == event.id]
        for before, after, _ in halves:
            if before in known.number and after in known.number:
                yield _statement(event, known.number[before], known.number[after], same=False)
        return
    items = known.numbers(event.items, event)
    match event.kind:
        case "answer" if len(items) == 2:
            same = {"same": True, "different": False}.get(str(event.answer))
            yield _statement(event, items[0], items[1], same=same)
        case "merge":
            for first, second in pairwise(items if len(items) > 1 else items * 2):  # one item: a lesion of its own
                yield _statement(event, first, second, same=True)
        case "move":
            others = known.numbers(event.others, event)
            for parts in _parts(others, items, earlier):  # what was linked through the moved items stays linked
                yield from (_statement(event, first, second, same=True) for first, second in pairwise(parts))
            for first in items:
                for second in others:
                    yield _statement(event, first, second, same=False)
            target = known.numbers([event.to], event) if event.to else []
            for first, second in pairwise([*target, *items]):
                yield _statement(event, first, second, same=True)
        case "reject" | "restore":
            state.rejected[items] = event.kind == "reject"
        case "note":
            for item in items:
                state.notes[item] = event.text
                if not event.text:
                    del state.notes[item]
        case _:
            pass


def _parts(items: Sequence[int], moved: Sequence[int], statements: Iterable[Statement]) -> list[list[int]]:
    """For each component of the items, one item of each part into which it falls without the moved ones."""
    same = [each for each in statements if each.same]
    links = same_links(same)
    remaining = same_links(each for each in same if each.first not in moved and each.second not in moved)
    groups: dict[int, dict[int, int]] = {}
    for item in items:
        groups.setdefault(min(reachable(links, item)), {}).setdefault(min(reachable(remaining, item)), item)
    return [list(parts.values()) for parts in groups.values()]


def _statement(event: Event, first: int, second: int, *, same: bool | None) -> Statement:
    return Statement(event.id, event.who, min(first, second), max(first, second), same)


def _close(state: Identities) -> None:
    """Applies the statements in the order of their events, and collects those that are excluded."""
    accepted: list[Statement] = []  # that say "same"
    for statement in sorted(state.statements, key=lambda each: each.event):
        if statement.same is None:
            continue
        a, b = (int(state.component[each]) for each in (statement.first, statement.second))
        if state.apart(a, b) if statement.same else a == b:
            path = _excluding(state, accepted, statement)
            people = sorted({statement.who, *(each.who for each in path)})
            events = dict.fromkeys(each.event for each in path)
            state.contradictions.append(Contradiction(statement, tuple(events), tuple(people)))
        elif statement.same:
            if a != b:
                _join(state, min(a, b), max(a, b))
            accepted.append(statement)
        else:
            statements = state.different.setdefault(a, {}).setdefault(b, [])
            statements.append(statement)
            state.different.setdefault(b, {})[a] = statements


def _join(state: Identities, into: int, other: int) -> None:
    """Joins two components; what is apart from one of them is apart from both."""
    state.component[state.component == other] = into
    for third, statements in state.different.pop(other, {}).items():
        del state.different[third][other]
        joined = state.different.setdefault(into, {}).setdefault(third, [])
        joined += statements
        state.different[third][into] = joined


def _excluding(state: Identities, accepted: Sequence[Statement], statement: Statement) -> list[Statement]:
    """The accepted statements that exclude one; none where tracks are visible at the same time."""
    links = same_links(accepted)
    if not statement.same:
        return _path(links, statement.first, statement.second)
    a, b = (int(state.component[each]) for each in (statement.first, statement.second))
    different = state.different[a][b]  # each of these excludes it; the chains lead to the first one
    if not different:
        return []
    ends = (different[0].first, different[0].second)
    ends = ends if state.component[ends[0]] == a else ends[::-1]
    chains = (_path(links, statement.first, ends[0]), _path(links, statement.second, ends[1]))
    return [*chains[0], *different, *chains[1]]


def same_links(statements: Iterable[Statement]) -> Links:
    """The links between items that "same" statements make."""
    links: Links = {}
    for each in statements:
        links.setdefault(each.first, []).append((each.second, each))
        links.setdefault(each.second, []).append((each.first, each))
    return links


def reachable(links: Links, start: int, without: Statement | None = None) -> dict[int, tuple[int, Statement] | None]:
    """The items that links lead to, nearest first, each with the item and the statement before it; None for `start`.

    The statement `without` is not followed.
    """
    came_from: dict[int, tuple[int, Statement] | None] = {start: None}
    queue = [start]
    for item in queue:
        for other, statement in links.get(item, ()):
            if other not in came_from and statement is not without:
                came_from[other] = (item, statement)
                queue.append(other)
    return came_from


def _path(links: Links, start: int, end: int) -> list[Statement]:
    """The shortest chain of "same" statements between two items."""
    came_from = reachable(links, start)
    path: list[Statement] = []
    step = came_from[end]
    while step is not None:
        path.append(step[1])
        step = came_from[step[0]]
    return path


def agreement(first: Identities, second: Identities) -> tuple[float, int]:
    """Cohen's kappa of two annotators, and the pairs of items that both have decided, directly or by closure.

    NaN if there is no such pair, or if both gave one and the same answer to all.
    """
    both = np.flatnonzero(first.answered() & second.answered())
    i, j = np.triu_indices(len(both), 1)
    begin, end = (np.array([item[side] for item in first.items])[both] for side in (1, 2))
    same, decided = np.empty((2, len(i)), bool), (begin[j] > end[i])  # time decides about the others
    for number, state in enumerate((first, second)):
        component = state.component[both]
        same[number] = component[i] == component[j]
        decided &= same[number] | state.apart_matrix(both)[i, j]
    if not decided.any():
        return float("nan"), 0
    a, b = same[:, decided]
    observed, expected = float((a == b).mean()), float(a.mean() * b.mean() + (1 - a.mean()) * (1 - b.mean()))
    return ((observed - expected) / (1 - expected) if expected < 1 else float("nan")), int(decided.sum())
