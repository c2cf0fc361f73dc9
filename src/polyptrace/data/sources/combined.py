"""The paper's combined datasets, read from one folder with a folder of each dataset.

`rsp` is REAL-Colon's evaluation part, SUN and PolypSize, for size; `rspp` adds PolypsSet, for histology.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from polyptrace.core.errors import UserError
from polyptrace.data.boxes import Boxes
from polyptrace.data.sources.paths import below
from polyptrace.data.sources.polypsize import read_polypsize
from polyptrace.data.sources.polypsset import read_polypsset
from polyptrace.data.sources.realcolon import read_realcolon
from polyptrace.data.sources.sun import read_sun

_OTHER_NAMES = {"polypsize": ("polypsizedataset",), "sun": ("sundatabase",)}


@dataclass(frozen=True)
class Combination:
    """A reader of several datasets from folders that are named after them."""

    parts: tuple[str, ...]

    def __call__(
        self,
        path: Path,
        *,
        split: str | None = None,
        cases: Path | None = None,
        columns: Mapping[str, str] | None = None,
        histology: Mapping[str, str] | None = None,
        workers: int = 0,
        cache: Path | None = None,
    ) -> Boxes:
        """The boxes of each part; a missing part is an error before any is read.

        `cases` is an option of SUN, `columns` of PolypSize, `workers` and `cache` of REAL-Colon.
        """
        if split:
            raise UserError(
                f"--split {split}: a combined dataset has no splits -> omit it; the evaluation splits by polyp"
            )
        folders = {part: _folder(Path(path), part) for part in self.parts}
        readers: dict[str, Callable[[Path], Boxes]] = {
            "realcolon": lambda folder: read_realcolon(
                folder, split="paper-eval", histology=histology, workers=workers, cache=cache
            ),
            "sun": lambda folder: read_sun(folder, cases=cases, histology=histology),
            "polypsize": lambda folder: read_polypsize(folder, columns=columns, histology=histology),
            "polypsset": lambda folder: read_polypsset(folder, histology=histology),
        }
        return Boxes.concatenate([below(readers[part](folder), folder.name) for part, folder in folders.items()])


#: REAL-Colon's evaluation videos, SUN and PolypSize.
read_rsp = Combination(("realcolon", "sun", "polypsize"))

#: The same plus PolypsSet.
read_rspp = Combination((*read_rsp.parts, "polypsset"))


def _folder(path: Path, part: str) -> Path:
    """The folder of a dataset in any spelling: `REAL-Colon`, `real_colon`, `realcolon`."""
    for entry in sorted(path.iterdir()) if path.is_dir() else ():
        plain = "".join(letter for letter in entry.name.lower() if letter.isalnum())
        if entry.is_dir() and plain in (part, *_OTHER_NAMES.get(part, ())):
            return entry
    raise UserError(
        f"{path}: has no folder {part!r} -> put each dataset into a folder with its name (or read the authors' JSON "
        "files with the source 'coco')"
    )
