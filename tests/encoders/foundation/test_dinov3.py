"""DINOv3 in every published layout against timm's own forward, which shares no code with transformers'."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import timm
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from polyptrace.core.errors import UserError
from polyptrace.encoders.foundation import load_foundation
from polyptrace.encoders.foundation.families import Dinov3

NAMES = ("dinov3-small", "dinov3-base", "dinov3-large")


def reference(architecture: Dinov3, bias: bool) -> nn.Module:
    return timm.create_model(
        "vit_small_patch16_dinov3_qkvb" if bias else "vit_small_patch16_dinov3",
        embed_dim=architecture.width,
        depth=architecture.layers,
        num_heads=architecture.heads,
        img_size=32,
        num_classes=0,
    )


def hub(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights of timm's model under the names of the hub's files."""
    actual = {"embeddings.mask_token": torch.zeros(1, 1, state["cls_token"].shape[-1])}
    for key, tensor in state.items():
        name = key.replace("patch_embed.proj", "embeddings.patch_embeddings").replace("blocks.", "layer.")
        name = re.sub(r"^cls_token$", "embeddings.cls_token", name)
        name = re.sub(r"^reg_token$", "embeddings.register_tokens", name)
        name = re.sub(r"gamma_([12])", r"layer_scale\1.lambda1", name).replace("attn.proj", "attention.o_proj")
        name = name.replace("mlp.fc1", "mlp.up_proj").replace("mlp.fc2", "mlp.down_proj")
        name = re.sub(r"attn\.([qv])_bias", r"attention.\1_proj.bias", name)
        if "attn.qkv" in name:
            for part, piece in zip("qkv", tensor.chunk(3), strict=True):
                actual[name.replace("attn.qkv", f"attention.{part}_proj")] = piece.clone()
        else:
            actual[name] = tensor
    return actual


def meta(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same as Meta's own files have them: a stacked bias with a mask, the rotary periods, storage tokens."""
    actual = {"mask_token": torch.zeros(1, state["cls_token"].shape[-1]), "rope_embed.periods": torch.ones(4)}
    for key, tensor in state.items():
        name = re.sub(r"gamma_([12])", r"ls\1.gamma", key).replace("reg_token", "storage_tokens")
        if name.endswith("q_bias"):
            value = state[key.replace("q_bias", "v_bias")]
            stacked = torch.cat([tensor, torch.full_like(tensor, 7.0), value])
            actual[name.replace("q_bias", "qkv.bias")] = stacked
            actual[name.replace("q_bias", "qkv.bias_mask")] = torch.ones_like(stacked)
        elif not name.endswith("v_bias"):
            actual[name] = tensor
    return actual


@pytest.mark.parametrize("layout", ["hub", "meta", "timm", "timm without biases"])
@pytest.mark.parametrize("name", NAMES)
def test_every_published_layout_gives_the_tokens_of_an_independent_forward(
    name: str, layout: str, small: dict[str, Dinov3], tmp_path: Path, scramble: Callable, frames: Callable
) -> None:
    model = scramble(reference(small[name], bias=layout != "timm without biases"))
    state = dict(model.state_dict())
    path = tmp_path / ("dinov3.pth" if layout == "meta" else "model.safetensors")
    if layout == "meta":
        torch.save(meta(state), path)
    else:
        save_file(hub(state) if layout == "hub" else state, path)
    pictures = frames(2, 3, 32)
    with torch.no_grad():
        tokens = model.forward_features(pictures.flatten(0, 1)).reshape(2, 3, 9, -1)
        cls, patches = tokens[:, :, 0].mean(1), tokens[:, :, 5:].mean((1, 2))
        torch.testing.assert_close(load_foundation(name, path)(pictures), cls, atol=3e-5, rtol=3e-5)
        actual = load_foundation(name, path, pooling="patch-mean")(pictures)
    torch.testing.assert_close(actual, patches, atol=3e-5, rtol=3e-5)


def test_a_file_that_lacks_only_some_of_the_biases_is_refused(
    small: dict[str, Dinov3], tmp_path: Path, scramble: Callable
) -> None:
    state = hub(dict(scramble(reference(small["dinov3-small"], bias=True)).state_dict()))
    del state["layer.1.attention.q_proj.bias"]
    save_file(state, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match=r"1 missing: blocks\.1\.attn\.q\.bias"):
        load_foundation("dinov3-small", tmp_path)


def test_asking_for_training_mode_does_not_change_the_vectors(small: dict[str, Dinov3], frames: Callable) -> None:
    assert "dinov3-small" in small
    encoder, pictures = load_foundation("dinov3-small", None), frames(1, 2, 32)
    before = encoder(pictures)
    torch.testing.assert_close(encoder.train()(pictures), before, atol=0, rtol=0)
