"""Encoders saved and loaded: our folders, the authors' checkpoints, known names, and repositories on the hub.

save_encoder(encoder, Path("my-encoder"), trained="ours, 50 epochs on REAL-Colon")
encoder = load_encoder("my-encoder")  # also a run, a checkpoint, colour-grid, frozen:resnet50, dinov2-small, OWNER/NAME

A folder contains model.safetensors, config.json and README.md (a model card).
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from safetensors.torch import save_file
from torch import Tensor, nn

from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_folder, read_json, write_json
from polyptrace.core.network import hub_or_cache
from polyptrace.encoders.backbones import FROZEN, FrozenBackbone
from polyptrace.encoders.colour_grid import ColourGrid
from polyptrace.encoders.foundation import FOUNDATION_MODELS, load_foundation
from polyptrace.encoders.frame import FrameEncoder
from polyptrace.encoders.tracklet import TrackletEncoder
from polyptrace.encoders.weights import fill_network, load_weights, read_content

WEIGHTS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"

#: Version of config.json.
VERSION = 1

#: The folder of a run that contains its trained encoder.
FINAL = "encoder"

#: Suffixes of weights files.
SUFFIXES = (".ckpt", ".pt", ".pth", ".safetensors")

KINDS = {"tracklet": TrackletEncoder, "frame": FrameEncoder}

#: The encoders that this package trains.
OwnEncoder = TrackletEncoder | FrameEncoder

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
    path_or_name: str | Path, weights: str | Path | None = None, pooling: str = "default", preprocess: str = "own"
) -> nn.Module:
    """The encoder of a run, an encoder folder, the authors' checkpoint, a known name, or a hub id.

    Known names are `colour-grid`, `frozen:BACKBONE` (any timm model) and the foundation models, which
    `polyptrace encoders` lists. `weights` and `preprocess` are for the last two, `pooling` for foundation models.
    Without `weights`, a frozen backbone gets ImageNet weights and a foundation model those in the hub's local cache.
    """
    name, path = str(path_or_name), Path(path_or_name)
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
    if path.suffix in SUFFIXES:
        raise UserError(f"{path}: no such file -> check the path")
    return from_pretrained(path_or_name)


def save_encoder(
    encoder: OwnEncoder,
    folder: Path,
    *,
    trained: str = "not stated",
    details: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> None:
    """Writes an encoder's folder: weights, settings, and a model card.

    `trained` is a sentence on how it was trained; `details` (settings, provenance) go into config.json.
    """
    kind = next(name for name, class_ in KINDS.items() if type(encoder) is class_)
    with atomic_folder(folder, overwrite=overwrite) as temporary:
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in encoder.state_dict().items()}
        save_file(tensors, temporary / WEIGHTS, {"format": "pt"})
        content = {"polyptrace": VERSION, "kind": kind, "encoder": encoder.settings}
        content |= {"preprocess": asdict(encoder.preprocess), "trained": trained, "details": dict(details or {})}
        write_json(temporary / CONFIG, content)
        (temporary / CARD).write_text(model_card(encoder, trained), encoding="utf-8")


def load_folder(folder: Path) -> OwnEncoder:
    """The encoder of a folder that `save_encoder` wrote, in evaluation mode."""
    path = folder / CONFIG
    content = read_json(path)
    if not isinstance(content, dict) or content.get("kind") not in KINDS:
        kind = content.get("kind") if isinstance(content, dict) else None
        raise UserError(f"{path}: not an encoder of polyptrace (kind: {kind!r}) -> check the folder")
    if content.get("polyptrace") != VERSION:
        raise UserError(
            f"{path}: version {content.get('polyptrace')!r}, this release reads {VERSION} -> save the encoder again"
        )
    try:
        encoder: OwnEncoder = KINDS[content["kind"]](**content["encoder"])
    except UserError as error:
        raise UserError(f"{path}: 'encoder': {error}") from None
    except Exception as error:  # any setting can have a value that torch or timm refuses in its own way
        raise UserError(
            f"{path}: 'encoder' does not describe an encoder ({type(error).__name__}: {error}) -> check the file"
        ) from None
    load_weights(encoder, folder / WEIGHTS)
    return encoder.eval()


def from_pretrained(path_or_id: str | Path) -> OwnEncoder:
    """The encoder of a folder, or of a repository on the Hugging Face hub (OWNER/NAME)."""
    folder = Path(path_or_id)
    if folder.is_dir():
        return load_folder(folder)
    try:
        with hub_or_cache():
            downloaded = snapshot_download(str(path_or_id), allow_patterns=[WEIGHTS, CONFIG])
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"{path_or_id}: not a folder, not the name of an encoder, and no repository on the hub that can be"
            f" downloaded ({reason}) -> check the path or the name ('polyptrace encoders' lists them), or download the"
            " repository on a computer with a network and give its folder"
        ) from None
    return load_folder(Path(downloaded))


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
        raise UserError(
            f"{path}: has no {error} -> give a checkpoint of the authors' release (Lightning, with hyper_parameters)"
        ) from None
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except Exception as error:  # any setting can have a value that torch or timm refuses in its own way
        raise UserError(
            f"{path}: hyper_parameters do not describe an encoder ({type(error).__name__}: {error})"
            " -> give a checkpoint of the authors' release"
        ) from None
    fill_network(encoder, tensors, str(path), "give a checkpoint that the authors' release wrote")
    return encoder.eval()


def model_card(encoder: OwnEncoder, trained: str) -> str:
    """The README.md of an encoder's folder, with the header that the hub reads."""
    millions = sum(p.numel() for p in encoder.parameters()) / 1e6
    size, mean, std = encoder.preprocess.size, encoder.preprocess.mean[0], encoder.preprocess.std[0]
    return f"""---
library_name: polyptrace
pipeline_tag: feature-extraction
tags: [colonoscopy, polyp, re-identification, contrastive-learning]
---
# {encoder.name}: vectors of polyp tracklets

- Input: tracklets, each with any number of square RGB crops of a polyp. uint8 crops of at least {size} x {size} pixels
  are resized and normalised (mean {mean}, std {std}); floats must be prepared already.
- Output: one vector of {encoder.width} numbers per tracklet, to be compared by cosine similarity.
- Backbone {encoder.settings["backbone"]}, {millions:.1f} M parameters with the projector.
- Training: {trained}

```python
from polyptrace.encoders import load_encoder

encoder = load_encoder("PATH")  # this folder, or its id on the hub
vectors = encoder(crops, mask)  # (B, L, S, S, 3) uint8, (B, L) bool -> (B, {encoder.width})
```

`polyptrace embed PATH --data DATASET --out EMBEDDINGS` does the same for a prepared dataset.

For research only. Not a medical device: do not use it for decisions about patients.

```json
{json.dumps(encoder.settings, indent=2)}
```
"""


def _encoder_folder(folder: Path) -> Path:
    """The folder itself, or the one of a run's trained encoder."""
    if (folder / FINAL / CONFIG).is_file():
        return folder / FINAL
    if (folder / CONFIG).is_file() and (folder / WEIGHTS).is_file():
        return folder
    if (folder / "checkpoints").is_dir():
        raise UserError(f"{folder}: this run has not finished -> run the same command again to resume it")
    raise UserError(f"{folder}: contains no encoder ({WEIGHTS} and {CONFIG}) and is not a run -> check the path")


def _our_names(tensors: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors of the authors' checkpoint under our names; an unknown name is kept, so that it is reported."""
    ours = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise UserError(f"state_dict: {name} is not a tensor -> give a checkpoint of the authors' release")
        prefix = next((prefix for prefix in AUTHORS_NAMES if name.startswith(prefix)), "")
        ours[AUTHORS_NAMES.get(prefix, "") + name.removeprefix(prefix)] = tensor
    return ours
