"""Counts in words."""

import pytest
import torch

from polyptrace.core.console import counted
from polyptrace.core.device import choose_device
from polyptrace.core.errors import UserError
from polyptrace.report.clock import Clock
from polyptrace.supervision import check_batch


def test_one_is_singular_and_all_other_numbers_are_plural() -> None:
    assert [counted(n, "polyp") for n in (0, 1, 2)] == ["0 polyps", "1 polyp", "2 polyps"]
    assert [counted(n, "query", "queries") for n in (1, 1200)] == ["1 query", "1,200 queries"]


def test_what_is_printed_says_one_of_a_thing_in_the_singular(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert choose_device("cpu", "--train.device")[1] == "device: CPU with 1 thread (requested)"
    assert Clock(float("nan")).apart(-1) == "−1 frame"
    with pytest.raises(UserError, match=r"1 tracklet can be anchors, but a batch has 2 bags -> use at most 1 bag,"):
        check_batch(1, 4, 2)
