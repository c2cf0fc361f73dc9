"""What an edit changes about earlier answers, to be shown when it is made."""

from dataclasses import dataclass

from polyptrace.explore.identities import Identities


@dataclass(frozen=True)
class Effect:
    """Numbers of events."""

    contradicted: dict[int, tuple[int, ...]]  # events that have no effect now, and the events that exclude each
    replaced: tuple[int, ...]  # other earlier events of the annotator that say otherwise about a pair of the edit
    set_aside: tuple[int, ...]  # events on a track that is split now


def effect(before: Identities, after: Identities, event: int) -> Effect:
    """What the event with this number changes, by the answers before and after it."""
    known = {each.statement.event for each in before.contradictions}
    contradicted: dict[int, set[int]] = {}
    for contradiction in after.contradictions:
        if contradiction.statement.event not in known:
            contradicted.setdefault(contradiction.statement.event, set()).update(contradiction.because)
    replaced: set[int] = set()
    if before.items == after.items:  # otherwise the numbers of items differ, and no pair of a split is an earlier one
        stated = {(each.who, each.first, each.second): each.same for each in after.statements if each.event == event}
        for earlier in before.statements:
            same = stated.get((earlier.who, earlier.first, earlier.second), earlier.same)
            if earlier.same is not None and same != earlier.same:
                replaced.add(earlier.event)
    replaced = replaced.difference(*contradicted.values())  # these are named already
    return Effect(
        {number: tuple(sorted(because)) for number, because in contradicted.items()},
        tuple(sorted(replaced)),
        tuple(sorted(set(after.set_aside) - set(before.set_aside))),
    )
