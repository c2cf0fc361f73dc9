"""V-JEPA2 in both published layouts against a forward written from the paper's description."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional
from transformers import VJEPA2Model

from polyptrace.encoders import Preprocess
from polyptrace.encoders.foundation import load_foundation
from polyptrace.encoders.foundation.families import Vjepa2

UNIT = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


def whole(architecture: Vjepa2, scramble: Callable, size: int = 32) -> VJEPA2Model:
    model = scramble(architecture.published(size)[0])
    assert isinstance(model, VJEPA2Model)
    return model


def meta(model: VJEPA2Model) -> dict[str, object]:
    """The weights as Meta's own file has them: two dictionaries, prefixes, stacked queries, keys and values."""
    names = {"encoder.embeddings.patch_embeddings.": "patch_embed.", "encoder.layer.": "blocks."}
    names |= {"encoder.layernorm.": "norm.", ".attention.proj.": ".attn.proj."}
    encoder: dict[str, Tensor] = {"module.backbone.pos_embed": torch.zeros(1, 4, 48)}
    state = model.state_dict()
    for key, tensor in state.items():
        if not key.startswith("encoder.") or ".key." in key or ".value." in key:
            continue
        if ".query." in key:
            tensor = torch.cat([state[key.replace("query", part)] for part in ("query", "key", "value")])
        name = key.replace(".attention.query.", ".attn.qkv.")
        for old, new in names.items():
            name = name.replace(old, new)
        encoder[f"module.backbone.{name}"] = tensor
    return {"encoder": encoder, "predictor": {"module.backbone.x": torch.zeros(2)}, "epoch": 3}


def rotate(vector: Tensor, position: int) -> Tensor:
    """One axis's share of a head, turned pair by pair; the angle of a number depends on its index modulo the half."""
    half = len(vector) // 2
    turned = vector.clone()
    for index in range(len(vector)):
        angle = torch.tensor(position / 10000 ** ((index % half) / half))
        partner = -vector[index + 1] if index % 2 == 0 else vector[index - 1]
        turned[index] = vector[index] * angle.cos() + partner * angle.sin()
    return turned


def attention(tokens: Tensor, state: dict[str, Tensor], block: str, heads: int, positions: list[tuple]) -> Tensor:
    def linear(name: str, values: Tensor) -> Tensor:
        return functional.linear(
            values, state[f"{block}.attention.{name}.weight"], state[f"{block}.attention.{name}.bias"]
        )

    queries, keys, values = (linear(n, tokens).unflatten(-1, (heads, -1)) for n in ("query", "key", "value"))
    share = 2 * (queries.shape[-1] // 3 // 2)
    for side in (queries, keys):
        for token, index in enumerate(positions):
            for head in range(heads):
                for axis in range(3):
                    part = slice(axis * share, (axis + 1) * share)
                    side[token, head, part] = rotate(side[token, head, part].clone(), index[axis])
    joined = torch.zeros_like(values)
    for head in range(heads):
        weights = (queries[:, head] @ keys[:, head].T / queries.shape[-1] ** 0.5).softmax(-1)
        joined[:, head] = weights @ values[:, head]
    return linear("proj", joined.flatten(1))


def slow_tokens(model: VJEPA2Model, clip: Tensor, architecture: Vjepa2) -> Tensor:
    """Tokens (T, D) of one clip (F, 3, H, W)."""
    state = {k.removeprefix("encoder."): v for k, v in model.state_dict().items() if k.startswith("encoder.")}
    depth, side = len(clip) // 2, clip.shape[-1] // 16
    positions = [(d, y, x) for d in range(depth) for y in range(side) for x in range(side)]
    kernel = state["embeddings.patch_embeddings.proj.weight"].flatten(1)
    cubes = [clip[2 * d : 2 * d + 2, :, 16 * y : 16 * y + 16, 16 * x : 16 * x + 16] for d, y, x in positions]
    flat = torch.stack([cube.transpose(0, 1).reshape(-1) for cube in cubes])
    tokens = flat @ kernel.T + state["embeddings.patch_embeddings.proj.bias"]
    width = (tokens.shape[-1],)
    for i in range(architecture.layers):
        block = f"layer.{i}"
        norm = functional.layer_norm(tokens, width, state[f"{block}.norm1.weight"], state[f"{block}.norm1.bias"], 1e-6)
        tokens = tokens + attention(norm, state, block, architecture.heads, positions)
        norm = functional.layer_norm(tokens, width, state[f"{block}.norm2.weight"], state[f"{block}.norm2.bias"], 1e-6)
        hidden = functional.gelu(norm @ state[f"{block}.mlp.fc1.weight"].T + state[f"{block}.mlp.fc1.bias"])
        tokens = tokens + hidden @ state[f"{block}.mlp.fc2.weight"].T + state[f"{block}.mlp.fc2.bias"]
    return functional.layer_norm(tokens, width, state["layernorm.weight"], state["layernorm.bias"], 1e-6)


@pytest.mark.parametrize("layout", ["hub", "meta"])
def test_both_published_layouts_give_the_tokens_of_a_slow_forward(
    layout: str, small: dict[str, Vjepa2], tmp_path: Path, scramble: Callable, frames: Callable
) -> None:
    model = whole(small["vjepa2"], scramble)
    if layout == "hub":
        save_file(model.state_dict(), tmp_path / "model.safetensors")
    else:
        torch.save(meta(model), tmp_path / "vitl.pt")
    pictures = frames(2, 4, 32)
    with torch.no_grad():
        expected = torch.stack([slow_tokens(model, clip, small["vjepa2"]).mean(0) for clip in pictures])
        actual = load_foundation("vjepa2", tmp_path / ("vitl.pt" if layout == "meta" else ""))(pictures)
    torch.testing.assert_close(actual, expected, atol=1e-4, rtol=1e-4)


def test_the_rotary_grid_follows_the_side_of_the_frames(
    small: dict[str, Vjepa2], tmp_path: Path, scramble: Callable, frames: Callable
) -> None:
    model = whole(small["vjepa2"], scramble)
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    pictures = frames(1, 2, 48)
    with torch.no_grad():
        actual = load_foundation("vjepa2", tmp_path, preprocess=Preprocess(48, *UNIT))(pictures)
        expected = slow_tokens(model, pictures[0], small["vjepa2"]).mean(0, keepdim=True)
    torch.testing.assert_close(actual, expected, atol=1e-4, rtol=1e-4)


def test_the_last_frame_of_an_odd_clip_counts(small: dict[str, Vjepa2], frames: Callable) -> None:
    assert "vjepa2" in small
    encoder, pictures = load_foundation("vjepa2", None), frames(1, 5, 32)
    twice = torch.cat([pictures, pictures[:, -1:]], dim=1)
    torch.testing.assert_close(encoder(pictures), encoder(twice))
    assert not torch.allclose(encoder(pictures), encoder(pictures[:, :4]), atol=1e-4)


def test_the_encoder_is_taken_and_not_the_target_encoder_as_the_hub_does(
    small: dict[str, Vjepa2], tmp_path: Path, scramble: Callable, frames: Callable
) -> None:
    content = meta(whole(small["vjepa2"], scramble))
    torch.save(content, tmp_path / "one.pt")
    encoder = content["encoder"]
    assert isinstance(encoder, dict)
    target = {key: torch.zeros_like(tensor) for key, tensor in encoder.items()}
    torch.save({"target_encoder": target, **content}, tmp_path / "both.pt")
    pictures = frames(1, 2, 32)
    first, second = (load_foundation("vjepa2", tmp_path / f)(pictures) for f in ("one.pt", "both.pt"))
    torch.testing.assert_close(first, second, atol=0, rtol=0)
