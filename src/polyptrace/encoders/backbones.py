"""Frame backbones from timm, without classifier.

backbone = create_backbone("resnet50", "imagenet", size=232)  # (n, 3, 232, 232) -> (n, 2048)
"""

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from huggingface_hub.errors import LocalEntryNotFoundError, OfflineModeIsEnabled
from torch import nn

from polyptrace.core.errors import UserError
from polyptrace.encoders.preprocess import IMAGENET_MEAN, IMAGENET_STD, RELEASE, Preprocess
from polyptrace.encoders.weights import (
    DEFAULT,
    default_folder,
    fill_network,
    hub_or_cache,
    load_weights,
    read_safetensors,
)

#: Tags of torchvision's weights on the hub (IMAGENET1K_V2, then V1), preferred to timm's if both exist.
TORCHVISION_TAGS = ("tv2_in1k", "tv_in1k")


def create_backbone(
    name: str, weights: str | None = "none", size: int = 232, option: str = "--encoder.weights"
) -> nn.Module:
    """A timm network that gives one vector per frame, with `weights`: imagenet, default, none, or a file.

    `default` is the backbone of the encoder that comes with the package; only that architecture can have it.
    `option` is the command-line option of the weights, for errors.
    """
    import timm  # here, because it takes seconds to import

    _check_name(name)
    options: dict[str, Any] = {"num_classes": 0}
    if _fixed_size(name):
        options["img_size"] = size
    if weights == "imagenet":
        return _from_hub(name, options, option)
    backbone: nn.Module = timm.create_model(name, **options)
    if weights == DEFAULT:
        tensors = read_safetensors(default_folder() / "model.safetensors")
        own = {key.removeprefix("backbone."): t for key, t in tensors.items() if key.startswith("backbone.")}
        advice = "choose the backbone that `config.json` of the default encoder names, or other weights"
        fill_network(backbone, own, f"{option} {DEFAULT}", advice)
    elif weights not in (None, "none"):
        load_weights(backbone, Path(str(weights)))
    return backbone


def feature_width(backbone: nn.Module) -> int:
    """Width of the vector that a timm network gives for one frame."""
    width = getattr(backbone, "head_hidden_size", None) or backbone.num_features
    assert isinstance(width, int)
    return width


def _check_name(name: str) -> None:
    import timm

    if not timm.is_model(name):
        near = ", ".join(get_close_matches(name, timm.list_models(), 3, 0.3))
        raise UserError(f"backbone: timm has no model {name!r} -> did you mean {near}?")


def _fixed_size(name: str) -> bool:
    import timm

    pretrained = timm.get_pretrained_cfg(name)
    return pretrained is not None and bool(pretrained.fixed_input_size)


def backbone_preprocess(name: str, choice: str) -> Preprocess:
    """The preprocessing of a backbone: `own`, `imagenet` or `release`, as in `FrozenBackbone`."""
    import timm

    _check_name(name)
    flexible, pretrained = not _fixed_size(name), timm.get_pretrained_cfg(name)
    if choice == "release":
        return replace(RELEASE, flexible=flexible)
    if choice not in ("own", "imagenet"):
        raise UserError(f"--embed.preprocess: {choice!r} is unknown -> give own, imagenet or release")
    size = 224 if pretrained is None else int(pretrained.input_size[-1])
    if choice == "imagenet" or pretrained is None:
        return Preprocess(size, IMAGENET_MEAN, IMAGENET_STD, flexible)
    mean, std = ((float(r), float(g), float(b)) for r, g, b in (pretrained.mean, pretrained.std))
    return Preprocess(size, mean, std, flexible)


def _from_hub(name: str, options: Mapping[str, Any], option: str) -> nn.Module:
    import timm

    tagged = [f"{name}.{tag}" for tag in TORCHVISION_TAGS]
    known = set(timm.list_pretrained(f"{name}.*"))
    full_name = next((n for n in tagged if n in known), name)
    advice = f"give a file with {option} FILE, or use random weights with {option} none"
    try:
        with hub_or_cache():
            backbone: nn.Module = timm.create_model(full_name, pretrained=True, **options)
    except (LocalEntryNotFoundError, OfflineModeIsEnabled):
        raise UserError(
            f"{option} imagenet: {full_name} is not in the local cache and the hub cannot be reached -> {advice}"
        ) from None
    except (OSError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"{option} imagenet: {full_name} cannot be downloaded from the hub ({reason}) -> {advice}"
        ) from None
    return backbone
