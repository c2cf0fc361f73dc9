"""Encoders saved and loaded: our folders with their model cards, the authors' checkpoints, names, and the hub.

save_encoder(encoder, Path("my-encoder"), record=TrainingRecord(method="ours", data="REAL-Colon"))
encoder = load_encoder("my-encoder")  # also "default", a run, a checkpoint, colour-grid, dinov2-small, OWNER/NAME

A folder follows the hub's conventions: model.safetensors, config.json and README.md, the model card. config.json has
hashes of weights, settings and preprocessing, which are verified when the folder is loaded.
"""

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import torch
from huggingface_hub import ModelCard, ModelCardData, snapshot_download
from torch import Tensor

import polyptrace
from polyptrace.core.console import counted
from polyptrace.core.errors import UserError, warn
from polyptrace.core.files import atomic_folder, differences, read_versioned, write_json, wrong_folder
from polyptrace.core.schema import from_json
from polyptrace.encoders.encoder import (
    FROZEN,
    BaseEncoder,
    ColourGrid,
    FrameEncoder,
    FrozenBackbone,
    OwnEncoder,
    TrackletEncoder,
    TrainingRecord,
)
from polyptrace.encoders.foundation import FOUNDATION_MODELS, load_foundation
from polyptrace.encoders.foundation.loading import is_hub_id
from polyptrace.encoders.preprocess import Preprocess
from polyptrace.encoders.weights import (
    DEFAULT,
    default_folder,
    fill_network,
    fingerprint,
    hub_or_cache,
    read_content,
    read_safetensors,
    weights_hash,
    write_safetensors,
)

WEIGHTS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"
CARD_TEMPLATE = Path(__file__).with_name("model_card.md.j2")

#: Version of config.json.
VERSION = 2

#: Folders of a run: its trained encoder, and its checkpoints.
ENCODER, CHECKPOINTS = "encoder", "checkpoints"

#: Floating-point types in which weights can be stored.
STORED = {"float32": torch.float32, "float16": torch.float16}

KINDS = {"tracklet": TrackletEncoder, "frame": FrameEncoder}


@dataclass(frozen=True)
class EncoderConfig:
    """The content of config.json."""

    polyptrace: int  # format version
    release: str  # version of the package that saved the encoder
    kind: Literal["tracklet", "frame"]
    encoder: dict[str, Any]  # arguments of its class
    preprocess: Preprocess
    weights_hash: str
    fingerprint: str
    training: TrainingRecord


#: Names in the authors' checkpoint, and ours.
AUTHORS_NAMES = {
    "mve.sfe.backbone.": "backbone.",
    "mve.adapter.": "adapter.",
    "mve.cls_token": "token",
    "mve.encoder.layers.": "layers.",
    "mve.encoder.norm.": "output_norm.",
    "mve.encoder_norm.": "output_norm.",
    "mve.feature_norm.": "feature_norm.",
    "projector.": "projector.",
}


def load_encoder(
    path_or_name: str | Path,
    weights: str | Path | None = None,
    pooling: str = "default",
    preprocess: str = "own",
    revision: str | None = None,
) -> BaseEncoder:
    """The encoder of a run, an encoder folder, the authors' checkpoint, a known name, or a hub id.

    Known names are `default` (comes with the package), `colour-grid`, `frozen:BACKBONE` (any timm model) and the
    foundation models, which `polyptrace encoders` lists. `weights` and `preprocess` are for the last two, `pooling` for
    foundation models.
    Without `weights`, a frozen backbone gets ImageNet weights and a foundation model those in the hub's local cache.
    `revision` is a branch, tag or commit of a repository on the hub.
    """
    name, path = str(path_or_name), Path(path_or_name)
    backbone = name.startswith(FROZEN) or name in FOUNDATION_MODELS
    if revision is not None and (backbone or name in (DEFAULT, ColourGrid.name) or path.exists()):
        raise UserError(f"{name}: not a repository on the hub -> leave out revision={revision!r}")
    if weights is not None and not backbone:
        raise UserError(f"{name}: comes with its own weights -> leave out --weights")
    if pooling != "default" and name not in FOUNDATION_MODELS:
        _warn_ignored(name, f"pooling {pooling}")
    if preprocess != "own" and not backbone:
        _warn_ignored(name, f"preprocess {preprocess}")
    if name == DEFAULT:
        return load_folder(default_folder())
    if name == ColourGrid.name:
        return ColourGrid()
    if name.startswith(FROZEN):
        return FrozenBackbone(name.removeprefix(FROZEN), weights or "imagenet", preprocess)
    if name in FOUNDATION_MODELS:
        return load_foundation(name, weights or "cached", pooling, preprocess)
    if path.is_dir():
        return load_folder(_encoder_folder(path))
    if path.is_file():
        return load_authors_checkpoint(path)
    return load_folder(_download(name, revision))


def _warn_ignored(name: str, setting: str) -> None:
    warn(f"--embed.{setting}: ignored, because {name} has its own -> 'polyptrace encoders' shows who has a choice")


def encoder_config(path_or_name: str | Path) -> EncoderConfig | None:
    """config.json of a run, an encoder folder or the default encoder; None for any other name or path."""
    path = default_folder() if str(path_or_name) == DEFAULT else Path(path_or_name)
    return _read_config(_encoder_folder(path) / CONFIG) if path.is_dir() else None


def training_record(path_or_name: str | Path) -> TrainingRecord:
    """How a run, an encoder folder or the default encoder was trained; empty for any other name or path."""
    config = encoder_config(path_or_name)
    return TrainingRecord() if config is None else config.training


def save_encoder(
    encoder: BaseEncoder,
    folder: Path,
    *,
    record: TrainingRecord | None = None,
    precision: str = "float32",
    overwrite: bool = False,
) -> None:
    """Writes an encoder's folder: weights, settings with the fingerprint, and a model card.

    `record` says how the encoder was trained; by default, it is the record that the encoder was loaded with. With
    `precision` float16 the weights are rounded, so that the saved encoder has another fingerprint.
    """
    if not isinstance(encoder, OwnEncoder):
        raise UserError(f"{encoder.name}: was not trained here and is not saved -> load it by its name")
    encoder = rounded(encoder, precision)
    record, weights = record or encoder.record, weights_hash(encoder)
    config = EncoderConfig(
        polyptrace=VERSION,
        release=polyptrace.__version__,
        kind="tracklet" if isinstance(encoder, TrackletEncoder) else "frame",
        encoder=encoder.settings,
        preprocess=encoder.preprocess,
        weights_hash=weights,
        fingerprint=fingerprint(encoder, weights),
        training=record,
    )
    with atomic_folder(folder, overwrite=overwrite, mark=CONFIG) as temporary:
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in encoder.state_dict().items()}
        write_safetensors(temporary / WEIGHTS, tensors, {"format": "pt"})
        (temporary / WEIGHTS).chmod(0o644)  # safetensors makes it private
        write_json(temporary / CONFIG, asdict(config))
        (temporary / CARD).write_text(model_card(encoder, record, config.fingerprint), encoding="utf-8")


def rounded(encoder: OwnEncoder, precision: str) -> OwnEncoder:
    """A copy whose weights have the type in which they are stored."""
    if precision not in STORED:
        raise UserError(f"precision: {precision!r} is unknown -> give {' or '.join(STORED)}")
    copy = deepcopy(encoder).to(STORED[precision])
    for name, tensor in copy.state_dict().items():
        if not bool(tensor.isfinite().all()):
            raise UserError(f"{encoder.name}: {name} is not finite in {precision} -> save it as float32")
    return copy


def load_folder(folder: Path) -> OwnEncoder:
    """The encoder of a folder that `save_encoder` wrote, in evaluation mode; its hashes are verified."""
    path = folder / CONFIG
    config = _read_config(path)
    try:
        encoder: OwnEncoder = KINDS[config.kind](weights="none", **config.encoder)
    except Exception as error:  # any setting can have a value that torch or timm refuses in its own way
        raise UserError(f"{path}: 'encoder' is not valid ({type(error).__name__}: {error}) -> check the file") from None
    fill_network(encoder, read_safetensors(folder / WEIGHTS), str(folder / WEIGHTS), "get the folder again")
    _verify(encoder, config, folder)
    encoder.record = config.training
    return encoder.eval()


def _read_config(path: Path) -> EncoderConfig:
    content = read_versioned(path, VERSION, "train again")
    return from_json(EncoderConfig, content, str(path), "check the file, or get the folder again")


def _verify(encoder: OwnEncoder, config: EncoderConfig, folder: Path) -> None:
    """Raises an error if weights, settings or preprocessing are not those that were saved."""
    if changed := differences(asdict(config.preprocess), asdict(encoder.preprocess)):
        raise UserError(
            f"{folder / CONFIG}: saved by release {config.release} with other preprocessing ({'; '.join(changed)})"
            " -> use that release, or get the folder again"
        )
    weights = weights_hash(encoder)
    if weights != config.weights_hash:
        raise UserError(f"{folder / WEIGHTS}: not the weights that were saved -> get the folder again")
    if fingerprint(encoder, weights) != config.fingerprint:
        raise UserError(f"{folder / CONFIG}: 'encoder' was changed after saving (fingerprint) -> get the folder again")


def _download(name: str, revision: str | None) -> Path:
    """The folder of a repository on the Hugging Face hub, in the local cache."""
    if not is_hub_id(name):
        import timm  # here, because it takes seconds to import

        known = (DEFAULT, ColourGrid.name, *FOUNDATION_MODELS)
        near = [f"{FROZEN}{name}"] if timm.is_model(name) else get_close_matches(name, known, 3, 0.6)
        advice = f"did you mean {' or '.join(near)}?" if near else f"check the path, or use {', '.join(known)}"
        raise UserError(f"{name}: no such file or folder, and no encoder has this name -> {advice}")
    with hub_or_cache(
        f"{name}: no such folder; as a repository, it",
        f"check the path or the name; without a network, run `hf download {name} --local-dir FOLDER` on another"
        " computer and give the folder",
    ):
        return Path(snapshot_download(name, revision=revision, allow_patterns=[WEIGHTS, CONFIG]))


def load_authors_checkpoint(path: Path) -> TrackletEncoder:
    """The encoder of a Lightning checkpoint that the authors' release wrote, in evaluation mode."""
    content = read_content(path)
    try:
        settings, tensors = content["hyper_parameters"], _our_names(content["state_dict"])
        encoder = TrackletEncoder(
            backbone=settings["backbone_arch"],
            width=settings["d_model"],
            layers=settings["n_layers"],
            heads=settings["n_heads"],
            feed_forward=settings["d_feedforward"],
            dropout=settings["dropout"],
            projector_hidden=len(tensors["projector.0.bias"]),
            projection=len(tensors["projector.2.bias"]),
            feature_norm=bool(settings.get("use_feature_norm")),
            output_norm=bool(settings.get("use_encoder_norm")),
            name="authors",
        )
    except KeyError as error:
        raise UserError(f"{path}: has no {error} -> give a Lightning checkpoint of the authors' release") from None
    except Exception as error:  # any setting can have a value that torch or timm refuses in its own way
        raise UserError(
            f"{path}: hyper_parameters are not valid ({type(error).__name__}: {error})"
            " -> give a checkpoint of the authors' release"
        ) from None
    fill_network(encoder, tensors, str(path), "give a checkpoint that the authors' release wrote")
    return encoder.eval()


def _encoder_folder(folder: Path) -> Path:
    """The folder itself, or the one of a run's trained encoder."""
    if (folder / ENCODER / CONFIG).is_file():
        return folder / ENCODER
    if (folder / CONFIG).is_file() and (folder / WEIGHTS).is_file():
        return folder
    if (folder / CHECKPOINTS).is_dir():
        raise UserError(f"{folder}: this run has not finished -> run the same command again to resume it")
    raise wrong_folder(folder, "train", f", one with an encoder ({WEIGHTS} and {CONFIG}), or the name of an encoder")


def _our_names(tensors: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors of the authors' checkpoint under our names.

    Unknown names are kept and reported. A weight that is not a tensor is left out, and so reported as missing.
    """
    ours = {}
    for name in (name for name, value in tensors.items() if isinstance(value, Tensor)):
        prefix = next((prefix for prefix in AUTHORS_NAMES if name.startswith(prefix)), "")
        ours[AUTHORS_NAMES.get(prefix, "") + name.removeprefix(prefix)] = tensors[name]
    return ours


def model_card(encoder: OwnEncoder, record: TrainingRecord, fingerprint: str) -> str:
    """The text of README.md."""
    metadata = ModelCardData(
        library_name="polyptrace",
        pipeline_tag="feature-extraction",
        license=record.licence,
        tags=["colonoscopy", "polyp", "re-identification", "contrastive-learning"],
    )
    images = {True: "generated images", False: "recorded images", None: "origin of the images not stated"}
    counts = ", ".join(counted(record.counts[key], key[:-1]) for key in ("videos", "tracklets") if key in record.counts)
    card = ModelCard.from_template(
        metadata,
        template_path=str(CARD_TEMPLATE),
        encoder=encoder,
        record=record,
        data="; ".join(filter(None, (record.data or "not stated", images[record.generated], counts))),
        counted=counted,
        millions=sum(p.numel() for p in encoder.parameters()) / 1e6,
        fingerprint=fingerprint,
        settings=json.dumps(encoder.settings, indent=2),
    )
    return f"{card}\n"
