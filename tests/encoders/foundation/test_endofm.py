"""EndoFM and EndoFM-LV from files as published, against a TimeSformer written on the published names."""

import argparse
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from polyptrace.core.errors import UserError
from polyptrace.encoders.foundation import load_foundation
from polyptrace.encoders.foundation.families import Endofm

ATTENTIONS = ("attn", "temporal_attn")
NORMS = ("norm1", "norm2", "temporal_norm1")


def published_weights(architecture: Endofm) -> dict[str, Tensor]:
    """Random weights under the published names and in the published shapes."""
    random, width = torch.Generator().manual_seed(3), architecture.width
    shapes: dict[str, tuple[int, ...]] = {
        "cls_token": (1, 1, width),
        "pos_embed": (1, 5, width),
        "time_embed": (1, architecture.clip_length, width),
        "patch_embed.proj.weight": (width, 3, 16, 16),
        "patch_embed.proj.bias": (width,),
        "norm.weight": (width,),
        "norm.bias": (width,),
    }
    for i in range(architecture.layers):
        linear = {f"{a}.qkv": (3 * width, width) for a in ATTENTIONS} | {
            f"{a}.proj": (width, width) for a in ATTENTIONS
        }
        linear |= {"temporal_fc": (width, width), "mlp.fc1": (4 * width, width), "mlp.fc2": (width, 4 * width)}
        for name, shape in linear.items():
            shapes |= {f"blocks.{i}.{name}.weight": shape, f"blocks.{i}.{name}.bias": shape[:1]}
        shapes |= {f"blocks.{i}.{name}.{part}": (width,) for name in NORMS for part in ("weight", "bias")}
    return {name: 0.2 * torch.randn(shape, generator=random) for name, shape in shapes.items()}


def save(weights: dict[str, Tensor], path: Path, side: str = "teacher") -> None:
    """As the authors' training script saves: teacher and student, prefixes, a head, a namespace of arguments."""
    head = {"head.mlp.0.weight": torch.zeros(3, 3), "head.last_layer.weight_g": torch.ones(3, 1)}
    prefix = "module." if side == "student" else ""
    content = {f"backbone.{name}": tensor for name, tensor in weights.items()} | head
    other = {f"module.backbone.{name}": torch.zeros_like(tensor) for name, tensor in weights.items()}
    kept = {f"{prefix}{name}": tensor for name, tensor in content.items()}
    arguments = argparse.Namespace(arch="timesformer", lr=1e-3)
    torch.save({"student": other, side: kept, "epoch": 30, "args": arguments}, path)


def slow_tokens(weights: dict[str, Tensor], clip: Tensor, architecture: Endofm) -> Tensor:
    """Tokens (1 + P * F, D) of one clip (F, 3, 32, 32), patch by patch, the frames of a patch together."""
    width, length = (architecture.width,), len(clip)

    def norm(values: Tensor, name: str) -> Tensor:
        return functional.layer_norm(values, width, weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-6)

    def linear(values: Tensor, name: str) -> Tensor:
        return values @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def attend(values: Tensor, name: str) -> Tensor:
        queries, keys, contents = linear(values, f"{name}.qkv").unflatten(-1, (3, architecture.heads, -1)).unbind(1)
        scores = torch.einsum("ihd,jhd->hij", queries, keys) / queries.shape[-1] ** 0.5
        return linear(torch.einsum("hij,jhd->ihd", scores.softmax(-1), contents).flatten(1), f"{name}.proj")

    patches = functional.conv2d(clip, weights["patch_embed.proj.weight"], weights["patch_embed.proj.bias"], stride=16)
    patches = patches.flatten(2).permute(2, 0, 1) + weights["pos_embed"][0, 1:, None]  # (P, F, D)
    stretch = torch.arange(length) * architecture.clip_length // length
    patches = patches + weights["time_embed"][0, stretch]
    cls = (weights["cls_token"] + weights["pos_embed"][:, :1])[0]  # (1, D)
    for i in range(architecture.layers):
        block = f"blocks.{i}"
        moved = [attend(norm(one, f"{block}.temporal_norm1"), f"{block}.temporal_attn") for one in patches]
        patches = patches + linear(torch.stack(moved), f"{block}.temporal_fc")
        seen = [attend(norm(torch.cat([cls, patches[:, f]]), f"{block}.norm1"), f"{block}.attn") for f in range(length)]
        cls = cls + torch.stack([frame[:1] for frame in seen]).mean(0)
        patches = patches + torch.stack([frame[1:] for frame in seen], dim=1)
        tokens = torch.cat([cls, patches.flatten(0, 1)])
        hidden = functional.gelu(linear(norm(tokens, f"{block}.norm2"), f"{block}.mlp.fc1"))
        tokens = tokens + linear(hidden, f"{block}.mlp.fc2")
        cls, patches = tokens[:1], tokens[1:].reshape(patches.shape)
    return norm(torch.cat([cls, patches.flatten(0, 1)]), "norm")


@pytest.mark.parametrize("side", ["teacher", "student"])
@pytest.mark.parametrize("name", ["endofm", "endofm-lv"])
def test_the_published_layout_gives_the_tokens_of_a_slow_forward(
    name: str, side: str, small: dict[str, Endofm], tmp_path: Path, frames: Callable
) -> None:
    weights = published_weights(small[name])
    save(weights, tmp_path / "endo.pth", side)
    pictures = frames(2, small[name].clip_length, 32)
    expected = torch.stack([slow_tokens(weights, clip, small[name]) for clip in pictures])
    cls, patches = expected[:, 0], expected[:, 1:].mean(1)
    torch.testing.assert_close(load_foundation(name, tmp_path / "endo.pth")(pictures), cls, atol=2e-5, rtol=2e-5)
    actual = load_foundation(name, tmp_path / "endo.pth", pooling="cls+patch-mean")(pictures)
    torch.testing.assert_close(actual, torch.cat([cls, patches], dim=1), atol=2e-5, rtol=2e-5)


def test_a_clip_shorter_than_the_models_own_spreads_its_frames_over_the_time_embeddings(
    small: dict[str, Endofm], tmp_path: Path, frames: Callable
) -> None:
    weights = published_weights(small["endofm-lv"])
    save(weights, tmp_path / "endo.pth")
    encoder = load_foundation("endofm-lv", tmp_path / "endo.pth")
    for length in (2, 4, 1):
        pictures = frames(1, length, 32)
        expected = slow_tokens(weights, pictures[0], small["endofm-lv"])[:1]
        torch.testing.assert_close(encoder(pictures), expected, atol=2e-5, rtol=2e-5)


def test_the_weights_of_the_other_one_are_refused_and_named(small: dict[str, Endofm], tmp_path: Path) -> None:
    save(published_weights(small["endofm-lv"]), tmp_path / "endo.pth")
    with pytest.raises(UserError, match=r"time_embed is \(1, 8, 24\), not \(1, 4, 24\).* it fits endofm-lv"):
        load_foundation("endofm", tmp_path / "endo.pth")


@pytest.mark.parametrize("numpy_1", [True, False])
@pytest.mark.parametrize("name", ["endofm", "endofm-lv"])
def test_a_full_training_checkpoint_loads_with_its_numpy_scalars(
    name: str, numpy_1: bool, small: dict[str, Endofm], tmp_path: Path, frames: Callable, dino_checkpoint: Callable
) -> None:
    weights, path = published_weights(small[name]), tmp_path / "full.pth"
    content = dino_checkpoint(weights)
    assert isinstance(content["optimizer"]["param_groups"][0]["lr"], np.float64)
    torch.save(content, path)
    if numpy_1:  # older files name the module as NumPy 1 did
        with zipfile.ZipFile(path) as archive:
            entries = {entry: archive.read(entry) for entry in archive.namelist()}
        with zipfile.ZipFile(path, "w") as archive:
            for entry, data in entries.items():
                assert not entry.endswith("data.pkl") or b"numpy._core.multiarray\n" in data
                archive.writestr(entry, data.replace(b"numpy._core.multiarray\n", b"numpy.core.multiarray\n"))
    pictures = frames(1, small[name].clip_length, 32)
    expected = slow_tokens(weights, pictures[0], small[name])[:1]
    torch.testing.assert_close(load_foundation(name, path)(pictures), expected, atol=2e-5, rtol=2e-5)
