"""The learning rate, against torch's own one-cycle schedule."""

import pytest
import torch
from torch.optim.lr_scheduler import OneCycleLR

from polyptrace.train.schedule import learning_rate


def test_one_cycle_is_torch_s_with_a_tenth_of_warm_up() -> None:
    steps = 1000
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.3)
    schedule = OneCycleLR(optimiser, 0.3, total_steps=steps, pct_start=0.1)
    for step in range(steps):
        expected = schedule.get_last_lr()[0]
        assert learning_rate(step / steps, 0.3, "one-cycle") == pytest.approx(expected, abs=0.3 * 0.02)
        optimiser.step()
        if step < steps - 1:
            schedule.step()
    assert learning_rate(0.1, 0.3, "one-cycle") == pytest.approx(0.3)
    assert learning_rate(0.0, 0.3, "one-cycle") == pytest.approx(0.012)
    assert learning_rate(1.0, 0.3, "one-cycle") == pytest.approx(0.3 / 250_000)


def test_constant_is_constant() -> None:
    assert {learning_rate(p / 10, 1e-5, "constant") for p in range(11)} == {1e-5}
