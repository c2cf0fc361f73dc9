"""Finds weights by what a user gives: a file, a folder or, only on request, a repository on the hub."""

import re
from pathlib import Path
from typing import NoReturn

from huggingface_hub import hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)

from polyptrace.core.errors import UserError
from polyptrace.core.network import hub_or_cache
from polyptrace.encoders.foundation.catalogue import FoundationModel

#: Files to try in a repository that is not the model's own.
USUAL_FILES = ("model.safetensors", "pytorch_model.bin")

FILE_ENDINGS = {".safetensors", ".pth", ".pt", ".bin", ".ckpt", ".json"}


def find_weights(name: str, model: FoundationModel, weights: str | Path) -> Path:
    """The local path of `weights`: a path, `hub` (the model's repository), `hub:OWNER/NAME[/FILE]`, or OWNER/NAME.

    `cached` is a previous download from the model's repository; the network is not used.
    """
    text = str(weights)
    if text == "cached":
        return cached_weights(model) or _not_here(name, model)
    if text == "hub":
        return download(name, model, model.hub, (model.file,)) if model.hub else _not_here(name, model)
    if Path(text).exists():
        return Path(text)
    if text.startswith("hub:"):
        owner, repository, file = [*text.removeprefix("hub:").split("/", 2), "", ""][:3]
        named = f"{owner}/{repository}"
        return download(name, model, named, (file,) if file else _files(model, named))
    if is_hub_id(text):
        return download(name, model, text, _files(model, text))
    raise UserError(
        f"--weights: {text} is not a file, a folder or a hub id -> check the path; weights of {name}: {model.page}"
    )


def cached_weights(model: FoundationModel) -> Path | None:
    """The published file in the hub's local cache, if it exists; the network is not used."""
    return _cached(model.hub, model.file) if model.hub else None


def download(name: str, model: FoundationModel, repository: str, files: tuple[str, ...]) -> Path:
    """The first of the files that a repository has, from the local cache or else from the hub."""
    manually = f"or download the file on another computer ({model.page}) and give its path with --weights"
    for file in files:
        try:
            if cached := _cached(repository, file):
                return cached
            with hub_or_cache():
                return Path(hf_hub_download(repository, file))
        except GatedRepoError:
            mirror = f"use the mirror with --weights hub:{model.mirror}, " if model.mirror else ""
            raise UserError(
                f"{repository}: the licence of {name} must be accepted first -> accept it at"
                f" https://huggingface.co/{repository} and run `hf auth login`, {mirror}{manually}"
            ) from None
        except (LocalEntryNotFoundError, OfflineModeIsEnabled):
            raise UserError(
                f"{repository}: {file} is not in the local cache and the hub cannot be reached -> go online, {manually}"
            ) from None
        except RepositoryNotFoundError:
            raise UserError(
                f"{repository}: no such repository on the hub, or it is private -> check the name"
                f" ({name} is at {model.page}), run `hf auth login`, {manually}"
            ) from None
        except EntryNotFoundError:
            continue
        except (HfHubHTTPError, HFValidationError, OSError) as error:
            reason = str(error).partition("\n")[0]
            raise UserError(
                f"{repository}: {file} could not be downloaded ({reason}) -> try again, {manually}"
            ) from None
    raise UserError(
        f"{repository}: has none of {', '.join(files)} -> give the file, --weights hub:{repository}/FILE, {manually}"
    )


def _not_here(name: str, model: FoundationModel) -> NoReturn:
    from_hub = "download them with --weights hub, or " if model.hub else ""
    raise UserError(
        f"{name}: its weights are not in the local cache -> {from_hub}get {model.file} from {model.page}"
        " and give its path with --weights"
    )


def _cached(repository: str, file: str) -> Path | None:
    path = try_to_load_from_cache(repository, file)
    return Path(path) if isinstance(path, str) else None


def _files(model: FoundationModel, repository: str) -> tuple[str, ...]:
    return (model.file,) if repository == model.hub else USUAL_FILES


def is_hub_id(text: str) -> bool:
    """Whether a text is OWNER/NAME and not a path."""
    path = Path(text)
    plain = re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", text) is not None
    return plain and path.suffix not in FILE_ENDINGS and not path.parent.exists()
