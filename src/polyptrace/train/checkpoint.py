"""Checkpoints: one safetensors file each, written whole or not at all; the last two are kept.

Tensors are the encoder's weights and buffers (`model.NAME`) and the optimiser's state (`optimiser.INDEX.KEY`); the
header holds the step, the epoch and the place in it as JSON. Random numbers need no place here: every step seeds its
own.
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
class Progress:
    """How far a run is: what comes next is batch `index` of `epoch`."""

    step: int = 0  # steps done
    epoch: int = 0
    index: int = 0  # steps done in this epoch
    frames: int = 0  # frames seen


def save_checkpoint(folder: Path, progress: Progress, encoder: nn.Module, optimiser: Optimizer) -> Path:
    """Writes a checkpoint, then removes all but the last two; weights that are not finite are refused."""
    tensors = {f"model.{name}": tensor for name, tensor in encoder.state_dict().items()}
    for index, state in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{index}.{key}": value for key, value in state.items()}
    on_host = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    broken = [n for n, t in on_host.items() if t.is_floating_point() and not bool(t.isfinite().all())]
    if broken:
        raise UserError(
            f"step {progress.step}: weights that are not finite: {len(broken)}, {broken[0]} first -> not saved; the"
            f" last good checkpoint is {latest_checkpoint(folder) or 'none yet'}; try a lower --optimiser.lr"
        )
    path = folder / f"step-{progress.step:08d}.safetensors"
    with atomic_file(path) as temporary:
        save_file(on_host, temporary, {"progress": json.dumps(asdict(progress))})
    for old in sorted(folder.glob("step-*.safetensors"))[:-KEPT]:
        old.unlink()
    return path


def latest_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint, if there is one."""
    return max(folder.glob("step-*.safetensors"), default=None)


def load_checkpoint(path: Path, encoder: nn.Module, optimiser: Optimizer) -> Progress:
    """Puts weights, buffers and the optimiser's state back as they were; returns how far the run was."""
    model: dict[str, Tensor] = {}
    states: dict[int, dict[str, Tensor]] = {}
    try:
        with safe_open(path, "pt") as file:
            progress = Progress(**json.loads(file.metadata()["progress"]))
            names = file.keys()
            for name in names:
                kind, _, rest = name.partition(".")
                if kind == "model":
                    model[rest] = file.get_tensor(name)
                else:
                    index, _, key = rest.partition(".")
                    states.setdefault(int(index), {})[key] = file.get_tensor(name)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: not a whole checkpoint ({error}) -> remove it; the one before it is used") from None
    encoder.load_state_dict(model)
    optimiser.load_state_dict({"state": states, "param_groups": optimiser.state_dict()["param_groups"]})
    _lay_out_as_weights(optimiser)
    return progress


def _lay_out_as_weights(optimiser: Optimizer) -> None:
    """Gives each weight's moments its own order in memory (channels last, maybe): fused optimisers refuse another."""
    for weight, state in optimiser.state.items():
        for key, value in state.items():
            if key != "step":
                state[key] = torch.empty_like(weight, dtype=value.dtype).copy_(value)
