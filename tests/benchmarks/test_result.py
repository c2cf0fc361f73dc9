"""Results of benchmarks: ratios, targets and tables."""

import json

import pytest

from benchmarks.result import Result, Row, number_text

FAST = Row("linking", "ms", 8.0, plain=400.0, limit=4.0, least_ratio=50, least_share=0.8)
RATE = Row("crops", "pictures/s", 90.0, plain=30.0, limit=100.0, more_is_better=True, least_ratio=2, least_share=0.8)


def test_the_ratio_of_times_is_plain_over_ours() -> None:
    assert (FAST.ratio, FAST.share) == (50.0, 0.5)


def test_the_ratio_of_rates_is_ours_over_plain() -> None:
    assert (RATE.ratio, RATE.share) == (3.0, 0.9)


def test_a_target_is_met_when_all_of_its_parts_are() -> None:
    assert RATE.met is True
    assert FAST.met is False
    assert Row("memory", "MiB", 10.0, most=10).met is True
    assert Row("memory", "MiB", 10.1, most=10).met is False
    assert Row("time", "s", 1.0, plain=2.0).met is None


def test_a_result_can_be_restored_from_json() -> None:
    result = Result("both", (FAST, RATE), "note", (("a", "b"), ("c", "1")))
    assert Result.from_json(json.loads(json.dumps(result.to_json()))) == result


def test_text_leaves_out_empty_columns() -> None:
    table, note = Result("one", (Row("time", "s", 1.5),), "a note").text().split("\n\n")
    assert [line.split() for line in table.splitlines()] == [["unit", "ours"], ["time", "s", "1.50"]]
    assert note == "a note"


def test_a_row_of_the_page_names_what_it_is_compared_with() -> None:
    row = Row("time", "s", 2.0, 4.0, 1.0, least_ratio=3, plain_name="a loop", limit_name="a copy")
    assert row.page_cells() == ("time", "2.00 s", "2.00× a loop; 50% of a copy", "≥ 3×", "**no**")


@pytest.mark.parametrize(
    ("value", "text"), [(None, ""), (0.01234, "0.0123"), (9.9999, "10.0"), (1234567.8, "1,234,568")]
)
def test_numbers_have_three_digits_or_no_fraction(value: float | None, text: str) -> None:
    assert number_text(value) == text
