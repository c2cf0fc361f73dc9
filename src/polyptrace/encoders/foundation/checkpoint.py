"""Reads published weight files into named tensors: safetensors, torch pickles and folders with either.

Pickled code is never run: beside tensors, the only class let through is the argparse namespace that training scripts
leave in their files.
"""

import argparse
import json
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from polyptrace.core.errors import UserError

#: What training scripts put their weights under; where there are several, the first is the one to use.
CONTAINERS = ("teacher", "student", "model", "state_dict", "target_encoder", "encoder")

#: What training scripts put before the names.
PREFIXES = re.compile(r"^(?:module\.|backbone\.|_orig_mod\.)+")

#: File names in a folder that came from the hub, best first; an index names the files of weights in several parts.
NAMES = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")


def read_checkpoint(path: Path) -> dict[str, Tensor]:
    """The named tensors of a file or folder, out of their containers and without the prefixes of training scripts."""
    content = _unwrapped(_read(path))
    strays = sorted(str(key) for key, value in content.items() if not isinstance(value, Tensor))
    if strays or not content:
        raise UserError(
            f"{path}: holds {', '.join(strays[:6]) or 'nothing'} where weights are expected"
            f" -> give a file of named tensors, or one that has them under {', '.join(CONTAINERS)}"
        )
    weights = {PREFIXES.sub("", str(key)): value for key, value in content.items()}
    if len(weights) < len(content):
        raise UserError(f"{path}: holds some weights twice, behind different prefixes -> keep one of each")
    return weights


def _read(path: Path) -> Mapping[str, Any]:
    if path.is_dir():
        found = next((path / name for name in NAMES if (path / name).is_file()), None)
        if found is None:
            raise UserError(f"{path}: holds none of {', '.join(NAMES)} -> give the file itself")
        return _read(found)
    if path.name.endswith(".index.json"):
        parts = sorted(set(json.loads(path.read_text(encoding="utf-8"))["weight_map"].values()))
        return {key: value for part in parts for key, value in _read(path.parent / part).items()}
    if not path.is_file():
        raise UserError(f"{path}: no such file of weights -> check the path")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        with torch.serialization.safe_globals([argparse.Namespace]):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"{path}: not a whole file of plain tensors ({reason}) -> fetch it again; if it holds more than tensors,"
            " save its weights alone, on a machine where you trust it"
        ) from None
    if not isinstance(content, Mapping):
        raise UserError(f"{path}: holds a {type(content).__name__}, not named tensors -> give a file of weights")
    return content


def _unwrapped(content: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = next((key for key in CONTAINERS if isinstance(content.get(key), Mapping)), None)
    return content if inner is None else _unwrapped(content[inner])
