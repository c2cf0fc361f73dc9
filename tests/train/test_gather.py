"""Several processes compute what one computes: the same loss, the same gradients."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from polyptrace.train.loop import gather


@pytest.fixture(scope="module")
def actual(
    make_dataset: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[int, dict[str, dict[str, Tensor]]]:
    out = tmp_path_factory.mktemp("processes")
    data = make_dataset(out / "data", [[4, 4], [3]], frames=8)  # the second video is smaller than a bag
    script = Path(__file__).parent / "several_processes.py"
    subprocess.run([sys.executable, script, data, out], check=True, timeout=300)
    return {n: torch.load(out / f"{n}.pt", weights_only=True) for n in (1, 2, 4)}


@pytest.mark.parametrize("processes", [2, 4])
def test_loss_and_every_gradient_of_many_processes_are_those_of_one(
    actual: dict[int, dict[str, dict[str, Tensor]]], processes: int
) -> None:
    assert len(actual[1]) == 7
    for case, alone in actual[1].items():
        assert len(alone) > 20
        for name, expected in alone.items():
            assert expected.dtype == torch.float64
            assert torch.isfinite(expected).all()
            difference = float((actual[processes][case][name] - expected).abs().max())
            assert difference < 1e-10, f"{case}, {name}"


def test_gradients_are_not_all_zero(actual: dict[int, dict[str, dict[str, Tensor]]]) -> None:
    for case, alone in actual[1].items():
        largest = max(value.abs().max() for name, value in alone.items() if name != "loss")
        assert largest > 1e-6, case


def test_one_process_gathers_nothing() -> None:
    part = torch.randn(3, requires_grad=True)
    assert gather(part) is part
