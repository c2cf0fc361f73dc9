"""What a benchmark found, and its forms."""

import json

import pytest

from benchmarks.result import Result, Row, number

FAST = Row("linking", "ms", 8.0, plain=400.0, limit=4.0, least_ratio=50, least_share=0.8)
RATE = Row("crops", "pictures/s", 90.0, plain=30.0, limit=100.0, more_is_better=True, least_ratio=2, least_share=0.8)


def test_a_time_is_as_many_times_as_good_as_it_is_shorter() -> None:
    assert (FAST.ratio, FAST.share) == (50.0, 0.5)


def test_a_rate_is_as_many_times_as_good_as_it_is_larger() -> None:
    assert (RATE.ratio, RATE.share) == (3.0, 0.9)


def test_a_target_is_met_when_all_of_its_parts_are() -> None:
    assert RATE.met is True
    assert FAST.met is False
    assert Row("memory", "MiB", 10.0, most=10).met is True
    assert Row("memory", "MiB", 10.1, most=10).met is False
    assert Row("time", "s", 1.0, plain=2.0).met is None


def test_a_result_survives_the_way_through_json() -> None:
    result = Result("both", (FAST, RATE), "note", (("a", "b"), ("c", "1")))
    assert Result.from_json(json.loads(json.dumps(result.to_json()))) == result


def test_markdown_leaves_out_columns_without_a_figure() -> None:
    table, note = Result("one", (Row("time", "s", 1.5),), "a note").markdown().split("\n\n")
    assert table.splitlines() == ["|  | unit | ours |", "| --- | --- | ---: |", "| time | s | 1.50 |"]
    assert note == "a note"


@pytest.mark.parametrize(
    ("value", "text"), [(None, ""), (0.01234, "0.0123"), (9.9999, "10.0"), (1234567.8, "1,234,568")]
)
def test_numbers_have_three_figures_or_all_before_the_point(value: float | None, text: str) -> None:
    assert number(value) == text
