"""Checks: what to ask about again, because an answer may be wrong and no other answer confirms it.

A "same" is unconfirmed if it alone joins two parts of a component. With people who err in a share ε of answers, the
probability that it is wrong, or that all m "different" answers between two components are, is

    δ ε + (1 - δ) σ(logit ε - odds(same))        for a "same", with the odds between the two parts
    δ ε^m + (1 - δ) σ(m logit ε + odds(same))    for "different"

where δ is the share of pairs for which the odds are no guide. A question about the two ends of a chain of "same"
answers checks all of them: a wrong one becomes a contradiction. So the chain is chosen whose answers are most probably
wrong, or a "different", with another pair of tracks. Where there is only one pair, it is asked about once more.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from polyptrace.core.arrays import Ints
from polyptrace.explore.identities import Identities, Statement
from polyptrace.lesions import PairScores

#: Assumed share of wrong answers (ε), and of pairs for which the odds are no guide (δ).
ERROR, MISLED = 0.05, 0.3
#: Answers that are wrong with a smaller probability are not asked about again.
MIN_WRONG = 0.0005


@dataclass(frozen=True)
class Check:
    """The most doubtful answer that a check is about, the probability that one of them is wrong, and the question."""

    statement: Statement
    wrong: float
    first: int
    second: int


def next_check(state: Identities, items: Ints, scores: PairScores) -> Check | None:
    """The check of the answers that are most probably wrong; None if all are confirmed or probably right."""
    place = {int(item): number for number, item in enumerate(items.tolist())}
    doubts: dict[Statement, float] = {}  # of unconfirmed "same" answers
    checks: list[Check] = []
    for statement, side, other, asked in _unconfirmed(state):
        inside, outside = ([place[each] for each in part if each in place] for part in (side, other))
        if not inside or not outside:
            continue
        pairs = np.ix_(inside, outside)
        odds = float(scores.prior[pairs].max() + scores.ratio[pairs].mean())
        model = float(expit(len(asked) * logit(ERROR) + (-odds if statement.same else odds)))
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
    odds = scores.odds[np.ix_(inside, outside)].astype(np.float64)
    numbers = items.tolist()
    for i, a in enumerate(inside):
        for j, b in enumerate(outside):
            if (min(numbers[a], numbers[b]), max(numbers[a], numbers[b])) in asked:
                odds[i, j] = -np.inf
    i, j = divmod(int(np.argmax(odds)), len(outside))
    first, second = sorted((int(items[inside[i]]), int(items[outside[j]])))
    return first, second


def _chains(same: list[Statement], doubts: dict[Statement, float]) -> Iterator[Check]:
    """Of each component the chain between two items whose answers are most probably wrong."""
    links: dict[int, list[tuple[int, Statement]]] = {}
    for each in same:
        links.setdefault(each.first, []).append((each.second, each))
        links.setdefault(each.second, []).append((each.first, each))

    def reach(start: int) -> dict[int, tuple[float, Statement | None, int]]:
        """Doubt along the way, the most doubtful answer of it and its number of answers, of every item."""
        found: dict[int, tuple[float, Statement | None, int]] = {start: (0.0, None, 0)}
        queue = [start]
        for item in queue:
            doubt, worst, length = found[item]
            for other, statement in links[item]:
                if other not in found:
                    own = doubts.get(statement, 0.0)
                    worse = own > 0 and (worst is None or own > doubts[worst])
                    found[other] = (doubt + own, statement if worse else worst, length + 1)
                    queue.append(other)
        return found

    seen: set[int] = set()
    for root in links:
        if root in seen:
            continue
        reached = reach(root)
        seen.update(reached)
        start = max(reached, key=lambda item: (reached[item][0], reached[item][2]))
        reached = reach(start)
        end = max(reached, key=lambda item: (reached[item][0], reached[item][2]))
        doubt, worst, length = reached[end]
        if worst is not None and length > 1:
            yield Check(worst, min(doubt, 1.0), min(start, end), max(start, end))


def _effective(state: Identities) -> list[Statement]:
    """The statements that have an effect."""
    excluded = {(each.statement.event, each.statement.first, each.statement.second) for each in state.contradictions}
    return [
        each
        for each in state.statements
        if each.same is not None and (each.event, each.first, each.second) not in excluded
    ]


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
    """The statements without which their component falls apart, and the items on one side (Tarjan's algorithm)."""
    links: dict[int, list[tuple[int, int]]] = {}
    for number, each in enumerate(statements):
        links.setdefault(each.first, []).append((each.second, number))
        links.setdefault(each.second, []).append((each.first, number))
    found: dict[int, int] = {}
    low: dict[int, int] = {}
    below: dict[int, set[int]] = {}
    for root in links:
        if root in found:
            continue
        stack = [(root, -1, iter(links[root]))]
        found[root] = low[root] = len(found)
        below[root] = {root}
        while stack:
            item, came, others = stack[-1]
            for other, number in others:
                if number == came:
                    continue
                if other in found:
                    low[item] = min(low[item], found[other])
                    continue
                found[other] = low[other] = len(found)
                below[other] = {other}
                stack.append((other, number, iter(links[other])))
                break
            else:
                stack.pop()
                if stack:
                    parent = stack[-1][0]
                    low[parent] = min(low[parent], low[item])
                    below[parent] |= below[item]
                    if low[item] > found[parent]:
                        yield statements[came], below[item]
