"""Our encoders in and out of folders: model.safetensors + config.json + README.md (a model card).

save_encoder(encoder, Path("my-encoder"), trained="ours, 50 epochs on REAL-Colon")
encoder = from_pretrained("my-encoder")  # or a hub id, owner/name
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from safetensors.torch import save_file
from torch import nn

from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_folder, read_json, write_json
from polyptrace.encoders.backbone import load_weights
from polyptrace.encoders.frame import FrameEncoder
from polyptrace.encoders.tracklet import TrackletEncoder

WEIGHTS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"

KINDS = {"tracklet": TrackletEncoder, "frame": FrameEncoder}

#: The encoders that this package trains.
OwnEncoder = TrackletEncoder | FrameEncoder


def save_encoder(
    encoder: OwnEncoder,
    folder: Path,
    *,
    trained: str = "not stated",
    details: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> None:
    """Writes an encoder's folder: weights, what it takes to build it again, and a model card.

    `trained` is a sentence on how it was trained; `details` (settings, provenance) go into config.json.
    """
    kind = next(name for name, class_ in KINDS.items() if type(encoder) is class_)
    with atomic_folder(folder, overwrite=overwrite) as temporary:
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in encoder.state_dict().items()}
        save_file(tensors, temporary / WEIGHTS, {"format": "pt"})
        content = {"polyptrace": 1, "kind": kind, "encoder": encoder.settings, "preprocess": _preprocess(encoder)}
        write_json(temporary / CONFIG, content | {"trained": trained, "details": dict(details or {})})
        (temporary / CARD).write_text(model_card(encoder, trained), encoding="utf-8")


def load_folder(folder: Path) -> OwnEncoder:
    """The encoder of a folder that `save_encoder` wrote, in evaluation mode."""
    content = read_json(folder / CONFIG)
    try:
        encoder: OwnEncoder = KINDS[content["kind"]](**content["encoder"])
    except (KeyError, TypeError) as error:
        raise UserError(f"{folder / CONFIG}: not an encoder of polyptrace ({error!r}) -> check the folder") from None
    load_weights(encoder, folder / WEIGHTS)
    return encoder.eval()


def from_pretrained(path_or_id: str | Path) -> OwnEncoder:
    """The encoder of a folder, or of a repository on the Hugging Face hub (owner/name)."""
    folder = Path(path_or_id)
    if folder.is_dir():
        return load_folder(folder)
    try:
        return load_folder(Path(snapshot_download(str(path_or_id), allow_patterns=[WEIGHTS, CONFIG])))
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"{path_or_id}: neither a folder nor a repository that can be had from the hub ({reason})"
            " -> check the path, or fetch the repository on a machine with a network and give its folder"
        ) from None


def weights_hash(encoder: nn.Module) -> str:
    """SHA-256 of an encoder's weights by name, the same wherever and however they were stored."""
    digest = hashlib.sha256()
    for name, tensor in sorted(encoder.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


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

- Input: a tracklet, any number of square crops of a polyp, {size} x {size} pixels, RGB in [0, 1] normalised with
  mean {mean} and std {std}.
- Output: one vector of {encoder.width} numbers; compare by cosine.
- Backbone {encoder.settings["backbone"]}, {millions:.1f} M parameters with the projector.
- Trained: {trained}

```python
from polyptrace.encoders import from_pretrained

encoder = from_pretrained("PATH")  # this folder, or its id on the hub
vectors = encoder(frames, mask)  # (B, L, 3, {size}, {size}), (B, L) -> (B, {encoder.width})
```

`polyptrace embed PATH --data DATASET --out EMBEDDINGS` does the same for a prepared dataset.

For research. Not a medical device: do not use it for decisions about patients.

```json
{json.dumps(encoder.settings, indent=2)}
```
"""


def _preprocess(encoder: OwnEncoder) -> dict[str, Any]:
    return {
        "size": encoder.preprocess.size,
        "mean": list(encoder.preprocess.mean),
        "std": list(encoder.preprocess.std),
    }
