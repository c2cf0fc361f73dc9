"""Every key is accounted for: what a file lacks, has too much of, or has in another shape."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from polyptrace.core.errors import UserError
from polyptrace.encoders.foundation import FOUNDATION_MODELS, load_foundation
from polyptrace.encoders.foundation.foundation_encoder import Architecture
from polyptrace.encoders.foundation.loading import fit


def own_weights(architecture: Architecture, name: str) -> dict[str, Tensor]:
    """The weights of a built backbone under its own names."""
    return dict(architecture.build(FOUNDATION_MODELS[name].preprocess.size).state_dict())


@pytest.mark.parametrize("name", list(FOUNDATION_MODELS))
def test_a_backbones_own_weights_come_back_unchanged(name: str, small: dict[str, Architecture]) -> None:
    state = own_weights(small[name], name)
    fitted, mismatch = fit(state, state, small[name])
    assert not mismatch
    assert fitted.keys() == state.keys()
    assert all(torch.equal(fitted[key], state[key]) for key in state)


@pytest.mark.parametrize("name", list(FOUNDATION_MODELS))
def test_a_weight_that_is_missing_is_an_error_that_names_it(
    name: str, small: dict[str, Architecture], tmp_path: Path
) -> None:
    state = own_weights(small[name], name)
    lost = [key for key in state if "mlp" in key or "output.dense" in key][-1]
    gone = small[name].parts(lost)
    del state[lost]
    save_file(state, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match=rf"not the weights of {name} \({len(gone)} missing: {re.escape(gone[0])}"):
        load_foundation(name, tmp_path)


@pytest.mark.parametrize("name", list(FOUNDATION_MODELS))
def test_an_unexpected_weight_is_an_error_that_names_it(
    name: str, small: dict[str, Architecture], tmp_path: Path
) -> None:
    save_file({**own_weights(small[name], name), "adapter.weight": torch.ones(3)}, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match=r"1 unexpected: adapter\.weight"):
        load_foundation(name, tmp_path)


def test_the_same_weight_in_two_layouts_is_an_error(small: dict[str, Architecture]) -> None:
    state = own_weights(small["endovit"], "endovit")
    twice = {**state, "norm.weight": torch.ones(24)}
    _, mismatch = fit(twice, state, small["endovit"])
    assert mismatch == "1 unexpected: norm.weight"


def test_shapes_that_differ_are_given_for_both_sides(small: dict[str, Architecture], tmp_path: Path) -> None:
    state = own_weights(small["dinov2-base"], "dinov2-base")
    save_file(state, tmp_path / "model.safetensors")
    with pytest.raises(
        UserError, match=r"of another shape: .* is \(1, 1, 36\), not \(1, 1, 24\).* it fits dinov2-base"
    ):
        load_foundation("dinov2-small", tmp_path)


def test_half_precision_files_give_float32_weights(
    small: dict[str, Architecture], tmp_path: Path, frames: Callable
) -> None:
    state = own_weights(small["endovit"], "endovit")
    save_file({key: tensor.bfloat16() for key, tensor in state.items()}, tmp_path / "model.safetensors")
    encoder = load_foundation("endovit", tmp_path)
    assert {parameter.dtype for parameter in encoder.parameters()} == {torch.float32}
    assert encoder(frames(1, 2, 32)).dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.complex64, torch.int32])
def test_weights_that_are_not_real_numbers_are_refused(
    dtype: torch.dtype, small: dict[str, Architecture], tmp_path: Path
) -> None:
    state = own_weights(small["surgenet"], "surgenet")
    last = list(state)[-1]
    torch.save({**state, last: torch.ones(state[last].shape, dtype=dtype)}, tmp_path / "w.pth")
    with pytest.raises(UserError, match=rf"1 not real numbers: {re.escape(last)} is {str(dtype)[6:]}"):
        load_foundation("surgenet", tmp_path / "w.pth")


def test_the_same_weight_behind_two_prefixes_is_an_error(small: dict[str, Architecture], tmp_path: Path) -> None:
    state = own_weights(small["surgenet"], "surgenet")
    first = next(iter(state))
    torch.save({**state, f"module.{first}": state[first]}, tmp_path / "twice.pth")
    with pytest.raises(UserError, match=rf"\(1 unexpected: module\.{re.escape(first)}\)"):
        load_foundation("surgenet", tmp_path / "twice.pth")
