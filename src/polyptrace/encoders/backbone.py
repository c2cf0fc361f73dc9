"""Frame backbones: any timm model without its classifier, and where its weights come from.

backbone = create_backbone("resnet50", "imagenet", size=232)  # (n, 3, 232, 232) -> (n, 2048)
"""

import pickle
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from polyptrace.core.errors import UserError

#: Tags of torchvision's own weights on the hub (IMAGENET1K_V2, then V1), preferred to timm's where both exist.
TORCHVISION_TAGS = ("tv2_in1k", "tv_in1k")

#: What other programs put before the names of a network's weights.
PREFIXES = ("module.", "model.", "backbone.", "encoder.")

#: Classifiers, which a backbone does not have.
CLASSIFIERS = ("fc.", "head.", "classifier.")


def create_backbone(name: str, weights: str | None = "none", size: int = 232) -> nn.Module:
    """A timm network that gives one vector per frame, with `weights`: imagenet, none, or a file."""
    import timm  # here: it takes seconds to load

    if not timm.is_model(name):
        near = ", ".join(get_close_matches(name, timm.list_models(), 3, 0.3))
        raise UserError(f"--encoder.backbone: timm has no model {name!r} -> did you mean {near}?")
    described = timm.get_pretrained_cfg(name)
    options: dict[str, Any] = {"num_classes": 0}
    if described is not None and described.fixed_input_size:
        options["img_size"] = size
    if weights == "imagenet":
        return _from_hub(name, options)
    backbone: nn.Module = timm.create_model(name, **options)
    if weights not in (None, "none"):
        load_weights(backbone, Path(str(weights)))
    return backbone


def feature_width(backbone: nn.Module) -> int:
    """Width of the vector that a timm network gives for one frame."""
    width = getattr(backbone, "head_hidden_size", None) or backbone.num_features
    assert isinstance(width, int)
    return width


def load_weights(network: nn.Module, path: Path) -> None:
    """Fills a network from a safetensors or torch file; keys that are missing or unknown are listed."""
    fill_network(network, _without_prefix(read_tensors(path), set(network.state_dict())), str(path))


def fill_network(network: nn.Module, found: Mapping[str, Tensor], where: str) -> None:
    """Fills a network with named tensors; names that are missing or unknown are listed."""
    wanted = network.state_dict()
    found = {name: tensor for name, tensor in found.items() if name in wanted or not name.startswith(CLASSIFIERS)}
    counters = {name for name in wanted if name.endswith("num_batches_tracked")}
    missing = sorted(set(wanted) - set(found) - counters)
    unknown = sorted(set(found) - set(wanted))
    shapes = [
        f"{name} is {tuple(found[name].shape)}, not {tuple(wanted[name].shape)}"
        for name in sorted(set(found) & set(wanted))
        if found[name].shape != wanted[name].shape
    ]
    if missing or unknown or shapes:
        listed = "; ".join(
            f"{what}: {', '.join(names[:6])}" + (f" and {len(names) - 6} more" if len(names) > 6 else "")
            for what, names in (("missing", missing), ("unknown", unknown), ("other shape", shapes))
            if names
        )
        raise UserError(f"{where}: not weights of this network ({listed}) -> is it for another --encoder.backbone?")
    network.load_state_dict(found, strict=False)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The named tensors of a safetensors or torch file; pickled code is never run."""
    content = read_content(path)
    for key in ("state_dict", "model"):
        if isinstance(content.get(key), Mapping):
            content = content[key]
    return {str(name): value for name, value in content.items() if isinstance(value, Tensor)}


def read_content(path: Path) -> Mapping[str, Any]:
    """All that a safetensors or torch file holds; pickled code is never run."""
    if not path.is_file():
        raise UserError(f"{path}: no such file of weights -> check the path")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except SafetensorError as error:
        raise UserError(f"{path}: not a whole safetensors file ({error}) -> fetch it again") from None
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"{path}: not a file of plain tensors ({reason}) -> save its state_dict with torch.save or safetensors"
        ) from None
    if not isinstance(content, Mapping):
        raise UserError(f"{path}: holds a {type(content).__name__}, not named tensors -> save a state_dict")
    return content


def _from_hub(name: str, options: Mapping[str, Any]) -> nn.Module:
    import timm  # here: it takes seconds to load

    tagged = [f"{name}.{tag}" for tag in TORCHVISION_TAGS]
    known = set(timm.list_pretrained(f"{name}.*"))
    full_name = next((n for n in tagged if n in known), name)
    try:
        backbone: nn.Module = timm.create_model(full_name, pretrained=True, **options)
    except (OSError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"--encoder.weights imagenet: {full_name} cannot be had from the hub ({reason}) -> give a file with"
            " --encoder.weights FILE, or start from random weights with --encoder.weights none"
        ) from None
    return backbone


def _without_prefix(tensors: Mapping[str, Tensor], wanted: set[str]) -> dict[str, Tensor]:
    """The tensors under the names that the network uses, whatever program saved them."""
    for prefix in PREFIXES:
        if not wanted & set(tensors):
            tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    return dict(tensors)
