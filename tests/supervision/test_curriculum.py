import math

import numpy as np
import pytest

from polyptrace.config import Supervision
from polyptrace.supervision.curriculum import anchor_temperatures, epoch_progress, step_progress, temperature


def test_the_temperature_rises_from_low_to_high_by_half_a_cosine() -> None:
    assert temperature(0.0) == 0.3
    assert temperature(1.0) == 12.0
    assert temperature(0.5) == pytest.approx(6.15)
    assert temperature(0.25, 1.0, 3.0) == pytest.approx(1 + (1 - math.sqrt(0.5)))
    rising = [temperature(c / 20) for c in range(21)]
    assert rising == sorted(rising)


@pytest.mark.parametrize("c", [-0.01, 1.01, math.nan])
def test_progress_outside_zero_and_one_is_refused(c: float) -> None:
    with pytest.raises(ValueError, match="progress"):
        temperature(c)


def test_progress_reaches_one_in_the_paper_and_not_in_the_release() -> None:
    assert [epoch_progress(e, 5) for e in range(5)] == [0, 0.25, 0.5, 0.75, 1]
    assert [epoch_progress(e, 5, "release") for e in range(5)] == [0, 0.2, 0.4, 0.6, 0.8]


def test_a_single_epoch_is_a_beginning() -> None:
    assert epoch_progress(0, 1) == epoch_progress(0, 1, "release") == 0


def test_an_epoch_that_is_not_one_of_them_is_refused() -> None:
    with pytest.raises(ValueError, match="epoch 5"):
        epoch_progress(5, 5)


def test_progress_by_step_reaches_one_in_the_last_step_of_the_run() -> None:
    assert step_progress(range(3), 9) == [0, 0.125, 0.25]
    assert step_progress(range(6, 9), 9) == [0.75, 0.875, 1]
    assert step_progress(range(1), 1) == [0]
    assert step_progress(range(7, 11), 9) == [0.875, 1, 1, 1]  # the last epoch may be longer than the run


def test_anchors_have_the_temperature_of_their_batch_up_to_their_own_highest() -> None:
    batch, high = np.array([0, 0, 1, 2]), np.array([4.0, 2.0, 4.0, 2.0])
    cosine, fixed = Supervision(), Supervision(curriculum="fixed")
    assert anchor_temperatures([0.0, 0.5, 1.0], batch, high, cosine) == pytest.approx([0.3, 0.3, 2.15, 2.0])
    assert anchor_temperatures([0.0, 0.5, 1.0], batch, high, fixed).tolist() == high.tolist()
    each = [anchor_temperatures([c], np.zeros(1, int), 12.0, cosine) for c in np.linspace(0, 1, 11)]
    assert each == [temperature(c) for c in np.linspace(0, 1, 11)]
