"""Builds a foundation model by name, with its weights, as an encoder.

encoder = load_foundation("dinov2-small", "hub")
vectors = encoder(crops, mask)  # (B, L, S, S, 3) uint8, (B, L) -> (B, D)
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

import torch
from torch import Tensor, nn

from polyptrace.core.errors import UserError
from polyptrace.core.randomness import torch_seed
from polyptrace.encoders.foundation.architecture import fit
from polyptrace.encoders.foundation.catalogue import FOUNDATION_MODELS, FoundationModel
from polyptrace.encoders.foundation.encoder import (
    FoundationEncoder,
    FrameModelEncoder,
    VideoModelEncoder,
    parse_pooling,
)
from polyptrace.encoders.foundation.hub import find_weights
from polyptrace.encoders.preprocess import IMAGENET_MEAN, IMAGENET_STD, RELEASE, Preprocess
from polyptrace.encoders.weights import read_tensors

#: Prefixes that training scripts put before the names.
WRAPPERS = re.compile(r"^(?:module\.|backbone\.|_orig_mod\.)+")


def load_foundation(
    name: str,
    weights: str | Path | None,
    pooling: str = "default",
    preprocess: str | Preprocess = "own",
    seed: int = 0,
) -> FoundationEncoder:
    """The foundation model of that name as a frozen encoder.

    `weights` is a file, a folder, a hub id, `hub`, or `cached` (downloaded before); None gives random weights from the
    seed, for tests and timing. `preprocess` is `own` (the model's size and normalisation), `imagenet` (its size with
    ImageNet's normalisation), `release` (the transform of the published comparison), or a `Preprocess`.
    """
    model = find_model(name)
    chosen = parse_pooling(model.pooling if pooling == "default" else pooling, model.architecture.prefix_tokens)
    prepared = _preprocess(model, preprocess)
    if weights is None or str(weights) == "none":
        with torch.random.fork_rng():
            torch.manual_seed(torch_seed(seed))
            backbone = model.architecture.build(prepared.size)
    else:
        backbone = _with_weights(name, model, find_weights(name, model, weights), prepared.size)
    kind = FrameModelEncoder if model.architecture.clip_length is None else VideoModelEncoder
    return kind(name, model.architecture, backbone, prepared, chosen)


def find_model(name: str) -> FoundationModel:
    """The entry of that name, or an error with the closest name."""
    if name not in FOUNDATION_MODELS:
        near = get_close_matches(name, FOUNDATION_MODELS, 1, 0.5)
        advice = f"did you mean {near[0]}?" if near else f"one of {', '.join(FOUNDATION_MODELS)}"
        raise UserError(f"{name}: no foundation model has this name -> {advice}")
    return FOUNDATION_MODELS[name]


def _preprocess(model: FoundationModel, preprocess: str | Preprocess) -> Preprocess:
    if isinstance(preprocess, Preprocess):
        return preprocess
    match preprocess:
        case "own":
            return model.preprocess
        case "imagenet":
            return replace(model.preprocess, mean=IMAGENET_MEAN, std=IMAGENET_STD)
        case "release":
            return RELEASE
        case _:
            raise UserError(f"--embed.preprocess: {preprocess!r} is unknown -> give own, imagenet or release")


def _with_weights(name: str, model: FoundationModel, path: Path, size: int) -> nn.Module:
    given = _without_wrappers(read_tensors(path), path)
    with torch.device("meta"):  # skips the initialisation of weights that the file replaces
        backbone = model.architecture.build(size)
    fitted, mismatch = fit(given, backbone.state_dict(), model.architecture)
    if mismatch:
        others = [other for other in FOUNDATION_MODELS if other != name and _fits(given, FOUNDATION_MODELS[other])]
        advice = f"it fits {' and '.join(others)}" if others else f"get the weights of {name} from {model.page}"
        raise UserError(f"{path}: not the weights of {name} ({mismatch}) -> {advice}")
    backbone.load_state_dict(fitted, assign=True)
    _compute_buffers(backbone)
    return backbone


def _without_wrappers(tensors: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    plain = {WRAPPERS.sub("", name): tensor for name, tensor in tensors.items()}
    if len(plain) < len(tensors):
        raise UserError(f"{path}: contains some weights twice, behind different prefixes -> keep one of each")
    return plain


def _fits(given: Mapping[str, Tensor], model: FoundationModel) -> bool:
    with torch.device("meta"):
        wanted = model.architecture.build(model.preprocess.size).state_dict()
    return not fit(given, wanted, model.architecture)[1]


def _compute_buffers(backbone: nn.Module) -> None:
    """Rebuilds modules with computed buffers (rotary frequencies): files have none, and meta tensors have no values."""
    for name, module in list(backbone.named_modules()):
        if any(buffer.is_meta for buffer in module.buffers(recurse=False)):
            backbone.set_submodule(name, type(module)(backbone.config))
    assert not any(tensor.is_meta for tensor in (*backbone.parameters(), *backbone.buffers()))
