"""Builds a foundation model by name, with its weights, as an encoder.

encoder = load_foundation("dinov2-small", "hub")
vectors = encoder(prepare_crops(crops, encoder.preprocess), mask)  # (B, L, S, S, 3), (B, L) -> (B, D)
"""

from difflib import get_close_matches
from pathlib import Path

import torch
from torch import nn

from polyptrace.core.errors import UserError
from polyptrace.encoders.cost import Cost, cost
from polyptrace.encoders.foundation.catalogue import FOUNDATION_MODELS, FoundationModel
from polyptrace.encoders.foundation.checkpoint import read_checkpoint
from polyptrace.encoders.foundation.encoder import FoundationEncoder, FrameModelEncoder, VideoModelEncoder
from polyptrace.encoders.foundation.hub import find_weights
from polyptrace.encoders.foundation.layout import fit
from polyptrace.encoders.foundation.pooling import parse_pooling
from polyptrace.encoders.preprocess import RELEASE, Preprocess

#: The side in pixels and the frames of a tracklet at which costs are counted, as in the paper.
COST_SIZE, COST_LENGTH = 224, 8


def load_foundation(
    name: str,
    weights: str | Path | None,
    pooling: str = "default",
    preprocess: str | Preprocess = "own",
    seed: int = 0,
) -> FoundationEncoder:
    """The foundation model of that name as a frozen encoder.

    `weights` is a file, a folder, a hub id, `hub`, or `cached` for what came from there before; none: random ones from
    the seed, for tests and timing.
    `preprocess` is `own` (the model's size and normalisation), `release` (the one transform of the published
    comparison) or one of your own.
    """
    model = find_model(name)
    chosen = parse_pooling(model.pooling if pooling == "default" else pooling, model.architecture.prefix_tokens)
    prepared = _preprocess(model, preprocess)
    if weights is None or str(weights) == "none":
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            backbone = model.architecture.build(prepared.size)
    else:
        backbone = _with_weights(name, model, find_weights(name, model, weights), prepared.size)
    kind = FrameModelEncoder if model.architecture.clip_length is None else VideoModelEncoder
    return kind(name, model.architecture, backbone, prepared, chosen)


def find_model(name: str) -> FoundationModel:
    """The entry of that name, or an error that names the nearest."""
    if name not in FOUNDATION_MODELS:
        near = get_close_matches(name, FOUNDATION_MODELS, 1, 0.5)
        meant = f"did you mean {near[0]}?" if near else f"one of {', '.join(FOUNDATION_MODELS)}"
        raise UserError(f"{name}: no foundation model has this name -> {meant}")
    return FOUNDATION_MODELS[name]


def costs(name: str) -> tuple[Cost, Cost]:
    """`used_cost` and `published_cost`, counted once where the published model has no part that is not used."""
    published, size = published_cost(name), find_model(name).preprocess.size
    with torch.device("meta"):
        backbone = find_model(name).architecture.build(size)
    whole = sum(parameter.numel() for parameter in backbone.parameters()) == published.params
    return published if whole else used_cost(name), published


def used_cost(name: str, size: int = COST_SIZE, length: int = COST_LENGTH) -> Cost:
    """What the encoder itself costs for one tracklet: the parts that give its vector."""
    architecture = find_model(name).architecture
    with torch.device("meta"):
        backbone = architecture.build(size).eval()
        frames = _tracklet(size, length, architecture.clip_length)
    return cost(backbone, lambda: architecture.tokens(backbone, frames))


def published_cost(name: str, size: int = COST_SIZE, length: int = COST_LENGTH) -> Cost:
    """What the paper's columns count for one tracklet: the whole published model, unused parts included."""
    architecture = find_model(name).architecture
    with torch.device("meta"):
        whole, run = architecture.published(size)
        frames = _tracklet(size, length, architecture.clip_length)
    return cost(whole.eval(), lambda: run(frames))


def _tracklet(size: int, length: int, clip_length: int | None) -> torch.Tensor:
    return torch.empty(length, 3, size, size) if clip_length is None else torch.empty(1, length, 3, size, size)


def _preprocess(model: FoundationModel, preprocess: str | Preprocess) -> Preprocess:
    if isinstance(preprocess, Preprocess):
        return preprocess
    match preprocess:
        case "own":
            return model.preprocess
        case "release":
            return RELEASE
        case _:
            raise UserError(f"--embed.preprocess: {preprocess!r} is not known -> give own or release")


def _with_weights(name: str, model: FoundationModel, path: Path, size: int) -> nn.Module:
    found = read_checkpoint(path)
    with torch.device("meta"):  # nothing is initialised that the file replaces
        backbone = model.architecture.build(size)
    fitted, misfit = fit(found, backbone.state_dict(), model.architecture)
    if misfit:
        others = [other for other in FOUNDATION_MODELS if other != name and _fits(found, FOUNDATION_MODELS[other])]
        advice = f"it fits {' and '.join(others)}" if others else f"the weights of {name} are at {model.page}"
        raise UserError(f"{path}: not the weights of {name} ({misfit}) -> {advice}")
    backbone.load_state_dict(fitted, assign=True)
    _compute_buffers(backbone)
    return backbone


def _fits(found: dict[str, torch.Tensor], model: FoundationModel) -> bool:
    with torch.device("meta"):
        wanted = model.architecture.build(model.preprocess.size).state_dict()
    return not fit(found, wanted, model.architecture)[1]


def _compute_buffers(backbone: nn.Module) -> None:
    """Makes modules anew that hold computed buffers (rotary frequencies): files have none, and meta has no values."""
    for name, module in list(backbone.named_modules()):
        if any(buffer.is_meta for buffer in module.buffers(recurse=False)):
            backbone.set_submodule(name, type(module)(backbone.config))
    assert not any(tensor.is_meta for tensor in (*backbone.parameters(), *backbone.buffers()))
