"""Chooses device, precision, compilation and number of processes. The log gives the reason for every choice."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from polyptrace.config import Train
from polyptrace.core.console import counted
from polyptrace.core.device import Precision, choose_device, choose_precision
from polyptrace.core.errors import UserError

if TYPE_CHECKING:  # Lightning takes seconds to import, and most commands do not need it
    from lightning.fabric import Fabric

#: Environment variable: the number of runs that share a GPU, if it is more than one.
SHARED_BY = "POLYPTRACE_GPU_SHARED_BY"


@dataclass(frozen=True)
class Hardware:
    """What a run computes on and with."""

    accelerator: str  # cpu or cuda
    precision: Precision
    compiled: bool
    devices: int  # processes on this machine
    nodes: int
    shared_by: int  # runs that share the GPU
    reasons: Sequence[str] = ()  # one line per choice, for the log


def choose_hardware(settings: Train) -> Hardware:
    """The hardware that the settings request, or the best available for `auto`."""
    device, device_reason = choose_device(settings.device, "--train.device")
    precision, precision_reason = choose_precision(settings.precision, device)
    on_gpu = device.type == "cuda"
    compiled, compile_reason = _choose_compile(settings.compile, on_gpu)
    devices, nodes, _, process_reason = processes(settings.devices, os.environ)
    reasons = [device_reason, precision_reason, compile_reason, process_reason]
    if devices * nodes > 1:
        reasons.append(f"BatchNorm: {'synchronised' if on_gpu else 'not synchronised (only possible on GPUs)'}")
    return Hardware(device.type, precision, compiled, devices, nodes, gpu_shared_by(os.environ), reasons)


def start_fabric(hardware: Hardware) -> "Fabric":
    """The group of processes, ready to compute."""
    from lightning.fabric import Fabric

    fabric = Fabric(
        accelerator=hardware.accelerator,
        devices=hardware.devices,
        num_nodes=hardware.nodes,
        strategy="ddp" if hardware.devices * hardware.nodes > 1 else "auto",
        precision="bf16-mixed" if hardware.precision == "bf16" else "32-true",
    )
    fabric.launch()
    return fabric


def _choose_compile(wanted: str, on_gpu: bool) -> tuple[bool, str]:
    if wanted != "auto":
        return wanted == "on", f"torch.compile: {wanted} (requested)"
    if not on_gpu:
        return False, "torch.compile: off (auto, on a CPU compilation takes longer than it saves)"
    if find_spec("triton") is None:
        return False, "torch.compile: off (auto, triton is not installed)"
    return True, "torch.compile: on (auto, on a GPU)"


class Processes(NamedTuple):
    """The processes of a run."""

    per_machine: int
    machines: int
    rank: int  # of this process, among all
    reason: str  # for the log


def processes(wanted: int, environment: Mapping[str, str]) -> Processes:
    """The processes that were started, or that are wanted.

    torchrun and Slurm set them in the environment; Lightning sets LOCAL_RANK for the processes of train.devices.
    """
    if "LOCAL_WORLD_SIZE" in environment:
        local, total = int(environment["LOCAL_WORLD_SIZE"]), int(environment["WORLD_SIZE"])
        return Processes(local, total // local, int(environment.get("RANK", 0)), f"processes: {total} (torchrun)")
    tasks = int(environment.get("SLURM_NTASKS", 1))
    if tasks > 1 and "SLURM_PROCID" in environment:
        nodes = int(environment.get("SLURM_NNODES", 1))
        reason = f"processes: {tasks} on {counted(nodes, 'machine')} (Slurm)"
        return Processes(tasks // nodes, nodes, int(environment["SLURM_PROCID"]), reason)
    return Processes(wanted, 1, int(environment.get("LOCAL_RANK", 0)), f"processes: {wanted} (train.devices)")


def gpu_shared_by(environment: Mapping[str, str]) -> int:
    """The number of runs that share the GPU, which `compare --at-once` sets for the rows that it starts."""
    value = environment.get(SHARED_BY, "1")
    if not (value.isdecimal() and int(value)):
        raise UserError(f"{SHARED_BY}={value}: not a number of runs -> give 1 or more, or unset it")
    return int(value)
