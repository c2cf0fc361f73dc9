"""Questions settle who is who, the lesions follow the answers, and checks find wrong answers and end."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from polyptrace.explore import Journal, Workspace
from polyptrace.explore import workspace as workspace_module
from polyptrace.explore.identities import Statement
from polyptrace.explore.questions import MIN_WRONG, _bridges
from tests.explore.conftest import simulate


def settle(workspace: Workspace, number: int = 0) -> int:
    """Answers every question by the polyps; the number of answers."""
    procedure = workspace.procedure(number)
    truth = workspace.tracks.polyp[procedure.rows]
    asked = 0
    while (question := procedure.question()) is not None:
        state = procedure.state()
        same = truth[state.track[question.first]] == truth[state.track[question.second]]
        items = (state.items[question.first], state.items[question.second])
        workspace.journal.append(
            "answer", "Ada", video=procedure.key, items=items, answer="same" if same else "different"
        )
        asked += 1
    return asked


def test_true_answers_to_all_questions_give_the_true_lesions_with_the_fewest_answers(workspace: Workspace) -> None:
    procedure = workspace.procedure(0)
    truth = workspace.tracks.polyp[procedure.rows]
    expected = procedure.left()
    asked = settle(workspace)
    assert asked == expected, "the lesions were right from the start"
    assert procedure.left() == 0
    lesion = procedure.grouping().lesion
    assert np.array_equal(lesion[:, None] == lesion, truth[:, None] == truth)
    assert procedure.grouping().interval == (3, 3)
    lesions = len(set(truth))
    assert asked == len(truth) - lesions + lesions * (lesions - 1) // 2, "well separated lesions waste no answer"


def test_what_a_question_implies_is_what_its_answer_decides(workspace: Workspace) -> None:
    procedure = workspace.procedure(0)

    def decided() -> int:
        state = procedure.state()
        same = state.component[:, None] == state.component
        return int(np.triu(same | state.apart_matrix(np.arange(len(state.items))), 1).sum())

    truth = workspace.tracks.polyp[procedure.rows]
    while (question := procedure.question()) is not None:
        before = decided()
        assert procedure.left() > 0
        same = truth[question.first] == truth[question.second]
        items = tuple(procedure.items[each] for each in (question.first, question.second))
        workspace.journal.append(
            "answer", "Ada", video=procedure.key, items=items, answer="same" if same else "different"
        )
        assert decided() - before == (question.same_decides if same else question.different_decides)


def test_unsure_pairs_and_rejected_tracks_are_not_asked_again(
    workspace: Workspace, answer: Callable[..., None]
) -> None:
    procedure = workspace.procedure(0)
    question = procedure.question()
    assert question is not None
    answer(question.first, question.second, "unsure")
    other = procedure.question()
    assert other is not None
    assert (other.first, other.second) != (question.first, question.second)
    workspace.journal.append("reject", "Ada", video=procedure.key, items=(procedure.items[0],))
    settle(workspace)
    assert procedure.grouping().lesion[0] == -1
    statements = procedure.state().statements
    assert not any(each.first == 0 and each.same is not None for each in statements)


def test_lesions_respect_answers_against_the_probability(workspace: Workspace, answer: Callable[..., None]) -> None:
    procedure = workspace.procedure(0)
    first = procedure.grouping().lesion
    assert first[0] == first[1]
    assert first[0] != first[6]
    answer(0, 1, "different")
    answer(0, 6, "same")
    changed = procedure.grouping().lesion
    assert changed[0] != changed[1]
    assert changed[0] == changed[6]


def test_candidates_are_ranked_by_probability_and_say_what_is_known(
    workspace: Workspace, answer: Callable[..., None]
) -> None:
    procedure = workspace.procedure(0)
    answer(0, 1)
    answer(0, 5, "different")
    actual = procedure.candidates(0, 100)
    assert [each.probability for each in actual] == sorted((each.probability for each in actual), reverse=True)
    known = {each.item: each.known for each in actual}
    assert (known[1], known[5], known[2]) == ("same", "different", "")
    (first,) = [each for each in actual if each.item == 3]
    unit = procedure.tracks.unit
    assert np.isclose(first.cosine, unit[0] @ unit[3])


def test_a_long_procedure_is_grouped_in_windows(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(workspace_module, "WINDOW", 7)
    session = Workspace(tmp_path / "vectors", simulate(videos=2), Journal.open(tmp_path / "answers.jsonl"))
    procedure = session.procedure(0)
    settle(session)
    lesion, truth = procedure.grouping().lesion, session.tracks.polyp[procedure.rows]
    for start in range(0, len(truth), 7):
        inside, names = lesion[start : start + 7], truth[start : start + 7]
        assert np.array_equal(inside[:, None] == inside, names[:, None] == names)
    assert procedure.grouping().confidence.size == lesion.max() + 1


def settle_with_errors(workspace: Workspace, wrong: set[int]) -> None:
    """Answers every question by the polyps, except for the wrong ones, by the number of the answer."""
    procedure = workspace.procedure(0)
    truth, number = workspace.tracks.polyp[procedure.rows], 0
    while (asked := procedure.question()) is not None:
        _answer(workspace, asked.first, asked.second, (truth[asked.first] == truth[asked.second]) != (number in wrong))
        number += 1


def _answer(workspace: Workspace, first: int, second: int, same: bool) -> None:
    procedure = workspace.procedure(0)
    items = (procedure.items[first], procedure.items[second])
    workspace.journal.append("answer", "Ada", video=procedure.key, items=items, answer="same" if same else "different")


@pytest.mark.parametrize("wrong", [{0}, {4}, {9}])
def test_a_wrong_answer_becomes_a_contradiction(workspace: Workspace, wrong: set[int]) -> None:
    settle_with_errors(workspace, wrong)
    procedure = workspace.procedure(0)
    assert not procedure.state().contradictions, "nothing else was asked about these lesions"
    truth, asked = workspace.tracks.polyp[procedure.rows], 0
    while (check := procedure.check()) is not None:
        assert check.wrong >= MIN_WRONG
        _answer(workspace, check.first, check.second, bool(truth[check.first] == truth[check.second]))
        asked += 1
        assert asked < 60, "checks end"
    (event,) = (each + 1 for each in wrong)
    actual = procedure.state().contradictions
    shown = {number for each in actual for number in (each.statement.event, *each.because)}
    assert event in shown


def test_checks_end_even_if_the_annotator_errs_all_the_time(workspace: Workspace) -> None:
    random = np.random.default_rng(0)
    settle_with_errors(workspace, set(random.choice(20, 8).tolist()))
    procedure = workspace.procedure(0)
    for _ in range(200):
        check = procedure.check()
        if check is None:
            return
        _answer(workspace, check.first, check.second, bool(random.random() < 0.5))
    pytest.fail("checks do not end")


def test_bridges_are_the_statements_without_which_a_component_falls_apart() -> None:
    pairs = [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (5, 6)]
    actual = {
        (each.first, each.second): side for each, side in _bridges([Statement(0, "", *pair, True) for pair in pairs])
    }
    assert actual.keys() == {(2, 3), (3, 4), (5, 6)}
    assert actual[2, 3] in ({3, 4}, {0, 1, 2})


def test_a_check_of_a_chain_is_about_its_ends(workspace: Workspace, answer: Callable[..., None]) -> None:
    for first in range(3):
        answer(first, first + 1)
    procedure = workspace.procedure(0)
    check = procedure.check()
    assert check is not None
    assert (check.first, check.second) == (0, 3)
    answer(0, 3)
    assert procedure.check() is None, "one answer confirms the whole chain"
