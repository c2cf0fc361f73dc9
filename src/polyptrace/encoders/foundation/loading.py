"""The twelve foundation models of the comparison, and how one is built by name, with its weights, as an encoder.

encoder = load_foundation("dinov2-small", "hub")
vectors = encoder(crops, mask)  # (B, L, S, S, 3) uint8, (B, L) -> (B, D)

Weights are a file, a folder or, only on request, a repository on the hub.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn

import torch
from huggingface_hub import hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import GatedRepoError, HFValidationError, RemoteEntryNotFoundError
from torch import Tensor, nn

from polyptrace.core.errors import UserError
from polyptrace.core.randomness import torch_seed
from polyptrace.encoders.foundation.families import Dinov2, Dinov3, Endofm, Endovit, Surgenet, Vjepa2
from polyptrace.encoders.foundation.foundation_encoder import (
    Architecture,
    FoundationEncoder,
    FrameModelEncoder,
    VideoModelEncoder,
    check_pooling,
)
from polyptrace.encoders.preprocess import IMAGENET_MEAN, IMAGENET_STD, RELEASE, Preprocess, choose_preprocess
from polyptrace.encoders.weights import FOLDER_FILES, hub_or_cache, misfit, read_tensors


@dataclass(frozen=True)
class FoundationModel:
    """One row of the comparison.

    `hub` is the repository of the weights on the Hugging Face hub, `mirror` another one, and `site` their web page if
    they are not on the hub. `file` is the published file. `seen` lists test datasets that the pretraining used.
    """

    title: str
    architecture: Architecture
    preprocess: Preprocess
    pooling: str
    licence: str
    file: str = "model.safetensors"
    hub: str | None = None
    gated: bool = False
    mirror: str | None = None
    site: str = ""
    seen: tuple[str, ...] = ()

    @property
    def page(self) -> str:
        """The web page of the weights."""
        return f"https://huggingface.co/{self.hub}" if self.hub else self.site


IMAGENET_224 = Preprocess(224, IMAGENET_MEAN, IMAGENET_STD)
IMAGENET_256 = Preprocess(256, IMAGENET_MEAN, IMAGENET_STD)
#: What the authors of EndoFM use for fine-tuning and testing. They pretrained with ImageNet normalisation, which is
#: available as `--embed.preprocess imagenet`.
ENDOFM_224 = Preprocess(224, RELEASE.mean, RELEASE.std)
ENDOVIT_224 = Preprocess(224, (0.3464, 0.2280, 0.2228), (0.2520, 0.2128, 0.2093))


def _dinov2(title: str, size: str, architecture: Dinov2) -> FoundationModel:
    """Pooled as in the published comparison: the mean over all tokens."""
    return FoundationModel(title, architecture, IMAGENET_224, "mean", "Apache-2.0", hub=f"facebook/dinov2-{size}")


def _dinov3(title: str, size: str, architecture: Dinov3) -> FoundationModel:
    """Pooled as in the published comparison: the cls token."""
    return FoundationModel(
        title,
        architecture,
        IMAGENET_224,
        "cls",
        "DINOv3 licence",
        hub=f"facebook/dinov3-vit{size[0]}16-pretrain-lvd1689m",
        gated=True,
        mirror=f"timm/vit_{size}_patch16_dinov3.lvd1689m",
    )


def _endofm(title: str, clip_length: int, file: str, repository: str) -> FoundationModel:
    site = f"https://github.com/med-air/{repository}"
    return FoundationModel(title, Endofm(clip_length=clip_length), ENDOFM_224, "cls", "Apache-2.0", file, site=site)


#: By name, as on the command line.
FOUNDATION_MODELS = {
    "dinov2-small": _dinov2("DinoV2-S/14", "small", Dinov2(384, 12, 6)),
    "dinov2-base": _dinov2("DinoV2-B/14", "base", Dinov2(768, 12, 12)),
    "dinov2-large": _dinov2("DinoV2-L/14", "large", Dinov2(1024, 24, 16)),
    "dinov2-giant": _dinov2("DinoV2-g/14", "giant", Dinov2(1536, 40, 24, swiglu=True)),
    "dinov3-small": _dinov3("DinoV3-S/16", "small", Dinov3(384, 12, 6)),
    "dinov3-base": _dinov3("DinoV3-B/16", "base", Dinov3(768, 12, 12)),
    "dinov3-large": _dinov3("DinoV3-L/16", "large", Dinov3(1024, 24, 16)),
    "vjepa2": FoundationModel(
        "V-JEPA2",
        Vjepa2(1024, 24, 16),
        IMAGENET_256,
        "mean",
        "open (code MIT)",
        hub="facebook/vjepa2-vitl-fpc64-256",
    ),
    "endofm": replace(_endofm("EndoFM", 8, "endo_fm.pth", "Endo-FM"), seen=("SUN",)),
    "endofm-lv": _endofm("EndoFM-LV", 32, "endofm_lv.pth", "EndoFM-LV"),
    "endovit": FoundationModel(
        "EndoViT",
        Endovit(),
        ENDOVIT_224,
        "patch-mean",
        "Apache-2.0",
        file="pytorch_model.bin",
        hub="egeozsoy/EndoViT",
    ),
    "surgenet": FoundationModel(
        "SurgeNet",
        Surgenet(),
        IMAGENET_224,
        "mean",
        "CC-BY-NC-SA-4.0",
        file="SurgeNetXL_checkpoint_epoch0050_teacher.pth",
        hub="TimJaspersTue/SurgeNetModels",
    ),
}


FILE_ENDINGS = {".safetensors", ".pth", ".pt", ".bin", ".ckpt", ".json"}

#: Prefixes that training scripts put before the names.
WRAPPERS = re.compile(r"^(?:module\.|backbone\.|_orig_mod\.)+")


def load_foundation(
    name: str, weights: str | Path | None, pooling: str = "default", preprocess: str | Preprocess = "own"
) -> FoundationEncoder:
    """The foundation model of that name as a frozen encoder.

    `weights` is a file, a folder, a hub id, `hub`, or `cached` (downloaded before); None gives random weights, always
    the same, for tests and timing. `preprocess` is `own` (the model's size and normalisation), `imagenet` (its size
    with ImageNet's normalisation), `release` (the transform of the published comparison), or a `Preprocess`.
    """
    model = find_model(name)
    pooling = model.pooling if pooling == "default" else pooling
    check_pooling(pooling, model.architecture.prefix_tokens)
    prepared = preprocess if isinstance(preprocess, Preprocess) else choose_preprocess(model.preprocess, preprocess)
    if weights is None or str(weights) == "none":
        with torch.random.fork_rng():
            torch.manual_seed(torch_seed(0))
            backbone = model.architecture.build(prepared.size)
    else:
        backbone = _with_weights(name, model, find_weights(name, model, weights), prepared.size)
    kind = FrameModelEncoder if model.architecture.clip_length is None else VideoModelEncoder
    return kind(name, model.architecture, backbone, prepared, pooling)


def find_model(name: str) -> FoundationModel:
    """The entry of that name, or an error with the closest name."""
    if name not in FOUNDATION_MODELS:
        near = get_close_matches(name, FOUNDATION_MODELS, 1, 0.5)
        advice = f"did you mean {near[0]}?" if near else f"one of {', '.join(FOUNDATION_MODELS)}"
        raise UserError(f"{name}: no foundation model has this name -> {advice}")
    return FOUNDATION_MODELS[name]


def _with_weights(name: str, model: FoundationModel, path: Path, size: int) -> nn.Module:
    given = read_tensors(path)
    with torch.device("meta"):  # skips the initialisation of weights that the file replaces
        backbone = model.architecture.build(size)
    fitted, problem = fit(given, backbone.state_dict(), model.architecture)
    if problem:
        others = [other for other in FOUNDATION_MODELS if other != name and _fits(given, FOUNDATION_MODELS[other])]
        advice = f"it fits {' and '.join(others)}" if others else f"get the weights of {name} from {model.page}"
        raise UserError(f"{path}: not the weights of {name} ({problem}) -> {advice}")
    backbone.load_state_dict(fitted, assign=True)
    _compute_buffers(backbone)
    return backbone


def _fits(given: Mapping[str, Tensor], model: FoundationModel) -> bool:
    with torch.device("meta"):
        wanted = model.architecture.build(model.preprocess.size).state_dict()
    return not fit(given, wanted, model.architecture)[1]


def fit(
    given: Mapping[str, Tensor], wanted: Mapping[str, Tensor], architecture: Architecture
) -> tuple[dict[str, Tensor], str]:
    """The tensors of a file under the backbone's names and in its shapes, or why they do not fit.

    Shapes may differ by dimensions of 1 (a linear layer and a 1 x 1 convolution). Omitted optional weights are zero.
    """
    pieces, names = _canonical(given, architecture)
    targets, _ = _canonical(wanted, architecture)
    for pattern in architecture.optional:
        group = [part for part in targets if re.fullmatch(pattern, part)]
        if not any(part in pieces for part in group):
            pieces |= {part: torch.zeros(targets[part].shape) for part in group}
    for part in list(pieces):
        if part not in targets and any(re.fullmatch(pattern, part) for pattern in architecture.spare):
            del pieces[part]
        elif part in targets and pieces[part].squeeze().shape == targets[part].squeeze().shape:
            pieces[part] = pieces[part].reshape(targets[part].shape)
    if problem := misfit(pieces, targets, names):
        return {}, problem
    fitted = {key: [pieces[part].float() for part in architecture.parts(key)] for key in wanted}
    return {key: torch.cat(parts) if len(parts) > 1 else parts[0] for key, parts in fitted.items()}, ""


def _canonical(tensors: Mapping[str, Tensor], architecture: Architecture) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors by canonical name, and their original names; one that is repeated or cannot be split keeps its own."""
    pieces: dict[str, Tensor] = {}
    names: dict[str, str] = {}
    for key, tensor in tensors.items():
        parts = architecture.parts(WRAPPERS.sub("", key))
        count = len(parts)
        if any(part in pieces for part in parts) or (count > 1 and (not tensor.ndim or len(tensor) % count)):
            parts, count = (f"surplus {key}",), 1
        pieces |= zip(parts, tensor.chunk(count) if count > 1 else [tensor], strict=True)
        names |= dict.fromkeys(parts, key)
    return pieces, names


def _compute_buffers(backbone: nn.Module) -> None:
    """Rebuilds modules with computed buffers (rotary frequencies): files have none, and meta tensors have no values."""
    for name, module in list(backbone.named_modules()):
        if any(buffer.is_meta for buffer in module.buffers(recurse=False)):
            backbone.set_submodule(name, type(module)(backbone.config))
    assert not any(tensor.is_meta for tensor in (*backbone.parameters(), *backbone.buffers()))


def find_weights(name: str, model: FoundationModel, weights: str | Path) -> Path:
    """The local path of `weights`: a path, `hub` (the model's repository), `hub:OWNER/NAME[/FILE]`, or OWNER/NAME.

    `cached` is a previous download from the model's repository; the network is not used.
    """
    text = str(weights)
    if text == "cached":
        return cached_weights(model) or _not_here(name, model)
    if text == "hub":
        return download(name, model, model.hub) if model.hub else _not_here(name, model)
    if Path(text).exists():
        return Path(text)
    if text.startswith("hub:") or is_hub_id(text):
        owner, repository, file = [*text.removeprefix("hub:").split("/", 2), "", ""][:3]
        return download(name, model, f"{owner}/{repository}", file)
    raise UserError(f"--weights {text}: no file, folder or hub id -> get the weights of {name} from {model.page}")


def cached_weights(model: FoundationModel) -> Path | None:
    """The published file in the hub's local cache, if it exists; the network is not used."""
    return _cached(model.hub, model.file) if model.hub else None


def download(name: str, model: FoundationModel, repository: str, file: str = "") -> Path:
    """A file of a repository, from the local cache or else from the hub; by default, the one with the weights."""
    usual = (model.file,) if repository == model.hub else FOLDER_FILES
    files = (file,) if file else usual
    if cached := next(filter(None, (_cached(repository, each) for each in files)), None):
        return cached
    manually = f"or download the file on another computer ({model.page}) and give its path with --weights"
    advice = f"check the name and the network, run `hf auth login`, {manually}"
    for file in files:
        with hub_or_cache(f"{repository}: {file}", advice):
            try:
                return Path(hf_hub_download(repository, file))
            except GatedRepoError:
                mirror = f"use the mirror with --weights hub:{model.mirror}, " if model.mirror else ""
                raise UserError(
                    f"{repository}: the licence of {name} must be accepted first -> accept it at"
                    f" https://huggingface.co/{repository} and run `hf auth login`, {mirror}{manually}"
                ) from None
            except RemoteEntryNotFoundError:
                continue
    raise UserError(
        f"{repository}: has none of {', '.join(files)} -> give the file, --weights hub:{repository}/FILE, {manually}"
    )


def _not_here(name: str, model: FoundationModel) -> NoReturn:
    missing = (
        "are not in the local cache -> download them with --weights hub, or" if model.hub else "are not on the hub ->"
    )
    raise UserError(
        f"{name}: its weights {missing} get {model.file} from {model.page} and give its path with --weights"
    )


def _cached(repository: str, file: str) -> Path | None:
    try:
        path = try_to_load_from_cache(repository, file)
    except HFValidationError:  # the download reports it
        return None
    return Path(path) if isinstance(path, str) else None


def is_hub_id(text: str) -> bool:
    """Whether a text is OWNER/NAME and not a path."""
    path = Path(text)
    plain = re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", text) is not None
    return plain and path.suffix not in FILE_ENDINGS and not path.parent.exists()
