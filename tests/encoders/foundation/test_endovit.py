"""EndoViT from a file as published, against timm's ViT, which shares no code with transformers'."""

import argparse
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor

from polyptrace.encoders import Preprocess
from polyptrace.encoders.foundation import load_foundation
from polyptrace.encoders.foundation.families import Endovit


def reference(architecture: Endovit) -> VisionTransformer:
    return VisionTransformer(
        img_size=32, patch_size=16, embed_dim=architecture.width, depth=2, num_heads=architecture.heads, num_classes=0
    )


def save(state: dict[str, Tensor], path: Path) -> None:
    """As a masked autoencoder's training script saves: decoder, mask token, optimiser, a namespace of arguments."""
    decoder = {"mask_token": torch.zeros(1, 1, 8), "decoder_pos_embed": torch.zeros(1, 5, 8)}
    decoder |= {"decoder_blocks.0.attn.qkv.weight": torch.zeros(24, 8), "decoder_pred.bias": torch.zeros(4)}
    arguments = argparse.Namespace(model="mae_vit_base_patch16")
    torch.save({"model": state | decoder, "optimizer": {"state": {}}, "epoch": 9, "args": arguments}, path)


def old_transformers(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The names that transformers had before version 5."""
    actual = {}
    for key, tensor in state.items():
        name = key.replace("patch_embed.proj", "embeddings.patch_embeddings.projection")
        name = re.sub(r"^(cls_token)$", r"embeddings.\1", name)
        name = re.sub(r"^pos_embed$", "embeddings.position_embeddings", name)
        name = re.sub(r"^norm\.", "layernorm.", name).replace("blocks.", "encoder.layer.")
        name = name.replace("norm1", "layernorm_before").replace("norm2", "layernorm_after")
        name = name.replace("attn.proj", "attention.output.dense").replace("mlp.fc1", "intermediate.dense")
        name = name.replace("mlp.fc2", "output.dense")
        if "attn.qkv" in name:
            for part, piece in zip(("query", "key", "value"), tensor.chunk(3), strict=True):
                actual[name.replace("attn.qkv", f"attention.attention.{part}")] = piece
        else:
            actual[f"vit.{name}"] = tensor
    return actual


@pytest.mark.parametrize("layout", ["published", "old transformers"])
def test_the_published_layout_gives_the_tokens_of_an_independent_forward(
    layout: str, small: dict[str, Endovit], tmp_path: Path, scramble: Callable, frames: Callable
) -> None:
    model, path = scramble(reference(small["endovit"])), tmp_path / "pytorch_model.bin"
    state = dict(model.state_dict())
    if layout == "published":
        save(state, path)
    else:
        torch.save(old_transformers(state), path)
    pictures = frames(2, 3, 32)
    with torch.no_grad():
        tokens = model.forward_features(pictures.flatten(0, 1)).reshape(2, 3, 5, -1)
    for pooling, expected in {
        "default": tokens[:, :, 1:].mean((1, 2)),
        "cls": tokens[:, :, 0].mean(1),
    }.items():
        actual = load_foundation("endovit", path, pooling=pooling)(pictures)
        torch.testing.assert_close(actual, expected, atol=2e-5, rtol=2e-5)


def test_the_release_transform_is_what_the_encoder_asks_for(small: dict[str, Endovit]) -> None:
    assert "endovit" in small
    encoder = load_foundation("endovit", None, preprocess="release")
    assert encoder.preprocess == Preprocess(232, (0.45, 0.45, 0.45), (0.225, 0.225, 0.225))
