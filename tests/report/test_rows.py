"""From folders to rows."""

from collections.abc import Callable
from pathlib import Path

import pytest

from polyptrace.core.errors import UserError
from polyptrace.evaluate import Results
from polyptrace.report.rows import load_rows, shown_row


def test_seeds_of_a_method_become_one_row_and_groups_are_in_order(results: list[Path], rows: list[Results]) -> None:
    loaded = load_rows(results)
    assert [row.method.group for row in loaded] == ["Baseline", "Fully supervised", "Self-supervised"]
    assert loaded[-1].method.seeds == 2
    apart = [row.tasks["retrieval"].metrics["map"].value for row in rows[:2]]
    assert loaded[-1].tasks["retrieval"].metrics["map"].value == pytest.approx(sum(apart) / 2)


def test_no_results_is_an_error_that_says_what_to_give() -> None:
    with pytest.raises(UserError, match="polyptrace evaluate"):
        load_rows([])


def test_the_page_is_about_the_named_method_or_the_last_self_supervised_one(make_row: Callable[..., Results]) -> None:
    rows = [make_row("a", 0.9, group="Baseline"), make_row("b", 0.2), make_row("c", 0.1)]
    assert shown_row(rows) == 2
    assert shown_row(rows, "a") == 0
    with pytest.raises(UserError, match="one of a, b, c"):
        shown_row(rows, "d")


def test_without_a_self_supervised_method_it_is_about_the_best_one(make_row: Callable[..., Results]) -> None:
    rows = [make_row(n, v, group="Baseline") for n, v in (("a", 0.2), ("b", 0.9), ("c", float("nan")))]
    assert shown_row(rows) == 1
