"""Weights files: downloaded, read without running pickled code, checked name by name against a network, and hashed.

Safetensors and torch files are recognised by their content, whatever they are called. A torch file is read with
`weights_only=True`. In addition to tensors, two kinds of pickled objects are accepted, because training scripts leave
them in their files: `argparse.Namespace`, and NumPy scalars and dtypes, which are replaced by objects that do nothing.
"""

import argparse
import hashlib
import json
import os
import re
import socket
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import torch
from huggingface_hub import constants
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OfflineModeIsEnabled
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import polyptrace
from polyptrace.core.errors import UserError

#: The name of the encoder that comes with the package, and the folder that has it.
DEFAULT = "default"
PRETRAINED = Path(polyptrace.__file__).parent / "pretrained"

#: Entries under which training scripts save weights; if a file has several, the first of these is used.
CONTAINERS = ("teacher", "student", "model", "state_dict", "encoder", "target_encoder")

#: Prefixes that other programs put before the names of a network's weights.
PREFIXES = ("module.", "_orig_mod.", "model.", "backbone.", "encoder.")

#: Classifiers, which a backbone does not have.
CLASSIFIERS = ("fc.", "head.", "classifier.")

#: Weights files in a folder from the hub, best first.
FOLDER_FILES = ("model.safetensors", "pytorch_model.bin")

#: The largest header of a safetensors file, as the format defines it.
SAFETENSORS_HEADER = 100_000_000

HUB_TIMEOUT = 3.0  # seconds


class _Inert:
    """Replaces a pickled NumPy scalar or dtype: nothing of NumPy is called, and the value is dropped."""

    def __init__(self, *_: object) -> None: ...

    def __setstate__(self, _: object) -> None: ...


_NUMPY_NAMES = ("numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar", "numpy.dtype")


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The named tensors of a file or a folder, taken out of the entries that training scripts use."""
    content = read_content(path)
    while (entry := next((name for name in CONTAINERS if isinstance(content.get(name), Mapping)), None)) is not None:
        content = content[entry]
    tensors = {str(name): value for name, value in content.items() if isinstance(value, Tensor)}
    if not tensors:
        listed = ", ".join(sorted(map(str, content))[:6]) or "nothing"
        raise UserError(
            f"{path}: contains no weights (only {listed}) -> give a file of named tensors, or one that has them under"
            f" {', '.join(CONTAINERS)}"
        )
    return tensors


def read_content(path: Path) -> Mapping[str, Any]:
    """Everything that a file or a folder contains; pickled code is never run."""
    if path.is_dir():
        file = next((path / name for name in FOLDER_FILES if (path / name).is_file()), None)
        if file is None:
            raise UserError(f"{path}: contains none of {', '.join(FOLDER_FILES)} -> give the weights file itself")
        path = file
    return read_safetensors(path) if _is_safetensors(path) else _read_torch(path)


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file; any other file is an error."""
    if not _is_safetensors(path):
        raise UserError(f"{path}: not a safetensors file; pickled weights are not read here -> download it again")
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise UserError(f"{path}: not a complete safetensors file ({error}) -> download it again") from None


def write_safetensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Writes a safetensors file. A full disk is an `OSError`, as for other files."""
    try:
        save_file(tensors, path, metadata)
    except SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from None


def _is_safetensors(path: Path) -> bool:
    if not path.is_file():
        raise UserError(f"{path}: no such weights file -> check the path")
    with path.open("rb") as file:
        start = file.read(9)
    return start[8:] == b"{" and int.from_bytes(start[:8], "little") <= SAFETENSORS_HEADER


def _read_torch(path: Path) -> Mapping[str, Any]:
    allowed: list[Any] = [argparse.Namespace, *((_Inert, name) for name in _NUMPY_NAMES)]
    try:
        with torch.serialization.safe_globals(allowed), path.open("rb") as file:  # a path's suffix would be trusted
            content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle can raise anything; torch's own text advises to run pickled code
        pickled = re.search(r"GLOBAL (\S+)", str(error))
        if pickled:
            raise UserError(
                f"{path}: contains the pickled object {pickled[1]}, which is not loaded because it could run code"
                " -> save the weights alone (a state_dict) on a computer where you trust the file"
            ) from None
        raise UserError(f"{path}: not a complete torch or safetensors file -> download it again") from None
    if not isinstance(content, Mapping):
        raise UserError(f"{path}: contains a {type(content).__name__}, not named tensors -> save a state_dict")
    return content


def misfit(
    given: Mapping[str, Tensor],
    wanted: Mapping[str, Tensor],
    names: Mapping[str, str] | None = None,
    optional: Collection[str] = (),
) -> str:
    """Why tensors do not fit those of a network, with both shapes or the type where these differ; "" if they fit.

    `names` are those of the tensors in their file, if they are others. `optional` ones may be missing.
    """
    named = {name: (names or {}).get(name, name) for name in given}
    common = [name for name in given if name in wanted]
    problems = {
        "missing": [name for name in wanted if name not in given and name not in optional],
        "unexpected": sorted({named[name] for name in given if name not in wanted}),
        "of another shape": [
            f"{named[name]} is {tuple(given[name].shape)}, not {tuple(wanted[name].shape)}"
            for name in common
            if given[name].shape != wanted[name].shape
        ],
        "not real numbers": [
            f"{named[name]} is {str(given[name].dtype).removeprefix('torch.')}"
            for name in common
            if given[name].is_complex() or (wanted[name].is_floating_point() and not given[name].is_floating_point())
        ],
    }
    return "; ".join(f"{len(names)} {what}: {_listed(names)}" for what, names in problems.items() if names)


def fill_network(
    network: nn.Module, tensors: Mapping[str, Tensor], where: str, advice: str = "give weights of the same architecture"
) -> None:
    """Fills a network with named tensors; an error lists those that are missing, unexpected, reshaped or not floats."""
    wanted = network.state_dict()
    counters = {name for name in wanted if name.endswith("num_batches_tracked")}
    if problem := misfit(tensors, wanted, optional=counters):
        raise UserError(f"{where}: not the weights of this network ({problem}) -> {advice}")
    network.load_state_dict(tensors, strict=False)


def load_weights(network: nn.Module, path: Path, where: str) -> None:
    """Fills a network from a weights file, whatever prefix its names have; a classifier is left out.

    Of an encoder with a backbone, the backbone is taken. `where` names the weights in errors.
    """
    wanted, tensors = set(network.state_dict()), read_tensors(path)
    backbone = {name: tensor for name, tensor in tensors.items() if name.startswith("backbone.")}
    tensors = backbone or tensors
    for prefix in PREFIXES:
        if not wanted & set(tensors):
            tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    tensors = {name: value for name, value in tensors.items() if name in wanted or not name.startswith(CLASSIFIERS)}
    advice = "choose the backbone whose weights these are (an encoder's is in its config.json), or other weights"
    fill_network(network, tensors, where, advice)


def default_folder() -> Path:
    """The folder of the encoder that comes with the package."""
    folder = PRETRAINED / DEFAULT
    if not (folder / "config.json").is_file():
        raise UserError(
            f"{DEFAULT}: this installation has no default encoder ({folder}) -> give a run, a folder or another name;"
            " in a checkout of the repository, `python -m benchmarks default_encoder` trains it"
        )
    return folder


def weights_hash(network: nn.Module) -> str:
    """SHA-256 of a network's weights by name, the same wherever and in whatever floating-point type they are stored."""
    digest = hashlib.sha256()
    for name, stored in sorted(network.state_dict().items()):
        tensor = stored.float() if stored.is_floating_point() else stored
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def fingerprint(encoder: nn.Module, weights: str = "") -> str:
    """SHA-256 of all that decides an encoder's vectors: weights, architecture, preprocessing and pooling.

    `weights` is the `weights_hash` of the encoder, if it is known already.
    """
    settings = {key: value for key, value in getattr(encoder, "settings", {}).items() if key != "name"}
    parts = {
        "weights": weights or weights_hash(encoder),
        "kind": type(encoder).__name__,
        "architecture": repr(getattr(encoder, "architecture", "")),
        "settings": settings,
        "preprocess": repr(getattr(encoder, "preprocess", "")),
        "pooling": str(getattr(encoder, "pooling", "")),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _listed(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


@contextmanager
def hub_or_cache(what: str, advice: str) -> Iterator[None]:
    """Inside this block, `what` is downloaded from the Hugging Face hub, or taken from its local cache.

    If the hub cannot be reached, only the cache is used: the hub's client would repeat each request for almost a minute
    before it reports the error.
    """
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = before or not _is_reachable(constants.ENDPOINT)
    try:
        yield
    except (LocalEntryNotFoundError, OfflineModeIsEnabled):
        raise UserError(f"{what} is not in the local cache and the hub cannot be reached -> {advice}") from None
    except (HFValidationError, HfHubHTTPError, OSError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"{what} cannot be downloaded from the hub ({reason}) -> {advice}") from None
    finally:
        constants.HF_HUB_OFFLINE = before


def _is_reachable(url: str) -> bool:
    """Whether a server accepts connections; with a proxy, this cannot be known in advance."""
    address = urlsplit(url)
    if getproxies().get(address.scheme):
        return True
    try:
        socket.create_connection((address.hostname or "", address.port or 443), HUB_TIMEOUT).close()
    except OSError:
        return False
    return True
