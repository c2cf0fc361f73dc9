"""The next best question: which pair of items to ask about, so that the fewest answers settle who is who.

Answers are closed transitively, so every "same" saves later questions: n items of k lesions need n - k of them in any
order. What an order can waste are "different" answers: between two lesions one is enough. So the next question is about
the two components with the largest

    P(same) - (1 - P(same)) · P(a "different" between these two lesions is known already)

where P(same) = σ(largest prior + mean log ratio of their pairs), as in `polyptrace.lesions.clustering`, and the second
probability is that both components belong to the lesions of an earlier "different".
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from polyptrace.explore.identities import Identities
from polyptrace.lesions import PairScores

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Question:
    """Two items, P(same lesion) of their components, and what each answer implies."""

    first: int
    second: int
    probability: float
    left: int  # pairs of components that are not decided yet, this one included
    same_decides: int  # pairs of items that a "same" decides, or a "different"
    different_decides: int


@dataclass(frozen=True)
class Components:
    """The components of some items: what their pairs look like and what is decided."""

    code: Ints  # (n,) component of each item
    odds: Floats  # (C, C) log-odds that two components show the same lesion
    apart: Bools  # (C, C)
    said: tuple[tuple[int, int], ...]  # pairs of components with a "different" answer

    @classmethod
    def of(cls, state: Identities, items: Ints, scores: PairScores) -> "Components":
        """The components of some items, whose pairs have these scores."""
        names, code = np.unique(state.component[items], return_inverse=True)
        order = np.argsort(code, kind="stable")
        starts = np.searchsorted(code[order], np.arange(len(names)))
        size = np.bincount(code, minlength=len(names))
        ratio = np.add.reduceat(scores.ratio[order], starts, axis=0, dtype=np.float64)
        ratio = np.add.reduceat(ratio[:, order], starts, axis=1) / np.outer(size, size)
        prior = np.maximum.reduceat(scores.prior[order], starts, axis=0)
        prior = np.maximum.reduceat(prior[:, order], starts, axis=1)
        place = {int(name): number for number, name in enumerate(names)}
        apart = np.eye(len(names), dtype=bool)
        said = []
        for name, number in place.items():
            for other, statements in state.different.get(name, {}).items():
                if other in place:
                    apart[number, place[other]] = True
                    if statements and other > name:
                        said.append((number, place[other]))
        return cls(np.asarray(code), ratio + prior, apart, tuple(said))

    def best(self) -> tuple[int, int] | None:
        """The pair of components to ask about; None if all pairs are decided."""
        if self.apart.all():
            return None
        same = np.where(self.apart, 0.0, expit(self.odds))
        belongs = same + np.eye(len(same))
        known = np.zeros_like(same)
        for a, b in self.said:
            both = np.outer(belongs[:, a], belongs[:, b])
            known = np.maximum(known, np.maximum(both, both.T))
        value = np.where(self.apart, -np.inf, same - (1 - same) * known)
        first, second = np.unravel_index(int(np.argmax(np.triu(value + 3, 1))), value.shape)
        return int(first), int(second)


def next_question(state: Identities, items: Ints, scores: PairScores, skip: set[tuple[int, int]]) -> Question | None:
    """The next best question about some items; pairs of components with an item pair in `skip` are not asked."""
    if not len(items):
        return None
    components = Components.of(state, items, scores)
    left = int((~components.apart).sum()) // 2
    place = {int(item): number for number, item in enumerate(items.tolist())}
    for first, second in skip:
        if first in place and second in place:
            a, b = components.code[place[first]], components.code[place[second]]
            components.apart[a, b] = components.apart[b, a] = True
    pair = components.best()
    if pair is None:
        return None
    inside, others = (np.flatnonzero(components.code == each) for each in pair)
    odds = scores.odds[np.ix_(inside, others)]
    i, j = np.unravel_index(int(np.argmax(odds)), odds.shape)
    a, b = sorted((int(items[inside[i]]), int(items[others[j]])))
    same, different = implied(components, *pair)
    return Question(a, b, float(expit(components.odds[pair])), left, same, different)


def implied(components: Components, a: int, b: int) -> tuple[int, int]:
    """How many undecided pairs of items a "same" and a "different" of two components decide."""
    size = np.bincount(components.code)
    third = np.ones(len(size), bool)
    third[[a, b]] = False
    only = third & (components.apart[a] ^ components.apart[b])  # decided for one of the two
    gained = np.where(components.apart[a], size[b], size[a])
    between = int(size[a] * size[b])
    return between + int((gained * size)[only].sum()), between
