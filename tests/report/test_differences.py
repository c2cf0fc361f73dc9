"""One method against each other."""

from collections.abc import Callable

import numpy as np
import pytest

from polyptrace.evaluate import Results
from polyptrace.report.differences import difference_table
from polyptrace.report.standing import MAIN

Make = Callable[..., Results]


def test_a_difference_is_the_shown_method_minus_the_other(make_row: Make) -> None:
    rows = [make_row("a", 0.50, seed=1), make_row("b", 0.90, seed=2), make_row("c", 0.95, seed=3)]
    table = difference_table(rows, MAIN[:1], shown=1)
    assert table is not None
    cells = {row.name: row.cells[0] for _, lines in table.groups for row in lines}
    assert {name: cell.text for name, cell in cells.items()} == {"a": "+40.00", "c": "−5.00"}
    assert "b minus each other" in table.title


def test_its_interval_is_of_the_draws_difference_not_of_two_intervals(make_row: Make) -> None:
    shared = make_row("a", 0.5, spread=0.1, seed=1)
    shifted = make_row("b", 0.6, spread=0.1, seed=1)  # the same draws, 0.1 higher each time
    noise = np.random.default_rng(5).normal(scale=0.001, size=200)
    shifted.arrays["retrieval/draws/map"] = shared.arrays["retrieval/draws/map"] + 0.1 + noise
    table = difference_table([shared, shifted], MAIN[:1], shown=1)
    assert table is not None
    cell = table.groups[0][1][0].cells[0]
    low, high = (float(end) for end in cell.interval.split("–"))
    assert (low, high) == (pytest.approx(10, abs=0.5), pytest.approx(10, abs=0.5))
    assert cell.mark == "best"  # significant, though each figure alone varies by 20 points


def test_methods_on_other_tracklets_are_not_compared(make_row: Make) -> None:
    assert difference_table([make_row("a", 0.5), make_row("b", 0.6, key="other")], MAIN[:1], shown=0) is None
