"""The device, the precision and the number of CPU cores to compute with. Every choice comes with its reason."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

import torch

from polyptrace.core.console import counted
from polyptrace.core.errors import UserError

Precision: TypeAlias = Literal["float32", "bf16"]


def choose_device(wanted: str, option: str) -> tuple[torch.device, str]:
    """The device for `auto`, `cpu` or `cuda`, and a log line that gives the reason; `option` is named in errors."""
    if wanted != "cpu" and torch.cuda.is_available():
        device = torch.device("cuda", torch.cuda.current_device())
        return device, f"device: {torch.cuda.get_device_name(device)} ({wanted})"
    if wanted == "cuda":
        raise UserError(f"{option} cuda: torch finds no GPU -> check the driver, or use {option} cpu")
    reason = "requested" if wanted == "cpu" else "torch finds no GPU"
    return torch.device("cpu"), f"device: CPU with {counted(torch.get_num_threads(), 'thread')} ({reason})"


def choose_precision(wanted: str, device: torch.device) -> tuple[Precision, str]:
    """The precision for `auto`, `float32` or `bf16`, and a log line that gives the reason."""
    if wanted == "float32":
        return "float32", "precision: float32 (requested)"
    if wanted == "bf16":
        return "bf16", "precision: bf16 autocast (requested)"
    if device.type != "cuda":
        return "float32", "precision: float32 (auto, on a CPU)"
    if torch.cuda.is_bf16_supported(including_emulation=False):
        return "bf16", "precision: bf16 autocast, weights and loss in float32 (auto, on a GPU)"
    return "float32", "precision: float32 (auto, this GPU has no bf16)"


def usable_cores() -> int:
    """CPU cores that this process may use, which a scheduler or a container may limit."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Runs each torch operation on this number of threads (0: unchanged) until the end of the block.

    One thread is best for small operations, and for work that already runs in parallel.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
