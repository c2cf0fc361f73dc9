"""SurgeNet from a file as published, against a CAFormer written on the published names, channels last."""

from collections.abc import Callable
from pathlib import Path

import timm
import torch
from torch import Tensor, nn
from torch.nn import functional

from polyptrace.encoders.foundation import load_foundation
from polyptrace.encoders.foundation.families import Surgenet


def published_weights(architecture: Surgenet) -> dict[str, Tensor]:
    """Random weights under the published names and in the published shapes, with the unused classifier."""
    widths, random = architecture.widths, torch.Generator().manual_seed(3)
    shapes: dict[str, tuple[int, ...]] = {
        "downsample_layers.0.conv.weight": (widths[0], 3, 7, 7),
        "downsample_layers.0.conv.bias": (widths[0],),
        "downsample_layers.0.post_norm.weight": (widths[0],),
        "norm.weight": (widths[3],),
        "norm.bias": (widths[3],),
        "head.fc1.weight": (4 * widths[3], widths[3]),
        "head.fc1.bias": (4 * widths[3],),
        "head.norm.weight": (4 * widths[3],),
        "head.norm.bias": (4 * widths[3],),
        "head.fc2.weight": (1, 4 * widths[3]),
        "head.fc2.bias": (1,),
    }
    for k in (1, 2, 3):
        shapes[f"downsample_layers.{k}.pre_norm.weight"] = (widths[k - 1],)
        shapes[f"downsample_layers.{k}.conv.weight"] = (widths[k], widths[k - 1], 3, 3)
        shapes[f"downsample_layers.{k}.conv.bias"] = (widths[k],)
    for stage, (width, depth) in enumerate(zip(widths, architecture.depths, strict=True)):
        for j in range(depth):
            at = f"stages.{stage}.{j}"
            shapes |= {f"{at}.norm1.weight": (width,), f"{at}.norm2.weight": (width,)}
            shapes |= {f"{at}.mlp.fc1.weight": (4 * width, width), f"{at}.mlp.fc2.weight": (width, 4 * width)}
            if stage < 2:
                shapes[f"{at}.token_mixer.pwconv1.weight"] = (2 * width, width)
                shapes[f"{at}.token_mixer.dwconv.weight"] = (2 * width, 1, 7, 7)
                shapes[f"{at}.token_mixer.pwconv2.weight"] = (width, 2 * width)
            else:
                shapes[f"{at}.token_mixer.qkv.weight"] = (3 * width, width)
                shapes[f"{at}.token_mixer.proj.weight"] = (width, width)
                shapes |= {f"{at}.res_scale1.scale": (width,), f"{at}.res_scale2.scale": (width,)}
    return {name: 0.3 * torch.randn(shape, generator=random) for name, shape in shapes.items()}


def slow_vector(weights: dict[str, Tensor], picture: Tensor, architecture: Surgenet) -> Tensor:
    """The vector (D,) of one image (3, H, W)."""

    def norm(values: Tensor, name: str) -> Tensor:
        weight = weights[f"{name}.weight"]
        return functional.layer_norm(values, (len(weight),), weight, weights.get(f"{name}.bias"), 1e-6)

    def convolve(values: Tensor, name: str, stride: int, padding: int) -> Tensor:
        kernel, groups = weights[f"{name}.weight"], len(weights[f"{name}.weight"]) if "dwconv" in name else 1
        first = values.permute(2, 0, 1)[None]
        return functional.conv2d(first, kernel, weights.get(f"{name}.bias"), stride, padding, 1, groups)[0].permute(
            1, 2, 0
        )

    def mix(values: Tensor, at: str, stage: int) -> Tensor:
        if stage < 2:
            wide = (values @ weights[f"{at}.pwconv1.weight"].T).relu()
            return convolve(wide, f"{at}.dwconv", 1, 3) @ weights[f"{at}.pwconv2.weight"].T
        stacked = (values.flatten(0, 1) @ weights[f"{at}.qkv.weight"].T).unflatten(-1, (3, -1, 32))
        queries, keys, contents = stacked.unbind(1)
        scores = torch.einsum("ihd,jhd->hij", queries, keys) / 32**0.5
        joined = torch.einsum("hij,jhd->ihd", scores.softmax(-1), contents).flatten(1)
        return (joined @ weights[f"{at}.proj.weight"].T).reshape(values.shape)

    one = torch.ones(())
    values = picture.permute(1, 2, 0)
    for stage, depth in enumerate(architecture.depths):
        if stage == 0:
            values = norm(convolve(values, "downsample_layers.0.conv", 4, 2), "downsample_layers.0.post_norm")
        else:
            values = norm(values, f"downsample_layers.{stage}.pre_norm")
            values = convolve(values, f"downsample_layers.{stage}.conv", 2, 1)
        for j in range(depth):
            at = f"stages.{stage}.{j}"
            mixed = mix(norm(values, f"{at}.norm1"), f"{at}.token_mixer", stage)
            values = values * weights.get(f"{at}.res_scale1.scale", one) + mixed
            hidden = (norm(values, f"{at}.norm2") @ weights[f"{at}.mlp.fc1.weight"].T).relu()
            values = values * weights.get(f"{at}.res_scale2.scale", one) + hidden @ weights[f"{at}.mlp.fc2.weight"].T
    return norm(values.mean((0, 1)), "norm")


def test_the_published_layout_gives_the_vectors_of_a_slow_forward(
    small: dict[str, Surgenet], tmp_path: Path, frames: Callable
) -> None:
    weights = published_weights(small["surgenet"])
    torch.save(weights, tmp_path / "SurgeNet_checkpoint_epoch0050_teacher.pth")
    encoder = load_foundation("surgenet", tmp_path / "SurgeNet_checkpoint_epoch0050_teacher.pth")
    pictures = frames(2, 3, 32)
    expected = torch.stack([slow_vector(weights, p, small["surgenet"]) for p in pictures.flatten(0, 1)])
    torch.testing.assert_close(encoder(pictures), expected.reshape(2, 3, -1).mean(1), atol=5e-5, rtol=5e-5)


def test_at_full_size_it_is_timms_caformer_with_relu() -> None:
    with torch.device("meta"):
        ours = Surgenet().build(224).state_dict()
        timms = timm.create_model("caformer_s18", num_classes=0, mlp_act=nn.ReLU, act1_layer=nn.ReLU).state_dict()
    assert {k.removeprefix("caformer."): v.shape for k, v in ours.items()} == {k: v.shape for k, v in timms.items()}


def test_a_full_training_checkpoint_gives_the_vectors_of_the_published_teacher(
    small: dict[str, Surgenet], tmp_path: Path, frames: Callable, dino_checkpoint: Callable
) -> None:
    weights = published_weights(small["surgenet"])
    torch.save(weights, tmp_path / "teacher.pth")
    backbone = {name: tensor for name, tensor in weights.items() if not name.startswith("head.")}
    torch.save(dino_checkpoint(backbone), tmp_path / "full.pth")
    teacher, full = (load_foundation("surgenet", tmp_path / file) for file in ("teacher.pth", "full.pth"))
    torch.testing.assert_close(full(frames(1, 2, 32)), teacher(frames(1, 2, 32)), atol=0, rtol=0)
