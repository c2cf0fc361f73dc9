"""python -m benchmarks evaluation."""

import pytest

from benchmarks import evaluation


def test_each_measurement_is_a_row_that_is_compared_with_the_plain_implementation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(evaluation, "MEASURED", {"reid": ((100,), ()), "reid, plain": ((100,), ())})
    result = evaluation.measure()
    (row,) = result.rows
    assert row.what == "reid, 100 tracklets"
    assert row.ours > 0
    assert row.plain is not None
    assert [line[:2] for line in result.details[1:]] == [("reid", "100"), ("reid, plain", "100")]
