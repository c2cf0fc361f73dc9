"""The learning rate: torch's schedules, and the same rates after resumption."""

import pytest
import torch
from torch.optim import SGD
from torch.optim.lr_scheduler import OneCycleLR

from polyptrace.config import Config, Optimiser
from polyptrace.train.loop import learning_rate_schedule

ONE_CYCLE = Config(optimiser=Optimiser(lr=0.3, schedule="one-cycle"))


def optimiser() -> SGD:
    return SGD([torch.zeros(1, requires_grad=True)], lr=0.3)


def rates(config: Config, steps: int, start: int = 0) -> list[float]:
    """The learning rate of each step from `start`."""
    sgd = optimiser()
    schedule = learning_rate_schedule(sgd, config, steps, start)
    actual = []
    for _ in range(start, steps):
        actual.append(sgd.param_groups[0]["lr"])
        sgd.step()
        schedule.step()
    return actual


def test_one_cycle_is_torch_s_with_a_tenth_of_warm_up() -> None:
    sgd = optimiser()
    schedule = OneCycleLR(sgd, 0.3, total_steps=100, pct_start=0.1, cycle_momentum=False)
    expected = []
    for _ in range(100):
        expected.append(schedule.get_last_lr()[0])
        sgd.step()
        schedule.step()
    actual = rates(ONE_CYCLE, 100)
    assert actual == expected
    assert max(actual) == pytest.approx(0.3)
    assert actual.index(max(actual)) == 9
    assert actual[-1] < 1e-5


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("steps", [1, 2, 10, 11, 40])
def test_a_resumed_run_has_the_rates_of_an_uninterrupted_one(steps: int) -> None:
    for config in (ONE_CYCLE, Config(optimiser=Optimiser(lr=0.3))):
        whole = rates(config, steps)
        assert len(whole) == steps
        for start in {1, steps // 2, steps - 1, steps}:
            assert rates(config, steps, start) == whole[start:]


def test_constant_is_constant() -> None:
    assert set(rates(Config(optimiser=Optimiser(lr=0.3)), 20)) == {0.3}
