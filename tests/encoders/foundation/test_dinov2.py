"""DINOv2 in every published layout against timm's own forward, which shares no code with transformers'."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from timm.layers import SwiGLUPacked
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from torch.nn import functional

from polyptrace.encoders.foundation import FOUNDATION_MODELS, load_foundation
from polyptrace.encoders.foundation.families import Dinov2

NAMES = ("dinov2-small", "dinov2-base", "dinov2-large", "dinov2-giant")
LAYOUTS = ("meta", "timm", "hub", "transformers")


def reference(architecture: Dinov2, image_size: int = 28) -> VisionTransformer:
    swiglu = {"mlp_layer": SwiGLUPacked, "act_layer": nn.SiLU, "mlp_ratio": 256 / 48} if architecture.swiglu else {}
    return VisionTransformer(
        img_size=image_size,
        patch_size=14,
        embed_dim=architecture.width,
        depth=architecture.layers,
        num_heads=architecture.heads,
        init_values=1.0,
        num_classes=0,
        **swiglu,
    )


def laid_out(state: dict[str, Tensor], layout: str, swiglu: bool) -> dict[str, Tensor]:
    """The weights of timm's model as Meta, timm, the hub, or the newest transformers name and stack them."""
    if layout == "timm":
        return state
    width = state["cls_token"].shape[-1]
    if layout == "meta":
        stacked = {k.replace("mlp.fc1", "mlp.w12").replace("mlp.fc2", "mlp.w3"): v for k, v in state.items()}
        return {**(stacked if swiglu else state), "mask_token": torch.zeros(1, width)}
    new = layout == "transformers"
    actual = {"embeddings.mask_token": torch.zeros(1, width)}
    for key, tensor in state.items():
        name = key.replace("patch_embed.proj", "embeddings.patch_embeddings.projection")
        name = re.sub(r"^cls_token$", "embeddings.cls_token", name)
        name = re.sub(r"^pos_embed$", "embeddings.position_embeddings", name)
        name = re.sub(r"^blocks", "encoder.layer", name)
        name = re.sub(r"^norm\.", "layernorm.", name)
        name = re.sub(r"ls([12]).gamma", r"layer_scale\1.lambda1", name)
        name = name.replace("attn.proj", "attention.o_proj" if new else "attention.output.dense")
        if swiglu:
            name = name.replace("mlp.fc2", "mlp.down_proj" if new else "mlp.weights_out")
            name = name.replace("mlp.fc1", "mlp.fc1" if new else "mlp.weights_in")
        if "attn.qkv" in name:
            whole = ("q_proj", "k_proj", "v_proj") if new else ("attention.query", "attention.key", "attention.value")
            for part, piece in zip(whole, tensor.chunk(3), strict=True):
                actual[name.replace("attn.qkv", f"attention.{part}")] = piece.clone()
        elif swiglu and "mlp.fc1" in name:
            for part, piece in zip(("gate_proj", "up_proj"), tensor.chunk(2), strict=True):
                actual[name.replace("fc1", part)] = piece.clone()
        else:
            actual[name] = tensor
    return actual


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", NAMES)
def test_every_published_layout_gives_the_tokens_of_an_independent_forward(
    name: str, layout: str, small: dict[str, Dinov2], tmp_path: Path, scramble: Callable, frames: Callable
) -> None:
    model = scramble(reference(small[name]))
    path = tmp_path / ("dinov2.pth" if layout == "meta" else "model.safetensors")
    weights = laid_out(dict(model.state_dict()), layout, small[name].swiglu)
    (torch.save if layout == "meta" else save_file)(weights, path)
    pictures = frames(2, 3, 28)
    with torch.no_grad():
        expected = model.forward_features(pictures.flatten(0, 1)).mean(1).reshape(2, 3, -1).mean(1)
        actual = load_foundation(name, path)(pictures)
    torch.testing.assert_close(actual, expected, atol=2e-5, rtol=2e-5)


def test_position_embeddings_are_resized_without_antialiasing(
    small: dict[str, Dinov2],
    tmp_path: Path,
    scramble: Callable,
    frames: Callable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    native = replace(small["dinov2-small"], native=70)
    monkeypatch.setitem(
        FOUNDATION_MODELS, "dinov2-small", replace(FOUNDATION_MODELS["dinov2-small"], architecture=native)
    )
    model = scramble(reference(native, image_size=70))
    save_file(dict(model.state_dict()), tmp_path / "m.safetensors")
    cls, grid = model.pos_embed[:, :1], model.pos_embed[:, 1:].reshape(1, 5, 5, -1).permute(0, 3, 1, 2)
    resized = functional.interpolate(grid, size=(2, 2), mode="bicubic", antialias=False)
    at_28 = reference(native)
    state = dict(model.state_dict())
    at_28.load_state_dict({**state, "pos_embed": torch.cat([cls, resized.flatten(2).transpose(1, 2)], dim=1)})
    pictures = frames(1, 2, 28)
    with torch.no_grad():
        expected = at_28.eval().forward_features(pictures[0])[:, 0].mean(0, keepdim=True)
        actual = load_foundation("dinov2-small", tmp_path / "m.safetensors", pooling="cls")(pictures)
    torch.testing.assert_close(actual, expected, atol=2e-5, rtol=2e-5)
