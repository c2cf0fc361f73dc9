"""What an edit changes about earlier answers."""

from polyptrace.explore import Event, Workspace, identities
from polyptrace.explore.effects import Effect, effect
from polyptrace.explore.page_content import PageContent
from tests.explore.test_identities import TRACKS, answered, edit


def last_effect(events: list[Event]) -> Effect:
    """The effect of the last event."""
    before, after = identities(TRACKS, events[:-1], "v"), identities(TRACKS, events, "v")
    return effect(before, after, events[-1].id)


def test_an_answer_that_fits_changes_nothing_else() -> None:
    assert last_effect(answered((0, 1, "same"), (1, 2, "different"), (0, 2, "different"))) == Effect({}, (), ())


def test_a_contradiction_is_new_only_once() -> None:
    events = answered((0, 1, "same"), (1, 2, "same"), (0, 2, "different"), (3, 4, "same"))
    assert last_effect(events[:3]) == Effect({3: (1, 2)}, (), ())
    assert last_effect(events) == Effect({}, (), ())


def test_what_the_annotator_said_otherwise_before_is_replaced() -> None:
    events = answered((0, 1, "same"), (0, 1, "different"))
    assert last_effect(events) == Effect({}, (1,), ())
    moved = [*answered((0, 1, "same"), (2, 3, "same")), edit(3, "move", TRACKS[:1], others=(TRACKS[1],), to=TRACKS[2])]
    assert last_effect(moved) == Effect({}, (1,), ())
    assert last_effect([*answered((0, 1, "same")), edit(2, "answer", TRACKS[:2], "Bob", answer="different")]) == Effect(
        {2: (1,)}, (), ()
    ), "what others said is not replaced"


def test_a_split_sets_earlier_answers_aside_and_its_undo_changes_nothing_else() -> None:
    events = [*answered((0, 1, "same"), (2, 3, "same")), edit(3, "split", TRACKS[:1], frame=30)]
    assert last_effect(events) == Effect({}, (), (1,))
    assert last_effect([*events, Event(4, "", "Ada", "undo", event=3)]) == Effect({}, (), ())


def test_a_withdrawn_answer_that_is_restored_may_exclude_a_later_one() -> None:
    events = [*answered((0, 1, "same")), Event(2, "", "Ada", "undo", event=1)]
    events += [edit(3, "answer", TRACKS[:2], "Bob", answer="different"), Event(4, "", "Ada", "redo", event=1)]
    assert last_effect(events) == Effect({3: (1,)}, (), ())


def test_every_edit_counts_as_one_answer(workspace: Workspace) -> None:
    procedure, content = workspace.procedure(0), PageContent(workspace, [])
    items = procedure.items
    for number, (kind, fields) in enumerate(
        (
            ("merge", {"items": tuple(items[:4])}),
            ("move", {"items": tuple(items[5:7]), "others": tuple(items[7:])}),
            ("split", {"items": (items[4],), "frame": items[4][1] + 5}),
        ),
        1,
    ):
        workspace.journal.append(kind, "Ada", video=procedure.key, **fields)
        assert content.state(0, None, "Ada")["answers"] == number
