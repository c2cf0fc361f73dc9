"""Reads the checkpoint of the authors' release (Lightning) into our tracklet encoder, without running pickled code.

encoder = load_authors_checkpoint(Path("hmve.ckpt"))
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from polyptrace.core.errors import UserError
from polyptrace.encoders.backbone import read_content
from polyptrace.encoders.tracklet import TrackletEncoder

#: Where the release keeps each part, and what we call it.
PARTS = {
    "mve.sfe.backbone.": "backbone.",
    "mve.adapter.": "adapter.",
    "mve.cls_token": "token",
    "mve.encoder.layers.": "layers.",
    "mve.encoder.norm.": "output_norm.",
    "mve.encoder_norm.": "output_norm.",
    "mve.feature_norm.": "feature_norm.",
    "projector.": "projector.",
}


def load_authors_checkpoint(path: Path) -> TrackletEncoder:
    """The encoder of a checkpoint that the authors' trainer wrote, in evaluation mode."""
    content = read_content(path)
    try:
        tensors, chosen = content["state_dict"], content["hyper_parameters"]
        encoder = TrackletEncoder(
            backbone=chosen["backbone_arch"],
            width=chosen["d_model"],
            layers=chosen["n_layers"],
            heads=chosen["n_heads"],
            feed_forward=chosen["d_feedforward"],
            dropout=chosen["dropout"],
            projector_hidden=len(tensors["projector.0.bias"]),
            projection=len(tensors["projector.2.bias"]),
            feature_norm=bool(chosen.get("use_feature_norm")),
            output_norm=bool(chosen.get("use_encoder_norm")),
            name="authors",
        )
    except KeyError as error:
        raise UserError(
            f"{path}: has no {error} -> is it a checkpoint of the authors' release (Lightning, with hyper_parameters)?"
        ) from None
    _fill(encoder, renamed(tensors), path)
    return encoder.eval()


def renamed(tensors: Mapping[str, Any]) -> dict[str, Tensor]:
    """The release's tensors under our names; a name that it should not have stays as it is."""
    ours = {}
    for name, tensor in tensors.items():
        part = next((part for part in PARTS if name.startswith(part)), "")
        ours[PARTS.get(part, "") + name.removeprefix(part)] = tensor
    return ours


def _fill(encoder: TrackletEncoder, tensors: Mapping[str, Tensor], path: Path) -> None:
    wanted = encoder.state_dict()
    wrong = sorted(set(tensors) ^ set(wanted))
    wrong += [n for n in sorted(set(tensors) & set(wanted)) if tensors[n].shape != wanted[n].shape]
    if wrong:
        raise UserError(
            f"{path}: does not fit its own hyper_parameters: {', '.join(wrong[:6])}"
            + (f" and {len(wrong) - 6} more" if len(wrong) > 6 else "")
            + " -> was it written by the authors' release?"
        )
    encoder.load_state_dict(dict(tensors))
