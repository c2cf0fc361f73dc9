"""Chooses device, precision, compilation and number of processes, and says why: never a silent fall-back."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

import torch

from polyptrace.config import Train
from polyptrace.core.console import counted
from polyptrace.core.errors import UserError

if TYPE_CHECKING:  # it takes seconds to load, and most commands do not need it
    from lightning.fabric import Fabric

#: In the environment: how many runs share a GPU, where it is more than one.
SHARED_BY = "POLYPTRACE_GPU_SHARED_BY"


@dataclass(frozen=True)
class Hardware:
    """What a run computes on and with."""

    accelerator: str  # cpu or cuda
    precision: Literal["bf16-mixed", "32-true"]
    compiled: bool
    devices: int  # processes on this machine
    nodes: int
    shared_by: int  # runs that share the GPU
    reasons: list[str] = field(default_factory=list)  # one line per choice, for the log


def choose_hardware(settings: Train) -> Hardware:
    """The hardware that the settings ask for, or the best there is where they say `auto`."""
    accelerator, why_device = choose_device(settings.device)
    on_gpu = accelerator == "cuda"
    precision, why_precision = choose_precision(settings.precision, on_gpu)
    compiled, why_compiled = _compiled(settings.compile, on_gpu)
    devices, nodes, why_processes = processes(settings.devices, os.environ)
    return Hardware(
        accelerator,
        "bf16-mixed" if precision == "bf16" else "32-true",
        compiled,
        devices,
        nodes,
        gpu_shared_by(os.environ),
        [why_device, why_precision, why_compiled, why_processes, *_batch_norm(devices * nodes, on_gpu)],
    )


def start_fabric(hardware: Hardware) -> "Fabric":
    """The process group, ready to compute; BatchNorm is synchronised where there are several GPUs."""
    from lightning.fabric import Fabric

    fabric = Fabric(
        accelerator=hardware.accelerator,
        devices=hardware.devices,
        num_nodes=hardware.nodes,
        strategy="ddp" if hardware.devices * hardware.nodes > 1 else "auto",
        precision=hardware.precision,
    )
    fabric.launch()
    return fabric


def choose_device(wanted: str) -> tuple[str, str]:
    """The device, and a line that says why."""
    if torch.cuda.is_available() and wanted != "cpu":
        return "cuda", f"device: {torch.cuda.get_device_name()} ({wanted})"
    if wanted == "cuda":
        raise UserError("--train.device cuda: torch sees no GPU -> check the driver, or use --train.device cpu")
    reason = "as asked" if wanted == "cpu" else "torch sees no GPU"
    return "cpu", f"device: CPU with {counted(torch.get_num_threads(), 'thread')} ({reason})"


def choose_precision(wanted: str, on_gpu: bool) -> tuple[str, str]:
    """bf16 or float32, and a line that says why."""
    if wanted != "auto":
        return wanted, f"precision: {wanted} (as asked)"
    if on_gpu and torch.cuda.is_bf16_supported(including_emulation=False):
        return "bf16", "precision: bf16 autocast, weights and loss in float32 (auto, on a GPU)"
    return "float32", f"precision: float32 (auto, {'this GPU has no bf16' if on_gpu else 'on a CPU'})"


def _compiled(wanted: str, on_gpu: bool) -> tuple[bool, str]:
    if wanted != "auto":
        return wanted == "on", f"torch.compile: {wanted} (as asked)"
    if not on_gpu:
        return False, "torch.compile: off (auto, on a CPU it takes longer to start than it saves)"
    if find_spec("triton") is None:
        return False, "torch.compile: off (auto, triton is not installed)"
    return True, "torch.compile: on (auto, on a GPU)"


def _batch_norm(count: int, on_gpu: bool) -> list[str]:
    if count == 1:
        return []
    return [f"BatchNorm: {'synchronised' if on_gpu else 'statistics of each process alone (only GPUs can share them)'}"]


def processes(wanted: int, environment: Mapping[str, str]) -> tuple[int, int, str]:
    """Processes on a machine, machines, and why: torchrun and Slurm say it in the environment."""
    if "LOCAL_WORLD_SIZE" in environment:
        here, all_of_them = int(environment["LOCAL_WORLD_SIZE"]), int(environment["WORLD_SIZE"])
        return here, all_of_them // here, f"processes: {all_of_them} (torchrun)"
    if int(environment.get("SLURM_NTASKS", 1)) > 1 and "SLURM_PROCID" in environment:
        nodes = int(environment.get("SLURM_NNODES", 1))
        tasks = int(environment["SLURM_NTASKS"])
        return tasks // nodes, nodes, f"processes: {tasks} on {counted(nodes, 'machine')} (Slurm)"
    return wanted, 1, f"processes: {wanted} (train.devices)"


def gpu_shared_by(environment: Mapping[str, str]) -> int:
    """How many runs share the GPU: `compare --at-once` says it to the rows that it starts."""
    told = environment.get(SHARED_BY, "1")
    if not (told.isdecimal() and int(told)):
        raise UserError(f"{SHARED_BY}={told}: is no number of runs -> 1 or more, or unset it")
    return int(told)
