"""Loading rows, and which of them are best, share the first place or are second."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from polyptrace.core.errors import UserError
from polyptrace.evaluate import Results
from polyptrace.evaluate.bootstrap import holm
from polyptrace.evaluate.results import compare
from polyptrace.report.ranking import MAIN, Measure, focus_row, load_rows, rank

MAP = MAIN[0]
Make = Callable[..., Results]


def test_the_highest_figure_is_best_and_the_next_that_differs_is_second(make_row: Make) -> None:
    rows = [make_row("a", 0.5, seed=1), make_row("b", 0.9, seed=2), make_row("c", 0.7, seed=3)]
    ranking = rank(rows, MAP)
    assert [ranking.mark(n) for n in range(3)] == ["", "best", "second"]
    assert set(ranking.p) == {0, 2}


def test_a_method_without_a_significant_difference_shares_the_first_place(make_row: Make) -> None:
    rows = [make_row("a", 0.70, seed=1, spread=0.05), make_row("b", 0.71, seed=2, spread=0.05), make_row("c", 0.2)]
    ranking = rank(rows, MAP)
    assert [ranking.mark(n) for n in range(3)] == ["best", "best", ""]  # the third is not the second best


def test_no_method_is_marked_where_no_test_is_possible(make_row: Make) -> None:
    rows = [make_row("a", 0.5, seed=1), make_row("b", 0.9, seed=2)]
    one_procedure = [replace(row, tasks={"retrieval": replace(row.tasks["retrieval"], drawn=1)}) for row in rows]
    assert [rank(rows, MAP).mark(n) for n in range(2)] == ["second", "best"]
    assert [rank(one_procedure, MAP).mark(n) for n in range(2)] == ["", ""]


def test_no_method_is_marked_where_all_values_are_equal(make_row: Make) -> None:
    assert not rank([make_row("a", 0.0), make_row("b", 0.0)], MAP).best
    assert rank([make_row("a", 0.0), make_row("b", 0.001)], MAP).best


def test_p_is_adjusted_within_the_column_not_over_the_table(make_row: Make) -> None:
    rows = [make_row("a", 0.60, seed=1, spread=0.02), make_row("b", 0.54, seed=2, spread=0.02)]
    for row in rows:  # six columns more, all with the same figures
        for number in range(6):
            row.tasks[f"t{number}"] = row.tasks["retrieval"]
            row.arrays[f"t{number}/draws/map"] = row.arrays["retrieval/draws/map"]
    many = [MAP, *(Measure(f"t{n}", "map", "", "") for n in range(6))]
    raw = compare(rows[0], rows[1], "retrieval", "map").p
    assert [rank(rows, measure).p[1] for measure in many] == [raw] * 7
    rows.append(make_row("c", 0.53, seed=3, spread=0.02))
    raws = [compare(rows[0], rows[n], "retrieval", "map").p for n in (1, 2)]
    ranking = rank(rows, MAP)
    assert [ranking.p[n] for n in (1, 2)] == holm(raws) != raws


def test_a_method_that_saw_the_test_data_is_never_best_in_that_task(make_row: Make) -> None:
    rows = [make_row("a", 0.5), make_row("saw", 0.9, saw=("retrieval",)), make_row("c", 0.4)]
    ranking = rank(rows, MAP)
    assert ranking.mark(1) == ""
    assert ranking.saw_test == {1}
    assert ranking.mark(0) == "best"


def test_seeing_the_test_data_of_another_task_is_not_marked(make_row: Make) -> None:
    rows = [make_row("a", 0.5), make_row("b", 0.9, saw=("size",))]
    assert rank(rows, MAP).mark(1) == "best"


def test_a_method_measured_on_other_tracklets_does_not_compete(make_row: Make) -> None:
    rows = [make_row("a", 0.5), make_row("b", 0.4), make_row("elsewhere", 0.9, key="other")]
    ranking = rank(rows, MAP)
    assert [ranking.mark(n) for n in range(3)] == ["best", "second", ""]
    assert ranking.other_test == {2}


def test_where_less_is_better_the_lowest_is_best(make_row: Make) -> None:
    error = Measure("counting.temporal", "count_error", "", "", higher=False, percent=False)
    rows = [make_row(n, v, task="counting.temporal", figure="count_error") for n, v in (("a", 3.0), ("b", 1.0))]
    assert [rank(rows, error).mark(n) for n in range(2)] == ["second", "best"]


def test_one_method_alone_is_not_called_best(make_row: Make) -> None:
    assert rank([make_row("a", 0.5)], MAP).mark(0) == ""


def test_a_row_without_the_figure_is_passed_over(make_row: Make) -> None:
    undefined = make_row("nan", float("nan"))
    rows = [make_row("a", 0.5), undefined, make_row("b", 0.2), make_row("other", 0.9, task="reid", figure="auroc")]
    ranking = rank(rows, MAP)
    assert [ranking.mark(n) for n in range(4)] == ["best", "", "second", ""]


def test_seeds_of_a_method_become_one_row_and_groups_are_in_order(results: list[Path], rows: list[Results]) -> None:
    loaded = load_rows(results)
    assert [row.method.group for row in loaded] == ["Baseline", "Fully supervised", "Self-supervised"]
    assert loaded[-1].method.seeds == 2
    apart = [row.tasks["retrieval"].metrics["map"].value for row in rows[:2]]
    assert loaded[-1].tasks["retrieval"].metrics["map"].value == pytest.approx(sum(apart) / 2)


def test_no_results_is_an_error_that_says_what_to_give() -> None:
    with pytest.raises(UserError, match="polyptrace evaluate"):
        load_rows([])


def test_the_page_is_about_the_named_method_or_the_last_self_supervised_one(make_row: Make) -> None:
    rows = [make_row("a", 0.9, group="Baseline"), make_row("b", 0.2), make_row("c", 0.1)]
    assert focus_row(rows) == 2
    assert focus_row(rows, "a") == 0
    with pytest.raises(UserError, match="one of a, b, c"):
        focus_row(rows, "d")


def test_without_a_self_supervised_method_it_is_about_the_best_one(make_row: Make) -> None:
    rows = [make_row(n, v, group="Baseline") for n, v in (("a", 0.2), ("b", 0.9), ("c", float("nan")))]
    assert focus_row(rows) == 1
