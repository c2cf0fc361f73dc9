"""Checkpoints: one safetensors file each, written atomically; the last two are kept.

The tensors are the weights and buffers of the encoder (`model.NAME`) and the state of the optimiser
(`optimiser.INDEX.KEY`); the header has the training state as JSON. Random generators need no state, because every step
seeds its own.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_file

KEPT = 2


@dataclass(frozen=True)
class TrainingState:
    """How far a run is. The next batch is number `index` of `epoch`."""

    step: int = 0  # steps done
    epoch: int = 0
    index: int = 0  # steps done in this epoch
    frames: int = 0  # frames seen


def save_checkpoint(folder: Path, state: TrainingState, encoder: nn.Module, optimiser: Optimizer) -> Path:
    """Writes a checkpoint and removes all but the last two; weights that are not finite are refused."""
    tensors = {f"model.{name}": tensor for name, tensor in encoder.state_dict().items()}
    for index, values in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{index}.{key}": value for key, value in values.items()}
    on_host = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    broken = [n for n, t in on_host.items() if t.is_floating_point() and not bool(t.isfinite().all())]
    if broken:
        raise UserError(
            f"step {state.step}: {len(broken)} tensors are not finite ({broken[0]} is the first), so no checkpoint is"
            f" written -> try a lower --optimiser.lr; the last good checkpoint is {last_checkpoint(folder) or 'none'}"
        )
    path = folder / f"step-{state.step:08d}.safetensors"
    try:
        with atomic_file(path) as temporary:
            save_file(on_host, temporary, {"state": json.dumps(asdict(state))})
    except (OSError, SafetensorError) as error:
        previous = last_checkpoint(folder)
        raise UserError(
            f"{path}: the checkpoint cannot be written ({error}) -> free disk space and run the same command again; it"
            f" resumes from {previous.name if previous else 'the beginning'}"
        ) from None
    for old in sorted(folder.glob("step-*.safetensors"))[:-KEPT]:
        old.unlink()
    return path


def last_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint, if there is one."""
    return max(folder.glob("step-*.safetensors"), default=None)


def load_checkpoint(path: Path, encoder: nn.Module, optimiser: Optimizer) -> TrainingState:
    """Restores weights, buffers and the state of the optimiser; returns how far the run was."""
    model: dict[str, Tensor] = {}
    states: dict[int, dict[str, Tensor]] = {}
    try:
        with safe_open(path, "pt") as file:
            state = _state(file.metadata())
            names = file.keys()
            for name in names:
                kind, _, rest = name.partition(".")
                if kind == "model":
                    model[rest] = file.get_tensor(name)
                else:
                    index, _, key = rest.partition(".")
                    states.setdefault(int(index), {})[key] = file.get_tensor(name)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise _invalid(path, error) from None
    encoder.load_state_dict(model)
    optimiser.load_state_dict({"state": states, "param_groups": optimiser.state_dict()["param_groups"]})
    _match_memory_format(optimiser)
    return state


def read_state(path: Path) -> TrainingState:
    """How far the run of a checkpoint was."""
    try:
        with safe_open(path, "pt") as file:
            return _state(file.metadata())
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise _invalid(path, error) from None


def _state(metadata: dict[str, str]) -> TrainingState:
    return TrainingState(**json.loads(metadata["state"]))


def _invalid(path: Path, error: Exception) -> UserError:
    return UserError(f"{path}: not a complete checkpoint ({error}) -> remove it, and the previous one is used")


def _match_memory_format(optimiser: Optimizer) -> None:
    """Gives the moments the memory format of their weight (such as channels last), which fused optimisers require."""
    for weight, values in optimiser.state.items():
        for key, value in values.items():
            if key != "step":
                values[key] = torch.empty_like(weight, dtype=value.dtype).copy_(value)
