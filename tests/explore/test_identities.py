"""Closure, contradictions, edits and older linkings."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyptrace.explore import Event, Item, Workspace, agreement, identities

TRACKS: list[Item] = [(number, 100 * number, 100 * number + 60) for number in range(8)]


def answered(*answers: tuple[int, int, str], who: str = "Ada", tracks: Sequence[Item] = TRACKS) -> list[Event]:
    return [
        Event(number, "", who, "answer", "v", (tracks[a], tracks[b]), answer)  # type: ignore[arg-type]
        for number, (a, b, answer) in enumerate(answers, 1)
    ]


def edit(number: int, kind: str, items: Sequence[Item], who: str = "Ada", **fields: object) -> Event:
    return Event(number, "", who, kind, "v", tuple(items), **fields)  # type: ignore[arg-type]


def test_same_answers_are_closed_transitively() -> None:
    state = identities(TRACKS, answered((0, 1, "same"), (2, 3, "same"), (1, 2, "same"), (3, 5, "different")), "v")
    assert state.component.tolist() == [0, 0, 0, 0, 4, 5, 6, 7]
    assert all(state.apart(each, 5) for each in range(4))
    assert not state.apart(0, 4)
    assert not state.contradictions


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=25), st.integers(0, 2**31))
def test_true_answers_never_contradict_and_give_the_truth(pairs: list[tuple[int, int]], seed: int) -> None:
    truth = np.random.default_rng(seed).integers(3, size=8)
    answers = [(a, b, "same" if truth[a] == truth[b] else "different") for a, b in pairs if a != b]
    state = identities(TRACKS, answered(*answers), "v")
    assert not state.contradictions
    for a in range(8):
        for b in range(8):
            if state.component[a] == state.component[b]:
                assert truth[a] == truth[b]
            if state.apart(a, b):
                assert truth[a] != truth[b]
    assert np.array_equal(state.apart_matrix(np.arange(8)), [[state.apart(a, b) for b in range(8)] for a in range(8)])


def test_items_are_settled_when_answers_or_time_decide_all_their_pairs() -> None:
    tracks = [(0, 0, 60), (1, 50, 90), (2, 100, 160), (3, 200, 260)]  # the first two are visible at the same time
    answers = [(1, 2, "same"), (2, 3, "different"), (0, 3, "different")]
    chosen = np.ones(4, bool)
    undecided = [identities(tracks, answered(*answers[:n], tracks=tracks), "v").undecided(chosen) for n in range(4)]
    assert undecided == [5, 2, 1, 0]
    chosen[0] = False
    assert identities(tracks, answered(*answers[:2], tracks=tracks), "v").undecided(chosen) == 0


def test_an_item_is_decided_when_all_its_pairs_with_answered_items_are() -> None:
    tracks = [(number, 100 * number, 100 * number + 50) for number in range(5)]  # nothing is said about the last
    answers = [(0, 1, "same"), (2, 3, "different"), (0, 2, "different"), (1, 3, "different")]
    decided = [identities(tracks, answered(*answers[:n], tracks=tracks), "v").decided().tolist() for n in range(5)]
    nothing, everything = [False] * 5, [True] * 4 + [False]
    assert decided == [
        nothing,
        [True, True, False, False, False],
        nothing,
        [False, False, True, False, False],
        everything,
    ]


def test_a_contradiction_names_the_answers_that_exclude_it_and_has_no_effect() -> None:
    state = identities(TRACKS, answered((0, 1, "same"), (1, 2, "same"), (5, 6, "same"), (0, 2, "different")), "v")
    (actual,) = state.contradictions
    assert actual.statement.event == 4
    assert sorted(actual.because) == [1, 2]
    assert state.component[2] == 0
    state = identities(TRACKS, answered((0, 1, "same"), (2, 3, "same"), (1, 2, "different"), (0, 3, "same")), "v")
    (actual,) = state.contradictions
    assert (actual.statement.event, sorted(actual.because)) == (4, [1, 2, 3])
    assert state.component.tolist() == [0, 0, 2, 2, 4, 5, 6, 7]


def test_withdrawing_an_answer_resolves_the_contradiction() -> None:
    events = answered((0, 1, "same"), (1, 2, "same"), (0, 2, "different"))
    events.append(Event(4, "", "Ada", "undo", event=2))
    state = identities(TRACKS, events, "v")
    assert not state.contradictions
    assert state.apart(0, 2)


def test_a_later_answer_of_the_same_person_replaces_the_earlier_one() -> None:
    state = identities(TRACKS, answered((0, 1, "same"), (1, 0, "different")), "v")
    assert not state.contradictions
    assert state.apart(0, 1)


def test_tracks_visible_at_the_same_time_are_apart_also_by_closure() -> None:
    tracks: list[Item] = [(0, 0, 100), (1, 50, 150), (2, 200, 250)]
    state = identities(tracks, answered((0, 2, "same"), (1, 2, "same"), tracks=tracks), "v")
    (actual,) = state.contradictions
    assert (actual.statement.event, actual.because) == (2, ())
    assert state.apart(1, 2)


def test_two_people_who_disagree_are_named() -> None:
    events = [*answered((0, 1, "same")), edit(2, "answer", TRACKS[:2], "Bob", answer="different")]
    (actual,) = identities(TRACKS, events, "v").contradictions
    assert actual.people == ("Ada", "Bob")
    assert not identities(TRACKS, events, "v", "Bob").contradictions


def test_move_takes_items_out_of_their_lesion() -> None:
    events = [
        edit(1, "merge", TRACKS[:4]),
        edit(2, "merge", TRACKS[5:7]),
        edit(3, "move", TRACKS[2:4], to=TRACKS[5], others=tuple(TRACKS[:2])),
    ]
    state = identities(TRACKS, events, "v")
    assert state.component.tolist() == [0, 0, 2, 2, 4, 2, 2, 7]
    assert state.apart(0, 2)
    assert not state.contradictions
    alone = identities(TRACKS, [events[0], edit(2, "move", TRACKS[1:2], others=(TRACKS[0], *TRACKS[2:4]))], "v")
    assert alone.component.tolist() == [0, 1, 0, 0, 4, 5, 6, 7], "0 stays linked with 2 and 3"


def test_a_contradiction_after_a_move_names_the_earlier_answers_too() -> None:
    events = [*answered((0, 1, "same"), (1, 2, "same")), edit(3, "move", TRACKS[2:3], others=tuple(TRACKS[:2]))]
    events.append(edit(4, "answer", [TRACKS[0], TRACKS[2]], answer="same"))
    (actual,) = identities(TRACKS, events, "v").contradictions
    assert actual.statement.event == 4
    assert sorted(actual.because) == [1, 3], "the move says 1 ≠ 2, the first answer 0 = 1"
    events.append(Event(5, "", "Ada", "undo", event=1))
    state = identities(TRACKS, events, "v")
    assert not state.contradictions
    assert state.component.tolist()[:3] == [0, 1, 0]


def test_split_makes_two_items_that_are_apart_and_sets_earlier_answers_aside() -> None:
    events = [*answered((0, 1, "same")), edit(2, "split", TRACKS[:1], frame=30)]
    state = identities(TRACKS, events, "v")
    assert state.items[:3] == [(0, 0, 29), (0, 30, 60), TRACKS[1]]
    assert state.track[:3].tolist() == [0, 0, 1]
    assert state.apart(0, 1)
    assert state.set_aside == [1]
    again = [*events, edit(3, "answer", [(0, 30, 60), TRACKS[1]], answer="same")]
    assert identities(TRACKS, again, "v").component.tolist()[:3] == [0, 1, 1]
    undone = [*again, Event(4, "", "Ada", "undo", event=2)]
    assert identities(TRACKS, undone, "v").component.tolist()[:2] == [0, 0]


def test_reject_restore_and_notes() -> None:
    events = [
        edit(1, "reject", TRACKS[:2]),
        edit(2, "restore", TRACKS[:1]),
        edit(3, "note", TRACKS[4:5], text="<i>x</i>"),
    ]
    state = identities(TRACKS, events, "v")
    assert state.rejected.tolist()[:2] == [False, True]
    assert state.notes == {4: "<i>x</i>"}
    assert not identities(TRACKS, [*events, edit(4, "note", TRACKS[4:5])], "v").notes


def test_answers_on_an_older_linking_are_mapped_by_overlap_and_the_rest_is_listed() -> None:
    old: list[Item] = [(4, 3, 58), (9, 98, 161), (5, 1000, 1100), (6, 205, 215)]
    state = identities(TRACKS, answered((0, 1, "same"), (0, 2, "same"), (0, 3, "different"), tracks=old), "v")
    assert state.component[1] == 0
    assert state.mapped == 4
    assert [event.id for event in state.unmapped] == [2, 3]
    both: list[Item] = [(0, 0, 100), (1, 0, 98), (2, 300, 400)]
    ambiguous = identities(both, answered((0, 1, "same"), tracks=[(7, 0, 99), (2, 300, 400)]), "v")
    assert [event.id for event in ambiguous.unmapped] == [1], "two tracks fit"


def test_kappa_follows_its_formula() -> None:
    ada = answered((0, 1, "same"), (1, 2, "different"), (2, 3, "same"), (0, 3, "different"))
    bob = answered((0, 1, "same"), (1, 2, "different"), (2, 3, "different"), (0, 3, "different"), who="Bob")
    first, second = (identities(TRACKS, events, "v") for events in (ada, bob))
    kappa, pairs = agreement(first, second)
    # decided by both: 01 s/s, 12 d/d, 02 d/d, 03 d/d, 13 d/d, 23 s/d
    assert pairs == 6
    observed, expected = 5 / 6, (2 / 6) * (1 / 6) + (4 / 6) * (5 / 6)
    assert kappa == pytest.approx((observed - expected) / (1 - expected))
    assert agreement(first, identities(TRACKS, [], "v"))[1] == 0


def test_undo_restores_the_state_exactly(workspace: Workspace, answer: Callable[..., None]) -> None:
    procedure = workspace.procedure(0)
    answer(0, 1)
    before = procedure.state()
    answer(1, 2, "different")
    workspace.withdraw("undo", "Ada", procedure.key)
    after = procedure.state()
    assert after.component.tolist() == before.component.tolist()
    assert after.different.keys() == before.different.keys()
    workspace.withdraw("redo", "Ada", procedure.key)
    assert procedure.state().apart(0, 2)
    assert workspace.withdraw("redo", "Ada", procedure.key) is None
