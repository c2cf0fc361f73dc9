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

_OTHER_NAMES = {"polypsize": ("polypsizedataset",), "sun": ("sundatabase",)}


def read_rsp(
    path: Path,
    *,
    split: str | None = None,
    cases: Path | None = None,
    columns: Mapping[str, str] | None = None,
    histology: Mapping[str, str] | None = None,
    workers: int = 0,
    cache: Path | None = None,
) -> Boxes:
    """REAL-Colon's evaluation videos, SUN and PolypSize, from folders of these names in `path`.

    `cases` is SUN's, `columns` PolypSize's, `workers` and `cache` REAL-Colon's: see there.
    """
    readers = _readers(cases, columns, histology, workers, cache)
    return _combined(path, split, {part: read for part, read in readers.items() if part != "polypsset"})


def read_rspp(
    path: Path,
    *,
    split: str | None = None,
    cases: Path | None = None,
    columns: Mapping[str, str] | None = None,
    histology: Mapping[str, str] | None = None,
    workers: int = 0,
    cache: Path | None = None,
) -> Boxes:
    """REAL-Colon's evaluation videos, SUN, PolypSize and PolypsSet; everything else as in `read_rsp`."""
    return _combined(path, split, _readers(cases, columns, histology, workers, cache))


def _readers(
    cases: Path | None,
    columns: Mapping[str, str] | None,
    histology: Mapping[str, str] | None,
    workers: int,
    cache: Path | None,
) -> dict[str, Callable[[Path], Boxes]]:
    """How the folder of each part is read."""
    return {
        "realcolon": lambda folder: read_realcolon(
            folder, split="paper-eval", histology=histology, workers=workers, cache=cache
        ),
        "sun": lambda folder: read_sun(folder, cases=cases, histology=histology),
        "polypsize": lambda folder: read_polypsize(folder, columns=columns, histology=histology),
        "polypsset": lambda folder: read_polypsset(folder, histology=histology),
    }


def _combined(path: Path, split: str | None, readers: Mapping[str, Callable[[Path], Boxes]]) -> Boxes:
    """The boxes of each part; a missing part is said before any is read."""
    if split:
        raise UserError(f"--split {split}: a combination has its own parts -> leave it out, and split by polyp")
    folders = {part: _folder(Path(path), part) for part in readers}
    return Boxes.concatenate([below(read(folders[part]), folders[part].name) for part, read in readers.items()])


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
