import math

import pytest
import torch

from polyptrace.config import Supervision
from polyptrace.supervision.curriculum import epoch_progress, epoch_temperature, temperature


def test_the_temperature_rises_from_low_to_high_by_half_a_cosine() -> None:
    assert temperature(0.0) == 0.3
    assert temperature(1.0) == 12.0
    assert temperature(0.5) == pytest.approx(6.15)
    assert temperature(0.25, 1.0, 3.0) == pytest.approx(1 + (1 - math.sqrt(0.5)))
    rising = [temperature(c / 20) for c in range(21)]
    assert rising == sorted(rising)


def test_each_tracklet_can_rise_to_its_own_temperature() -> None:
    high = torch.tensor([12.0, 2.0, 0.3])
    torch.testing.assert_close(temperature(1.0, 0.3, high), high)
    torch.testing.assert_close(temperature(0.0, 0.3, high), torch.full((3,), 0.3))


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


def test_a_fixed_temperature_is_the_high_one_in_every_epoch() -> None:
    assert [epoch_temperature(e, 3, Supervision(curriculum="fixed"), 4.0) for e in range(3)] == [4.0, 4.0, 4.0]
    assert [epoch_temperature(e, 3, Supervision(), 4.0) for e in range(3)] == pytest.approx([0.3, 2.15, 4.0])
    assert epoch_temperature(1, 2, Supervision(progress="release"), 4.0) == pytest.approx(2.15)
