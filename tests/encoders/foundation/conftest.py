"""Small versions of the twelve models under their own names, and weights that leave nothing at its default."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from polyptrace.encoders.foundation import FOUNDATION_MODELS
from polyptrace.encoders.foundation.families import Dinov2, Dinov3, Endofm, Endovit, Surgenet, Vjepa2
from polyptrace.encoders.foundation.foundation_encoder import Architecture

SMALL: dict[str, tuple[Architecture, int]] = {
    "dinov2-small": (Dinov2(24, 2, 2, native=28), 28),
    "dinov2-base": (Dinov2(36, 2, 3, native=28), 28),
    "dinov2-large": (Dinov2(48, 3, 4, native=28), 28),
    "dinov2-giant": (Dinov2(48, 2, 4, swiglu=True, native=28), 28),
    "dinov3-small": (Dinov3(32, 2, 2), 32),
    "dinov3-base": (Dinov3(48, 2, 3), 32),
    "dinov3-large": (Dinov3(64, 3, 4), 32),
    "vjepa2": (Vjepa2(48, 2, 2, clip_length=6), 32),
    "endofm": (Endofm(clip_length=4, width=24, layers=2, heads=2, native=32), 32),
    "endofm-lv": (Endofm(clip_length=8, width=24, layers=2, heads=2, native=32), 32),
    "endovit": (Endovit(24, 2, 2, native=32), 32),
    "surgenet": (Surgenet(widths=(8, 16, 32, 64), depths=(1, 1, 2, 1)), 32),
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> dict[str, Architecture]:
    """The catalogue with small architectures for the rest of the test; gives them by name."""
    for name, (architecture, size) in SMALL.items():
        model = FOUNDATION_MODELS[name]
        changed = replace(model, architecture=architecture, preprocess=replace(model.preprocess, size=size))
        monkeypatch.setitem(FOUNDATION_MODELS, name, changed)
    return {name: architecture for name, (architecture, _) in SMALL.items()}


@pytest.fixture(scope="session")
def scramble() -> Callable[[nn.Module], nn.Module]:
    """Fills every parameter at random, so that a weight that is lost, swapped or left at its default shows."""

    def fill(module: nn.Module) -> nn.Module:
        random = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.normal_(0, 0.3, generator=random)
        return module.eval()

    return fill


@pytest.fixture(scope="session")
def frames() -> Callable[..., Tensor]:
    """Frames (B, L, 3, side, side) from a seed."""

    def draw(batch: int, length: int, side: int) -> Tensor:
        return torch.randn(batch, length, 3, side, side, generator=torch.Generator().manual_seed(2))

    return draw


@pytest.fixture(scope="session")
def dino_checkpoint() -> Callable[[dict[str, Tensor]], dict[str, Any]]:
    """A full checkpoint as the training scripts of EndoFM, EndoFM-LV and SurgeNet (DINO's) save it.

    The learning rate and the weight decay of the optimizer are NumPy scalars, because their schedules are arrays.
    """

    def content(backbone: dict[str, Tensor]) -> dict[str, Any]:
        head = {"head.mlp.0.weight": torch.zeros(3, 3), "head.last_layer.weight_g": torch.ones(3, 1)}
        teacher = {f"backbone.{name}": tensor for name, tensor in backbone.items()} | head
        student = {f"module.{name}": torch.zeros_like(tensor) for name, tensor in teacher.items()}
        weight = nn.Parameter(torch.ones(2))
        optimizer = torch.optim.AdamW([{"params": [weight]}])
        weight.sum().backward()
        optimizer.step()
        schedule = 5e-4 * (1 + np.cos(np.pi * np.arange(10) / 10))  # as DINO's cosine_scheduler
        for group in optimizer.param_groups:
            group["lr"], group["weight_decay"] = schedule[3], schedule[4]
        return {
            "student": student,
            "teacher": teacher,
            "optimizer": optimizer.state_dict(),
            "epoch": 31,
            "args": argparse.Namespace(arch="vit_base", lr=5e-4, local_crops_scale=(0.05, 0.4)),
            "dino_loss": {"center": torch.zeros(1, 8)},
            "fp16_scaler": {"scale": 65536.0, "_growth_tracker": 0},
        }

    return content
