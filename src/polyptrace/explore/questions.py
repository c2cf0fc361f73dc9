"""The next best question: which pair of items to ask about, so that the fewest answers settle who is who.

Answers are closed transitively: n items of k lesions need n - k "same" answers and a "different" for each two lesions.
So the lesions that are shown name the answers that are missing:

- within a lesion, the links of the tree of strongest links between its components (items that answers have joined);
- between two lesions that no answer separates, their strongest link.

The most doubtful of these is asked first, so that wrong lesions are corrected early and no answer rests on them. The
log-odds of two components are their largest prior plus their mean log ratio, as in `polyptrace.lesions.clustering`.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from polyptrace.core.arrays import Bools, Floats, Ints
from polyptrace.explore.identities import Identities
from polyptrace.lesions import PairScores, weakest_link

#: Log-odds of a link that is not asked about, in the tree of strongest links.
NOT_ASKED = -1e6


@dataclass(frozen=True)
class Question:
    """Two items, P(same lesion) of their components, and what each answer implies."""

    first: int
    second: int
    probability: float
    same_decides: int  # pairs of items that a "same" decides, or a "different"
    different_decides: int


@dataclass(frozen=True)
class Components:
    """The components of some items: what their pairs look like and what is decided."""

    code: Ints  # (n,) component of each item
    odds: Floats  # (C, C) log-odds that two components show the same lesion
    apart: Bools  # (C, C); a component is apart from itself, as there is nothing to ask

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
        for name, number in place.items():
            apart[number, [place[other] for other in state.different.get(name, ()) if other in place]] = True
        return cls(np.asarray(code), ratio + prior, apart)

    def best(self, lesion: Ints, skip: Bools) -> tuple[int, int] | None:
        """The most doubtful missing answer, given the lesion (C,) of each component; None if none is missing."""
        link = self._weakest_inside(lesion, np.where(skip, NOT_ASKED, self.odds))
        between = self._strongest_between(lesion, np.where(skip, -np.inf, self.odds))
        if link is None or (between is not None and self.odds[between] > -self.odds[link]):
            return between
        return link

    def _weakest_inside(self, lesion: Ints, odds: Floats) -> tuple[int, int] | None:
        weakest: tuple[float, int, int] | None = None
        for name in np.unique(lesion):
            link = weakest_link(odds, np.flatnonzero(lesion == name))
            if link is not None and link[2] > NOT_ASKED / 2 and (weakest is None or link[2] < weakest[0]):
                weakest = link[2], link[0], link[1]
        return None if weakest is None else weakest[1:]

    def _strongest_between(self, lesion: Ints, odds: Floats) -> tuple[int, int] | None:
        count = int(lesion.max()) + 1
        separate = np.eye(count, dtype=bool)
        first, second = np.nonzero(self.apart)
        separate[lesion[first], lesion[second]] = True
        value = np.where(separate[np.ix_(lesion, lesion)], -np.inf, odds)
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
    place = {int(item): int(code) for item, code in zip(items.tolist(), components.code.tolist(), strict=True)}
    skipped = np.zeros(components.apart.shape, bool)
    for a, b in ((place[a], place[b]) for a, b in skip if a in place and b in place):
        skipped[a, b] = skipped[b, a] = True
    lesion_of_component = np.empty(len(skipped), np.int64)
    lesion_of_component[components.code] = np.unique(lesion, return_inverse=True)[1]
    pair = components.best(lesion_of_component, skipped)
    if pair is None:
        return None
    inside, others = (np.flatnonzero(components.code == each) for each in pair)
    odds = scores.odds[np.ix_(inside, others)]
    i, j = np.unravel_index(int(np.argmax(odds)), odds.shape)
    a, b = sorted((int(items[inside[i]]), int(items[others[j]])))
    return Question(a, b, float(expit(components.odds[pair])), *components.implied(*pair))
