"""Best, shared best and second best."""

from collections.abc import Callable

from polyptrace.evaluate import Results, compare, holm
from polyptrace.report.standing import MAIN, Measure, standings

MAP = MAIN[0]
Make = Callable[..., Results]


def test_the_highest_figure_is_best_and_the_next_that_differs_is_second(make_row: Make) -> None:
    rows = [make_row("a", 0.5, seed=1), make_row("b", 0.9, seed=2), make_row("c", 0.7, seed=3)]
    (standing,) = standings(rows, [MAP])
    assert [standing.mark(n) for n in range(3)] == ["", "best", "second"]
    assert set(standing.p) == {0, 2}


def test_a_method_that_cannot_be_told_apart_shares_the_first_place(make_row: Make) -> None:
    rows = [make_row("a", 0.70, seed=1, spread=0.05), make_row("b", 0.71, seed=2, spread=0.05), make_row("c", 0.2)]
    (standing,) = standings(rows, [MAP])
    assert [standing.mark(n) for n in range(3)] == ["best", "best", "second"]


def test_p_is_adjusted_within_the_column_not_over_the_table(make_row: Make) -> None:
    rows = [make_row("a", 0.60, seed=1, spread=0.02), make_row("b", 0.54, seed=2, spread=0.02)]
    for row in rows:  # six columns more, all with the same figures
        for number in range(6):
            row.tasks[f"t{number}"] = row.tasks["retrieval"]
            row.arrays[f"t{number}/draws/map"] = row.arrays["retrieval/draws/map"]
    many = [MAP, *(Measure(f"t{n}", "map", "", "") for n in range(6))]
    raw = compare(rows[0], rows[1], "retrieval", "map").p
    assert [s.p[1] for s in standings(rows, many)] == [raw] * 7
    rows.append(make_row("c", 0.53, seed=3, spread=0.02))
    raws = [compare(rows[0], rows[n], "retrieval", "map").p for n in (1, 2)]
    (standing,) = standings(rows, [MAP])
    assert [standing.p[n] for n in (1, 2)] == holm(raws) != raws


def test_a_method_that_saw_the_test_data_is_never_best_in_that_task(make_row: Make) -> None:
    rows = [make_row("a", 0.5), make_row("saw", 0.9, saw=("retrieval",)), make_row("c", 0.4)]
    (standing,) = standings(rows, [MAP])
    assert standing.mark(1) == ""
    assert standing.saw_test == {1}
    assert standing.mark(0) == "best"


def test_seeing_the_test_data_of_another_task_costs_nothing(make_row: Make) -> None:
    rows = [make_row("a", 0.5), make_row("b", 0.9, saw=("size",))]
    assert standings(rows, [MAP])[0].mark(1) == "best"


def test_a_method_measured_on_other_tracklets_does_not_compete(make_row: Make) -> None:
    rows = [make_row("a", 0.5), make_row("b", 0.4), make_row("elsewhere", 0.9, key="other")]
    (standing,) = standings(rows, [MAP])
    assert [standing.mark(n) for n in range(3)] == ["best", "second", ""]
    assert standing.other_test == {2}


def test_where_less_is_better_the_lowest_is_best(make_row: Make) -> None:
    error = Measure("counting.temporal", "count_error", "", "", higher=False, percent=False)
    rows = [make_row(n, v, task="counting.temporal", figure="count_error") for n, v in (("a", 3.0), ("b", 1.0))]
    assert [standings(rows, [error])[0].mark(n) for n in range(2)] == ["second", "best"]


def test_one_method_alone_is_not_called_best(make_row: Make) -> None:
    assert standings([make_row("a", 0.5)], [MAP])[0].mark(0) == ""


def test_a_row_without_the_figure_is_passed_over(make_row: Make) -> None:
    undefined = make_row("nan", float("nan"))
    rows = [make_row("a", 0.5), undefined, make_row("b", 0.2), make_row("other", 0.9, task="reid", figure="auroc")]
    (standing,) = standings(rows, [MAP])
    assert [standing.mark(n) for n in range(4)] == ["best", "", "second", ""]
