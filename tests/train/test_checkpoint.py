"""Checkpoints: complete, two of them, refused when broken."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.optim import AdamW

from polyptrace.core.errors import UserError
from polyptrace.train.run_folder import TrainingState, last_checkpoint, load_checkpoint, save_checkpoint


def network() -> tuple[nn.Module, AdamW]:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).to(memory_format=torch.channels_last)
    return model, AdamW(model.parameters(), lr=0.1)


def stepped(model: nn.Module, optimiser: AdamW) -> None:
    model(torch.randn(5, 3, 8, 8)).square().sum().backward()
    optimiser.step()
    optimiser.zero_grad()


def test_the_next_step_is_the_same_after_loading(tmp_path: Path) -> None:
    model, optimiser = network()
    stepped(model, optimiser)
    path = save_checkpoint(tmp_path, TrainingState(7, 1, 3, 99), model, optimiser)
    again, other = network()
    assert load_checkpoint(path, again, other) == TrainingState(7, 1, 3, 99)
    for m, o in ((model, optimiser), (again, other)):
        torch.manual_seed(3)
        stepped(m, o)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name


def test_moments_come_back_in_the_order_in_memory_that_their_weights_have(tmp_path: Path) -> None:
    model, optimiser = network()
    stepped(model, optimiser)
    again, other = network()
    load_checkpoint(save_checkpoint(tmp_path, TrainingState(1), model, optimiser), again, other)
    for weight in again.parameters():  # the fused optimisers of a GPU refuse any other
        assert {other.state[weight][key].stride() for key in ("exp_avg", "exp_avg_sq")} == {weight.stride()}
    assert not next(again.parameters()).is_contiguous()


def test_two_are_kept_and_the_newest_is_found(tmp_path: Path) -> None:
    model, optimiser = network()
    for step in (9, 10, 100):
        save_checkpoint(tmp_path, TrainingState(step), model, optimiser)
    checkpoints = sorted((tmp_path / "checkpoints").iterdir())
    assert [path.name for path in checkpoints] == ["step-00000010.safetensors", "step-00000100.safetensors"]
    assert last_checkpoint(tmp_path) == checkpoints[-1]
    assert last_checkpoint(tmp_path / "nothing") is None


def test_a_checkpoint_that_was_cut_off_is_named(tmp_path: Path) -> None:
    model, optimiser = network()
    path = save_checkpoint(tmp_path, TrainingState(1), model, optimiser)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(UserError, match="not a complete checkpoint"):
        load_checkpoint(path, model, optimiser)


def test_a_file_that_only_looks_like_a_checkpoint_is_named(tmp_path: Path) -> None:
    model, optimiser = network()
    path = tmp_path / "step-00000001.safetensors"
    save_file({"weight": torch.zeros(2)}, path)  # as others write weights: it does not say how far the run was
    with pytest.raises(UserError, match="not a complete checkpoint"):
        load_checkpoint(path, model, optimiser)


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ({"step": "7"}, "step: '7' is not a whole number"),
        ({"step": 7, "epoch": -1}, "content: epoch: -1 is negative"),
        ({"step": 7, "lr": 0.1}, "lr: is not a known field"),
        ([7], r"content: \[7\] is not an object"),
    ],
)
def test_a_damaged_state_is_refused_with_its_field(tmp_path: Path, state: object, problem: str) -> None:
    path = tmp_path / "step-00000007.safetensors"
    save_file({"model.weight": torch.zeros(2)}, path, {"state": json.dumps(state)})
    with pytest.raises(UserError, match=rf"step-00000007\.safetensors: {problem} -> remove it"):
        load_checkpoint(path, *network())


@pytest.mark.parametrize("name", ["model.0.bias", "optimiser.0.exp_avg"])
def test_tensors_that_do_not_fit_the_network_are_refused(tmp_path: Path, name: str) -> None:
    model, optimiser = network()
    stepped(model, optimiser)
    path = save_checkpoint(tmp_path, TrainingState(1), model, optimiser)
    save_file({**load_file(path), name: torch.zeros(3)}, path, {"state": '{"step": 1}'})
    with pytest.raises(UserError, match="not a complete checkpoint"):
        load_checkpoint(path, *network())


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    model, optimiser = network()
    with torch.no_grad():
        model[1].weight[0] = torch.inf
    with pytest.raises(UserError, match=r"model\.1\.weight"):
        save_checkpoint(tmp_path, TrainingState(1), model, optimiser)
    assert not list(tmp_path.iterdir())
