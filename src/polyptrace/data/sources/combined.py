"""The paper's combinations: `rsp` (REAL-Colon's evaluation part, SUN, PolypSize) for size, `rspp` (and PolypsSet) for
histology, read from one folder that holds a folder of each dataset."""

from collections.abc import Callable, Mapping
from pathlib import Path

from polyptrace.data.boxes import Boxes
from polyptrace.data.sources.names import below
from polyptrace.data.sources.polypsize import read_polypsize
from polyptrace.data.sources.polypsset import read_polypsset
from polyptrace.data.sources.realcolon import read_realcolon
from polyptrace.data.sources.sun import read_sun
from polyptrace.errors import UserError

_PARTS: dict[str, Callable[..., Boxes]] = {
    "realcolon": read_realcolon,
    "sun": read_sun,
    "polypsize": read_polypsize,
    "polypsset": read_polypsset,
}
_OTHER_NAMES = {"polypsize": ("polypsizedataset",), "sun": ("sundatabase",)}


def read_rsp(path: Path, *, split: str | None = None, histology: Mapping[str, str] | None = None) -> Boxes:
    """REAL-Colon's evaluation videos, SUN and PolypSize, from folders of these names in `path`."""
    return _combined(path, ("realcolon", "sun", "polypsize"), split, histology)


def read_rspp(path: Path, *, split: str | None = None, histology: Mapping[str, str] | None = None) -> Boxes:
    """REAL-Colon's evaluation videos, SUN, PolypSize and PolypsSet, from folders of these names in `path`."""
    return _combined(path, tuple(_PARTS), split, histology)


def _combined(path: Path, parts: tuple[str, ...], split: str | None, histology: Mapping[str, str] | None) -> Boxes:
    if split:
        raise UserError(f"--split {split}: a combination has its own parts -> leave it out, and split by polyp")
    folders = {part: _folder(Path(path), part) for part in parts}
    tables = []
    for part, folder in folders.items():
        chosen = "paper-eval" if part == "realcolon" else None
        table = _PARTS[part](folder, split=chosen, histology=histology)
        tables.append(below(table, folder.name))
    return Boxes.concatenate(tables)


def _folder(path: Path, part: str) -> Path:
    """The folder of a dataset, however its name is written: `REAL-Colon`, `real_colon`, `realcolon`."""
    for entry in sorted(path.iterdir()) if path.is_dir() else ():
        plain = "".join(letter for letter in entry.name.lower() if letter.isalnum())
        if entry.is_dir() and plain in (part, *_OTHER_NAMES.get(part, ())):
            return entry
    raise UserError(
        f"{path}: no folder {part!r} in it -> put each dataset into a folder of its name (or give the authors' JSON "
        "files to the source 'coco')"
    )
