"""Finds an encoder by whatever a user may call it: a run, a folder, a checkpoint, a name, an id on the hub."""

from pathlib import Path

from torch import nn

from polyptrace.core.errors import UserError
from polyptrace.encoders.authors import load_authors_checkpoint
from polyptrace.encoders.checkpoints import CONFIG, WEIGHTS, from_pretrained, load_folder
from polyptrace.encoders.colour_grid import ColourGrid
from polyptrace.encoders.foundation import FOUNDATION_MODELS, load_foundation

#: The folder of a run that holds its finished encoder.
FINAL = "encoder"

#: What files of weights are called.
SUFFIXES = (".ckpt", ".pt", ".pth", ".safetensors")


def load_encoder(
    path_or_name: str | Path, weights: str | Path | None = None, pooling: str = "default", preprocess: str = "own"
) -> nn.Module:
    """The encoder of a run folder, an encoder folder, the authors' checkpoint, a known name, or a hub id.

    Known names are `colour-grid` and the foundation models (`polyptrace encoders` lists them). `weights` (a file, a
    folder, `hub` or a hub id; those in the hub's cache here if none is given), `pooling` and `preprocess` are those of
    a foundation model.
    """
    path = Path(path_or_name)
    if str(path_or_name) == ColourGrid.name:
        return ColourGrid()
    if str(path_or_name) in FOUNDATION_MODELS:
        return load_foundation(str(path_or_name), weights or "cached", pooling, preprocess)
    if path.is_dir():
        return _from_folder(path)
    if path.is_file():
        return load_authors_checkpoint(path)
    if path.suffix in SUFFIXES:
        raise UserError(f"{path}: no such file -> check the path")
    return from_pretrained(path_or_name)


def _from_folder(folder: Path) -> nn.Module:
    if (folder / FINAL / CONFIG).is_file():
        return load_folder(folder / FINAL)
    if (folder / CONFIG).is_file() and (folder / WEIGHTS).is_file():
        return load_folder(folder)
    if (folder / "checkpoints").is_dir():
        raise UserError(f"{folder}: this run has not finished -> start its command again, it goes on where it was")
    raise UserError(f"{folder}: holds no encoder ({WEIGHTS} and {CONFIG}), nor is it a run -> check the path")
