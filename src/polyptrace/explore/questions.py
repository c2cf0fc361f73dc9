"""What to ask an annotator: the next best question, and checks of answers that may be wrong.

Answers are closed transitively: n items of k lesions need n - k "same" answers and a "different" for each two lesions.
So the lesions that are shown name the answers that are missing:

- within a lesion, the links of the tree of strongest links between its components (items that answers have joined);
- between two lesions that no answer separates, their strongest link.

The most doubtful of these is asked first, so that wrong lesions are corrected early and no answer rests on them. The
log-odds of two components are their largest prior plus their mean log ratio, as in `polyptrace.lesions.clustering`.

Then come checks: what to ask about again, because no other answer confirms it. A "same" is unconfirmed if it alone
joins two parts of a component. With people who err in a share ε of answers, the probability that it is wrong, or that
all m "different" answers between two components are, is

    δ ε + (1 - δ) σ(logit ε - log-odds(same))        for a "same", between the two parts
    δ ε^m + (1 - δ) σ(m logit ε + log-odds(same))    for "different"

where δ is the share of pairs for which the odds are no guide. A question about the two ends of a chain of "same"
answers checks all of them: a wrong one becomes a contradiction. So the chain is chosen whose answers are most probably
wrong, or a "different", with another pair of tracks. Where there is only one pair, it is asked about once more.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from polyptrace.core.arrays import Bools, Floats, Ints
from polyptrace.explore.identities import Identities, Statement, reachable, same_links
from polyptrace.lesions import PairScores, group_scores, weakest_link

#: Log-odds of a link that is not asked about, in the tree of strongest links.
NOT_ASKED = -1e6
#: Assumed share of wrong answers (ε), and of pairs for which the odds are no guide (δ).
ERROR, MISLED = 0.05, 0.3
#: Answers that are wrong with a smaller probability are not asked about again.
MIN_WRONG = 0.0005


@dataclass(frozen=True)
class Question:
    """Two items, and what each answer implies."""

    first: int
    second: int
    same_decides: int  # pairs of items that a "same" decides, or a "different"
    different_decides: int


@dataclass(frozen=True)
class Components:
    """The components of some items: what their pairs look like and what is decided."""

    code: Ints  # (n,) component of each item
    log_odds: Floats  # (C, C) that two components show the same lesion
    apart: Bools  # (C, C); a component is apart from itself, as there is nothing to ask

    @classmethod
    def of(cls, state: Identities, items: Ints, scores: PairScores) -> "Components":
        """The components of some items, whose pairs have these scores."""
        names, code = np.unique(state.component[items], return_inverse=True)
        prior, ratio = group_scores(scores, code)
        return cls(code, prior + ratio, state.apart_components(names) | np.eye(len(names), dtype=bool))

    def best(self, lesion: Ints, skip: Bools) -> tuple[int, int] | None:
        """The most doubtful missing answer, given the lesion (C,) of each component; None if none is missing."""
        link = self._weakest_inside(lesion, np.where(skip, NOT_ASKED, self.log_odds))
        between = self._strongest_between(lesion, np.where(skip, -np.inf, self.log_odds))
        if link is None or (between is not None and self.log_odds[between] > -self.log_odds[link]):
            return between
        return link

    def _weakest_inside(self, lesion: Ints, log_odds: Floats) -> tuple[int, int] | None:
        weakest: tuple[float, int, int] | None = None
        for name in np.unique(lesion):
            link = weakest_link(log_odds, np.flatnonzero(lesion == name))
            if link is not None and link[2] > NOT_ASKED / 2 and (weakest is None or link[2] < weakest[0]):
                weakest = link[2], link[0], link[1]
        return None if weakest is None else weakest[1:]

    def _strongest_between(self, lesion: Ints, log_odds: Floats) -> tuple[int, int] | None:
        count = int(lesion.max()) + 1
        separate = np.eye(count, dtype=bool)
        first, second = np.nonzero(self.apart)
        separate[lesion[first], lesion[second]] = True
        value = np.where(separate[np.ix_(lesion, lesion)], -np.inf, log_odds)
        best = divmod(int(np.argmax(value)), len(value))
        return best if value[best] > -np.inf else None

    def implied(self, a: int, b: int) -> tuple[int, int]:
        """How many undecided pairs of items a "same" and a "different" of two components decide."""
        size = np.bincount(self.code)
        third = np.ones(len(size), bool)
        third[[a, b]] = False
        only = third & (self.apart[a] ^ self.apart[b])  # decided for one of the two
        gained = np.where(self.apart[a], size[b], size[a])
        between = int(size[a] * size[b])
        return between + int((gained * size)[only].sum()), between


def next_question(
    state: Identities, items: Ints, scores: PairScores, lesion: Ints, skip: set[tuple[int, int]]
) -> Question | None:
    """The next best question about some items, given their lesions (n,).

    Two components with a pair of items in `skip` are not asked about.
    """
    components = Components.of(state, items, scores)
    index = {int(item): int(code) for item, code in zip(items.tolist(), components.code.tolist(), strict=True)}
    skipped = np.zeros(components.apart.shape, bool)
    for a, b in ((index[a], index[b]) for a, b in skip if a in index and b in index):
        skipped[a, b] = skipped[b, a] = True
    lesion_of_component = np.empty(len(skipped), np.int64)
    lesion_of_component[components.code] = np.unique(lesion, return_inverse=True)[1]
    pair = components.best(lesion_of_component, skipped)
    if pair is None:
        return None
    inside, others = (np.flatnonzero(components.code == each) for each in pair)
    log_odds = scores.log_odds[np.ix_(inside, others)]
    i, j = np.unravel_index(int(np.argmax(log_odds)), log_odds.shape)
    a, b = sorted((int(items[inside[i]]), int(items[others[j]])))
    return Question(a, b, *components.implied(*pair))


@dataclass(frozen=True)
class Check:
    """The most doubtful answer that a check is about, the probability that one of them is wrong, and the question."""

    statement: Statement
    wrong: float
    first: int
    second: int


def next_check(state: Identities, items: Ints, scores: PairScores) -> Check | None:
    """The check of the answers that are most probably wrong; None if all are confirmed or probably right."""
    index = {int(item): number for number, item in enumerate(items.tolist())}
    doubts: dict[Statement, float] = {}  # of unconfirmed "same" answers
    checks: list[Check] = []
    for statement, side, other, asked in _unconfirmed(state):
        inside, outside = ([index[each] for each in part if each in index] for part in (side, other))
        if not inside or not outside:
            continue
        pairs = np.ix_(inside, outside)
        log_odds = float(scores.prior[pairs].max() + scores.ratio[pairs].mean())
        model = float(expit(len(asked) * logit(ERROR) + (-log_odds if statement.same else log_odds)))
        wrong = MISLED * ERROR ** len(asked) + (1 - MISLED) * model
        own = (statement.first, statement.second)
        alone = len(inside) * len(outside) <= len(asked)
        if alone and own in state.repeated:
            continue  # there is no other pair, and this one was asked about again already
        if statement.same and not alone:
            doubts[statement] = wrong
        first, second = own if alone else _other_pair(scores, items, inside, outside, asked)
        checks.append(Check(statement, wrong, first, second))
    same = [each for each in _effective(state) if each.same]
    checks += _chains(same, doubts)
    best = max(checks, key=lambda check: check.wrong, default=None)
    return best if best is not None and best.wrong >= MIN_WRONG else None


def _other_pair(
    scores: PairScores, items: Ints, inside: list[int], outside: list[int], asked: set[tuple[int, int]]
) -> tuple[int, int]:
    """The two items that look most like one lesion, other than those that were asked about."""
    log_odds = scores.log_odds[np.ix_(inside, outside)].astype(np.float64)
    numbers = items.tolist()
    for i, a in enumerate(inside):
        for j, b in enumerate(outside):
            if (min(numbers[a], numbers[b]), max(numbers[a], numbers[b])) in asked:
                log_odds[i, j] = -np.inf
    i, j = divmod(int(np.argmax(log_odds)), len(outside))
    first, second = sorted((int(items[inside[i]]), int(items[outside[j]])))
    return first, second


def _chains(same: list[Statement], doubts: dict[Statement, float]) -> Iterator[Check]:
    """Of each component the chain between two items whose answers are most probably wrong."""
    links = same_links(same)

    def chains(start: int) -> dict[int, tuple[float, int, Statement | None]]:
        """Of every item, the doubt along the way to it, its number of answers, and the most doubtful of them."""
        paths: dict[int, tuple[float, int, Statement | None]] = {}
        for item, step in reachable(links, start).items():
            paths[item] = (0.0, 0, None)
            if step is not None:
                doubt, length, worst = paths[step[0]]
                own = doubts.get(step[1], 0.0)
                worse = own > 0 and (worst is None or own > doubts[worst])
                paths[item] = (doubt + own, length + 1, step[1] if worse else worst)
        return paths

    seen: set[int] = set()
    for root in links:
        if root in seen:
            continue
        paths = chains(root)
        seen.update(paths)
        start = max(paths, key=lambda item: paths[item][:2])
        paths = chains(start)
        end = max(paths, key=lambda item: paths[item][:2])
        doubt, length, worst = paths[end]
        if worst is not None and length > 1:
            yield Check(worst, min(doubt, 1.0), min(start, end), max(start, end))


def _effective(state: Identities) -> list[Statement]:
    """The statements that have an effect."""
    excluded = {each.statement for each in state.contradictions}
    return [each for each in state.statements if each.same is not None and each not in excluded]


def _unconfirmed(state: Identities) -> Iterator[tuple[Statement, list[int], list[int], set[tuple[int, int]]]]:
    """Each answer that may be wrong, the items on its two sides, and the pairs of items that say the same."""
    disputed = {event for each in state.contradictions for event in each.because}
    effective = _effective(state)
    people = Counter((each.first, each.second) for each in effective)
    for statement, side in _bridges([each for each in effective if each.same]):
        if statement.event not in disputed and people[statement.first, statement.second] == 1:
            whole = state.members(statement.first).tolist()
            own = {(statement.first, statement.second)}
            yield statement, sorted(side), [item for item in whole if item not in side], own
    for name, others in state.different.items():
        for other, statements in others.items():
            if name < other and statements and disputed.isdisjoint(each.event for each in statements):
                pairs = {(each.first, each.second) for each in statements}
                yield statements[0], state.members(name).tolist(), state.members(other).tolist(), pairs


def _bridges(statements: list[Statement]) -> Iterator[tuple[Statement, set[int]]]:
    """The statements without which their component falls apart, and the items on one side."""
    links = same_links(statements)
    for statement in statements:
        side = set(reachable(links, statement.first, without=statement))
        if statement.second not in side:
            yield statement, side
