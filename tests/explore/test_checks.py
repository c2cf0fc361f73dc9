"""Checks find wrong answers, and end."""

from collections.abc import Callable

import numpy as np
import pytest

from polyptrace.explore import Workspace
from polyptrace.explore.checks import MIN_WRONG, _bridges
from polyptrace.explore.identities import Statement


def settle(workspace: Workspace, wrong: set[int]) -> None:
    """Answers every question by the polyps, except for the wrong ones, by the number of the answer."""
    procedure = workspace.procedure(0)
    truth, number = workspace.tracks.polyp[procedure.rows], 0
    while (asked := procedure.question()) is not None:
        _answer(workspace, asked.first, asked.second, (truth[asked.first] == truth[asked.second]) != (number in wrong))
        number += 1


def _answer(workspace: Workspace, first: int, second: int, same: bool) -> None:
    procedure = workspace.procedure(0)
    items = (procedure.items[first], procedure.items[second])
    workspace.append("answer", "Ada", video=procedure.key, items=items, answer="same" if same else "different")


@pytest.mark.parametrize("wrong", [{0}, {4}, {9}])
def test_a_wrong_answer_becomes_a_contradiction(workspace: Workspace, wrong: set[int]) -> None:
    settle(workspace, wrong)
    procedure = workspace.procedure(0)
    assert not procedure.state().contradictions, "nothing else was asked about these lesions"
    truth, asked = workspace.tracks.polyp[procedure.rows], 0
    while (check := procedure.check()) is not None:
        assert check.wrong >= MIN_WRONG
        _answer(workspace, check.first, check.second, bool(truth[check.first] == truth[check.second]))
        asked += 1
        assert asked < 60, "checks end"
    (event,) = (each + 1 for each in wrong)
    found = procedure.state().contradictions
    shown = {number for each in found for number in (each.statement.event, *each.because)}
    assert event in shown


def test_checks_end_even_if_the_annotator_errs_all_the_time(workspace: Workspace) -> None:
    random = np.random.default_rng(0)
    settle(workspace, set(random.choice(20, 8).tolist()))
    procedure = workspace.procedure(0)
    for _ in range(200):
        check = procedure.check()
        if check is None:
            return
        _answer(workspace, check.first, check.second, bool(random.random() < 0.5))
    pytest.fail("checks do not end")


def test_bridges_are_the_statements_without_which_a_component_falls_apart() -> None:
    pairs = [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (5, 6)]
    found = {
        (each.first, each.second): side for each, side in _bridges([Statement(0, "", *pair, True) for pair in pairs])
    }
    assert found.keys() == {(2, 3), (3, 4), (5, 6)}
    assert found[2, 3] in ({3, 4}, {0, 1, 2})


def test_a_check_of_a_chain_is_about_its_ends(workspace: Workspace, answer: Callable[..., None]) -> None:
    for first in range(3):
        answer(first, first + 1)
    procedure = workspace.procedure(0)
    check = procedure.check()
    assert check is not None
    assert (check.first, check.second) == (0, 3)
    answer(0, 3)
    assert procedure.check() is None, "one answer confirms the whole chain"
