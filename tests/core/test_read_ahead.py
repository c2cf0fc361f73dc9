"""Results that threads compute before they are needed."""

from collections.abc import Iterator
from threading import Event

import pytest

from polyptrace.core.read_ahead import map_ahead


def test_results_come_in_the_order_of_the_items() -> None:
    second_is_done = Event()

    def slow_first(item: int) -> int:
        if item:
            second_is_done.set()
        else:
            assert second_is_done.wait(10)
        return item * item

    assert list(map_ahead(slow_first, range(6), threads=2, ahead=2)) == [0, 1, 4, 9, 16, 25]


def test_only_some_items_are_taken_before_they_are_needed() -> None:
    taken = []

    def items() -> Iterator[int]:
        for item in range(50):
            taken.append(item)
            yield item

    results = map_ahead(str, items(), threads=2, ahead=3)
    assert next(results) == "0"
    assert len(taken) == 4
    results.close()
    assert len(taken) == 4


def test_an_error_of_the_function_is_raised_at_its_item() -> None:
    results = map_ahead((1).__truediv__, [1, 0, 1], threads=1, ahead=5)
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError):
        next(results)
