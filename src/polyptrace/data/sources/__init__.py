"""Readers of published annotation formats: one `read_*` function per format, each returning a box table.

`rsp` and `rspp` are the paper's combined datasets, read from one folder with a folder of each dataset: REAL-Colon's
evaluation part, SUN and PolypSize, for size; `rspp` adds PolypsSet, for histology.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from polyptrace.core.errors import UserError
from polyptrace.data.boxes import Boxes
from polyptrace.data.sources.coco import read_coco, read_cocovid
from polyptrace.data.sources.cvat import read_cvat
from polyptrace.data.sources.file_names import below
from polyptrace.data.sources.mot import read_mot
from polyptrace.data.sources.polypsize import read_polypsize
from polyptrace.data.sources.polypsset import read_polypsset
from polyptrace.data.sources.realcolon import read_realcolon
from polyptrace.data.sources.sun import read_sun
from polyptrace.data.sources.voc import read_voc
from polyptrace.data.sources.yolo import read_yolo

_OTHER_NAMES = {"polypsize": ("polypsizedataset",), "sun": ("sundatabase",)}


def _read_parts(
    parts: tuple[str, ...],
    path: Path,
    *,
    cases: Path | None = None,
    columns: Mapping[str, str] | None = None,
    histology: Mapping[str, str] | None = None,
) -> Boxes:
    """The boxes of several datasets, from folders named after them; a missing one is an error before any is read.

    `cases` is an option of SUN, `columns` of PolypSize.
    """
    folders = {part: _folder(Path(path), part) for part in parts}
    readers: dict[str, Callable[[Path], Boxes]] = {
        "realcolon": partial(read_realcolon, split="paper-eval", histology=histology),
        "sun": partial(read_sun, cases=cases, histology=histology),
        "polypsize": partial(read_polypsize, columns=columns, histology=histology),
        "polypsset": partial(read_polypsset, histology=histology),
    }
    return Boxes.concatenate([below(readers[part](folder), folder.name) for part, folder in folders.items()])


#: REAL-Colon's evaluation videos, SUN and PolypSize.
read_rsp = partial(_read_parts, ("realcolon", "sun", "polypsize"))

#: The same plus PolypsSet.
read_rspp = partial(_read_parts, ("realcolon", "sun", "polypsize", "polypsset"))

SOURCES: dict[str, Callable[..., Boxes]] = {
    "realcolon": read_realcolon,
    "sun": read_sun,
    "polypsize": read_polypsize,
    "polypsset": read_polypsset,
    "coco": read_coco,
    "cocovid": read_cocovid,
    "mot": read_mot,
    "cvat": read_cvat,
    "voc": read_voc,
    "yolo": read_yolo,
    "rsp": read_rsp,
    "rspp": read_rspp,
}


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


def read_source(name: str, path: Path, options: Mapping[str, Any], video: Path | None = None) -> Boxes:
    """The boxes of a source by its name; options that are None are ignored.

    `video` is the file of boxes without a video or images beside them.
    """
    given = check_source(name, path, options)
    if "video" in inspect.signature(SOURCES[name]).parameters:
        given["video"] = video
    return SOURCES[name](path, **given)


def check_source(name: str, path: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are given; an error if there is no such source or path, or the source lacks an option."""
    if name not in SOURCES:
        raise UserError(f"{name}: is not a source -> one of {', '.join(SOURCES)}")
    if not path.exists():
        raise UserError(f"{path}: no such file or folder -> check the path")
    given = {option: value for option, value in options.items() if value is not None}
    known = dict(list(inspect.signature(SOURCES[name]).parameters.items())[1:])
    known.pop("video", None)  # not an option of the command line
    for option, value in given.items():
        flag = f"--{option.replace('_', '-')}"
        if option not in known:
            others = ", ".join(f"--{other.replace('_', '-')}" for other in known)
            raise UserError(f"{name}: has no option {flag} -> it has {others}")
        choices = get_args(known[option].annotation) if get_origin(known[option].annotation) is Literal else ()
        if choices and value not in choices:
            raise UserError(f"{flag} {value}: not a choice -> {' or '.join(choices)}")
    return given
