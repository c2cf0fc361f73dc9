"""Finds the weights that a user names: a file, a folder, or, only where one is asked for, something on the hub."""

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
from polyptrace.encoders.foundation.catalogue import FoundationModel

#: File names to try in a repository that is not the model's own.
USUAL_FILES = ("model.safetensors", "pytorch_model.bin")

FILE_ENDINGS = {".safetensors", ".pth", ".pt", ".bin", ".ckpt", ".json"}


def find_weights(name: str, model: FoundationModel, weights: str | Path) -> Path:
    """The local path of `weights`: a path, `hub` (the model's repository), `hub:OWNER/NAME[/FILE]`, or OWNER/NAME.

    `cached` is what came from the model's repository before; nobody is asked for it.
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
    if _is_hub_id(text):
        return download(name, model, text, _files(model, text))
    raise UserError(
        f"--weights: {text} is no file, no folder and no hub id -> check the path; weights of {name}: {model.page}"
    )


def cached_weights(model: FoundationModel) -> Path | None:
    """The published file in the hub's cache on this machine, if it is there; asks nobody."""
    return _cached(model.hub, model.file) if model.hub else None


def download(name: str, model: FoundationModel, repository: str, files: tuple[str, ...]) -> Path:
    """The first of the files that a repository has; the hub is asked only for what its cache here does not have."""
    by_hand = f"or get the file on another machine ({model.page}) and give its path with --weights"
    for file in files:
        try:
            return _cached(repository, file) or Path(hf_hub_download(repository, file))
        except GatedRepoError:
            mirror = f"take the mirror with --weights hub:{model.mirror}, " if model.mirror else ""
            raise UserError(
                f"{repository}: the licence of {name} has to be accepted first -> accept it at"
                f" https://huggingface.co/{repository} and run `hf auth login`, {mirror}{by_hand}"
            ) from None
        except (LocalEntryNotFoundError, OfflineModeIsEnabled):
            raise UserError(
                f"{repository}: {file} is not on this machine and the hub cannot be reached -> go online, {by_hand}"
            ) from None
        except RepositoryNotFoundError:
            raise UserError(
                f"{repository}: no such repository on the hub, or it is private -> check the name"
                f" ({name} is at {model.page}), run `hf auth login`, {by_hand}"
            ) from None
        except EntryNotFoundError:
            continue
        except (HfHubHTTPError, HFValidationError, OSError) as error:
            reason = str(error).partition("\n")[0]
            raise UserError(f"{repository}: {file} did not come ({reason}) -> try again, {by_hand}") from None
    raise UserError(
        f"{repository}: has none of {', '.join(files)} -> name the file, --weights hub:{repository}/FILE, {by_hand}"
    )


def _not_here(name: str, model: FoundationModel) -> NoReturn:
    fetch = "fetch them with --weights hub, or " if model.hub else ""
    raise UserError(
        f"{name}: its weights are not on this machine -> {fetch}get {model.file} from {model.page}"
        " and give its path with --weights"
    )


def _cached(repository: str, file: str) -> Path | None:
    found = try_to_load_from_cache(repository, file)
    return Path(found) if isinstance(found, str) else None


def _files(model: FoundationModel, repository: str) -> tuple[str, ...]:
    return (model.file,) if repository == model.hub else USUAL_FILES


def _is_hub_id(text: str) -> bool:
    """OWNER/NAME that cannot be meant as a path."""
    path = Path(text)
    plain = re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", text) is not None
    return plain and path.suffix not in FILE_ENDINGS and not path.parent.exists()
