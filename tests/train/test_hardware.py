"""What a run computes on: chosen, and said."""

import pytest
import torch

from polyptrace.config import Train
from polyptrace.core.errors import UserError
from polyptrace.train.hardware import SHARED_BY, choose_hardware, processes


def test_a_cpu_gets_float32_without_compilation_and_the_log_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    chosen = choose_hardware(Train())
    assert (chosen.accelerator, chosen.precision, chosen.compiled) == ("cpu", "float32", False)
    text = "\n".join(chosen.reasons)
    for printed in ("torch finds no GPU", "float32 (auto, on a CPU)", "torch.compile: off", "processes: 1"):
        assert printed in text


def test_a_run_receives_the_number_of_runs_that_share_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SHARED_BY, raising=False)
    assert choose_hardware(Train()).shared_by == 1
    monkeypatch.setenv(SHARED_BY, "3")
    assert choose_hardware(Train()).shared_by == 3
    for wrong in ("0", "-1", "two"):
        monkeypatch.setenv(SHARED_BY, wrong)
        with pytest.raises(UserError, match=f"{SHARED_BY}={wrong}: not a number of runs"):
            choose_hardware(Train())


def test_a_missing_gpu_is_an_error_not_a_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="torch finds no GPU"):
        choose_hardware(Train(device="cuda"))


def test_torchrun_and_slurm_say_how_many_processes_there_are() -> None:
    assert processes(1, {"LOCAL_WORLD_SIZE": "4", "WORLD_SIZE": "8"})[:2] == (4, 2)
    assert processes(1, {"SLURM_NTASKS": "6", "SLURM_NNODES": "3", "SLURM_PROCID": "0"})[:2] == (2, 3)
    assert processes(1, {"SLURM_NTASKS": "1", "SLURM_PROCID": "0"})[:2] == (1, 1)
    assert processes(2, {})[:2] == (2, 1)
