"""Output files and folders: written atomically, reused only if made with the same settings; JSON, CSV, provenance."""

import csv
import ctypes
import errno
import hashlib
import io
import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import polyptrace
from polyptrace.core.errors import UserError
from polyptrace.core.lock import TAG, owner_ended, owner_tag

PARTIAL, REPLACED = ".partial", ".replaced"  # endings of temporary names: being written, moved away to be replaced
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of renameat2(2)
#: Settings that affect where and how fast something is computed, but not what is computed. An output that was made
#: with other values of these is still valid, and a run may be resumed with other values. Only an interrupted `embed`
#: starts anew with other values, because it promises the bytes of an uninterrupted one.
HARMLESS = frozenset(
    {
        "crops.workers",
        "train.device",
        "train.devices",
        "train.threads",
        "train.compile",
        "train.crops",
        "train.checkpoint_every",
        "train.checkpoint_minutes",
        "train.log_every",
        "train.loggers",
        "embed.device",
        "embed.compile",
        "embed.batch_frames",
        "embed.block_frames",
        "evaluate.device",
    }
)
#: The file that marks the folder of a command, and what the folder contains.
CONTENTS = {
    "synth": ("synthetic.json", "generated procedures"),
    "prepare": ("dataset.json", "a dataset"),
    "train": ("metrics.jsonl", "a training run"),
    "embed": ("embeddings.json", "vectors"),
    "export": ("export.json", "an exported encoder"),
    "lesions": ("lesions.csv", "lesions"),
    "report": ("report.html", "a report"),  # before results, because a report has a results.json too
    "evaluate": ("results.json", "results"),
}


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yields a temporary path that is renamed to `path` if the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    recover(path)
    temporary = path.with_name(f".{path.name}.{owner_tag()}{PARTIAL}{path.suffix}")
    try:
        yield temporary
        sync(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Raises an error if nothing can be written at `path`. Call it before the work."""
    parent = next(parent for parent in path.absolute().parents if parent.exists())
    try:
        tempfile.TemporaryFile(dir=parent).close()  # permissions alone do not tell: nobody can write to /proc
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise UserError(
            f"{path}: {parent} cannot be written to -> choose another folder, or check its permissions"
        ) from None


def refuse_existing(path: Path, overwrite: bool = False, mark: str | None = None) -> None:
    """Raises an error if `path` cannot be written, or exists and may not be replaced.

    With `overwrite`, a folder is replaced only if it contains the file `mark`, which shows that polyptrace wrote it.
    Call it before the work; `atomic_folder` calls it as well.
    """
    check_writable(path)
    recover(path)
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not overwrite:
        raise UserError(f"{path}: already exists -> give another folder, remove it, or pass --overwrite")
    if mark is not None and not (path / mark).is_file():
        raise UserError(f"{path}: contains no {mark}, so this command did not write it -> give another folder")


@contextmanager
def atomic_folder(path: Path, *, overwrite: bool = False, mark: str | None = None) -> Iterator[Path]:
    """Yields a temporary folder that is renamed to `path` if the block ends without an error.

    An existing folder is replaced under the conditions of `refuse_existing`. At any moment either the old folder or the
    new one is complete, under its name or under one that `recover` puts back.
    """
    refuse_existing(path, overwrite, mark)
    path = path.resolve()  # replace the target of a link, not the link
    path.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{path.name}.{owner_tag()}."
    temporary = Path(tempfile.mkdtemp(prefix=prefix, suffix=PARTIAL, dir=path.parent))
    temporary.chmod(0o755)
    try:
        yield temporary
        move_folder(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def move_folder(new: Path, path: Path) -> None:
    """Renames the folder `new` to `path`. An existing folder there is replaced; it is left as `new` or removed."""
    if not path.is_dir():
        new.rename(path)
    elif not _exchange(new, path):
        replaced = path.with_name(f".{path.name}.{owner_tag()}{REPLACED}")
        path.rename(replaced)
        new.rename(path)
        shutil.rmtree(replaced)


def recover(path: Path) -> None:
    """Cleans up after processes that were killed while they wrote `path`: call it before looking at `path`.

    A folder that was moved away to be replaced is put back, and temporary files and folders are removed. Those of
    running processes and of other hosts are kept.
    """
    if not path.parent.is_dir():
        return
    for leftover in sorted(path.parent.iterdir()):
        name = leftover.name
        if not (name.startswith(f".{path.name}.") and TAG.match(name, 1 + len(path.name)) and owner_ended(name)):
            continue
        if name.endswith(REPLACED) and not path.exists():
            leftover.rename(path)
        elif PARTIAL in name or name.endswith(REPLACED):
            remove(leftover)


def remove_temporary_files(folder: Path) -> None:
    """Removes all temporary files and folders in a folder and below. The caller has the folder's lock."""
    for leftover in list(folder.rglob(f".*{PARTIAL}*")):
        remove(leftover)


def remove(path: Path) -> None:
    """Removes a file or a folder with its content."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Makes the content of a file durable, or the names of the files in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exchange(first: Path, second: Path) -> bool:
    """Swaps two names in one atomic step; False where the system or the file system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(AT_FDCWD, os.fsencode(first), AT_FDCWD, os.fsencode(second), RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
        return False
    raise OSError(number, os.strerror(number), str(second))


def differences(old: Mapping[str, Any], new: Mapping[str, Any], section: str = "") -> list[str]:
    """One line `key: old -> new` for each setting that differs, except for harmless ones; None where one is missing.

    `section` is what the keys begin with.

    >>> differences({"seed": 0, "crops": {"size": 232, "scale": 5}}, {"seed": 1, "crops": {"size": 64, "scale": 5}})
    ['seed: 0 -> 1', 'crops.size: 232 -> 64']
    """
    lines = []
    for key in dict.fromkeys((*old, *new)):
        name, before, after = f"{section}{key}", old.get(key), new.get(key)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            lines += differences(before, after, f"{name}.")
        elif before != after and name not in HARMLESS:
            lines.append(f"{name}: {before!r} -> {after!r}")
    return lines


def refuse_changes(made: str, changed: Sequence[str], advice: str) -> None:
    """Raises an error that lists the changed settings, if there are any."""
    if changed:
        listed = "\n  ".join(changed)
        raise UserError(f"{made} with other settings, existing -> requested:\n  {listed}\n-> {advice}")


def described(path: Path) -> str | None:
    """What a folder contains and which command wrote it; None if no command wrote it."""
    for command, (mark, _) in CONTENTS.items():
        if (path / mark).is_file():
            return _written(command)
    return None


def _written(command: str) -> str:
    return f"{CONTENTS[command][1]}, written by 'polyptrace {command}'"


def wrong_folder(path: Path, command: str, alternative: str = "") -> UserError:
    """The error for a path that is not a folder of `command`; `alternative` says what else may be given."""
    wanted = CONTENTS[command][1]
    missing = "no such file or folder" if alternative else "no such folder"
    problem = f"contains no {wanted.removeprefix('a ')}" if path.exists() else missing
    content = described(path)
    if content is not None and not (path / CONTENTS[command][0]).is_file():
        problem = f"contains {content}, not {wanted}"
    marks = path.glob(f"[!.]*/{CONTENTS[command][0]}")  # a report has the mark of results, too
    inside = [mark.parent for mark in marks if described(mark.parent) == _written(command)]
    advice = f"a folder that 'polyptrace {command}' wrote{alternative}" if len(inside) != 1 else str(inside[0])
    return UserError(f"{path}: {problem} -> give {advice}")


def write_json(path: Path, content: object) -> None:
    """Writes `content` atomically as indented JSON. NaN is refused, because JSON does not have it."""
    with atomic_file(path) as temporary:
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        temporary.write_text(text + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """The content of a JSON file, or an error that names the file and the line."""
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file -> check the path") from None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"{path}: not valid JSON ({error}) -> the file may be truncated; write it again") from None


def read_versioned(path: Path, version: int, advice: str) -> dict[str, Any]:
    """A JSON object that has its format version in `polyptrace`; another version than this one is an error."""
    content = read_json(path)
    written_version = content.get("polyptrace") if isinstance(content, dict) else None
    if written_version is None:
        raise UserError(f"{path}: not written by polyptrace (no format version) -> check the folder")
    if written_version != version:
        raise UserError(
            f"{path}: format version {written_version!r}, written by release {content.get('release', 'unknown')};"
            f" this release ({polyptrace.__version__}) reads {version} -> use that release, or {advice}"
        )
    return content


def write_csv(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """Writes rows as CSV, as `csv_text` gives it."""
    path.write_text(csv_text(rows), encoding="utf-8", newline="")


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV. Text that a spreadsheet would run as a formula gets a leading apostrophe."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows([safe_cell(str(cell)) for cell in row] for row in rows)
    return text.getvalue()


def safe_cell(text: str) -> str:
    """The text, or `'text` if it begins like a formula and is not a number."""
    try:
        float(text)
    except ValueError:
        return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
    return text


def file_hash(path: Path) -> str:
    """SHA-256 of a file's bytes, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def provenance() -> dict[str, Any]:
    """What made an output: the versions of polyptrace and its dependencies, the platform and the command."""
    versions = {}
    for name in ("torch", "torchvision", "timm", "transformers", "lightning", "numpy", "pyarrow", "onnxruntime"):
        with suppress(PackageNotFoundError):  # exported encoders run without most of them
            versions[name] = version(name)
    return {
        "polyptrace": polyptrace.__version__,
        "python": platform.python_version(),
        "packages": versions,
        "platform": platform.platform(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
    }
