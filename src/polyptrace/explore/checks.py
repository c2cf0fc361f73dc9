"""Checks: which answer to ask about again, because it is probably wrong and no other answer confirms it.

A "same" is unconfirmed if it alone joins two parts of a component, and a "different" if it is the only one between its
two components. With people who err in a share ε of answers, the log-odds that an unconfirmed answer is wrong are

    logit ε - odds(same)   for a "same"   (odds between the two parts)
    logit ε + odds(same)   for a "different"

The question is about another pair of tracks of the two parts, so that a wrong answer becomes a contradiction. Where
there is only one pair, it is asked about once more.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from polyptrace.explore.identities import Identities, Statement
from polyptrace.lesions import PairScores

Ints = NDArray[np.int64]

#: Assumed share of wrong answers.
ERROR = 0.05
#: Answers that are wrong with a smaller probability are not asked about again.
MIN_WRONG = 0.01


@dataclass(frozen=True)
class Check:
    """An unconfirmed answer, the probability that it is wrong, and the two items to ask about."""

    statement: Statement
    wrong: float
    first: int
    second: int


def next_check(state: Identities, items: Ints, scores: PairScores) -> Check | None:
    """The check of the answer that is most probably wrong; None if none is probably enough."""
    place = {int(item): number for number, item in enumerate(items.tolist())}
    best: tuple[float, Statement, list[int], list[int]] | None = None
    for statement, side, other in _unconfirmed(state):
        inside, outside = ([place[each] for each in part if each in place] for part in (side, other))
        if not inside or not outside:
            continue
        if len(inside) == len(outside) == 1 and (statement.first, statement.second) in state.repeated:
            continue  # there is no other pair, and this one was asked about again already
        pairs = np.ix_(inside, outside)
        odds = float(scores.prior[pairs].max() + scores.ratio[pairs].mean())
        wrong = float(expit(logit(ERROR) + (-odds if statement.same else odds)))
        if wrong >= MIN_WRONG and (best is None or wrong > best[0]):
            best = (wrong, statement, inside, outside)
    if best is None:
        return None
    wrong, statement, inside, outside = best
    odds_of_pairs = scores.odds[np.ix_(inside, outside)].astype(np.float64)
    asked = (place[statement.first], place[statement.second])
    for a, b in (asked, asked[::-1]):
        if a in inside and b in outside and odds_of_pairs.size > 1:
            odds_of_pairs[inside.index(a), outside.index(b)] = -np.inf
    i, j = np.unravel_index(int(np.argmax(odds_of_pairs)), odds_of_pairs.shape)
    first, second = sorted((int(items[inside[i]]), int(items[outside[j]])))
    return Check(statement, wrong, first, second)


def _unconfirmed(state: Identities) -> Iterator[tuple[Statement, list[int], list[int]]]:
    """Each answer that nothing else confirms, and the items on its two sides."""
    excluded = {(each.statement.event, each.statement.first, each.statement.second) for each in state.contradictions}
    disputed = {event for each in state.contradictions for event in each.because}
    effective = [
        each
        for each in state.statements
        if each.same is not None and (each.event, each.first, each.second) not in excluded
    ]
    confirmed = {(each.first, each.second) for each in effective if _count(effective, each) > 1}
    for statement, side in _bridges([each for each in effective if each.same]):
        if statement.event not in disputed and (statement.first, statement.second) not in confirmed:
            whole = state.members(statement.first).tolist()
            yield statement, sorted(side), [item for item in whole if item not in side]
    for name, others in state.different.items():
        for other, statements in others.items():
            if name < other and len(statements) == 1 and statements[0].event not in disputed:
                yield statements[0], state.members(name).tolist(), state.members(other).tolist()


def _count(statements: list[Statement], one: Statement) -> int:
    return sum(each.first == one.first and each.second == one.second for each in statements)


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
