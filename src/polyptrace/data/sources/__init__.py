"""Readers of published annotation formats: one `read_*` function per format, each returning a box table."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from polyptrace.core.errors import UserError
from polyptrace.data.boxes import Boxes
from polyptrace.data.sources.coco import read_coco, read_cocovid
from polyptrace.data.sources.combined import read_rsp, read_rspp
from polyptrace.data.sources.cvat import read_cvat
from polyptrace.data.sources.labels import HISTOLOGY
from polyptrace.data.sources.mot import read_mot
from polyptrace.data.sources.paths import picture_root
from polyptrace.data.sources.polypsize import read_polypsize
from polyptrace.data.sources.polypsset import read_polypsset
from polyptrace.data.sources.realcolon import read_realcolon
from polyptrace.data.sources.sun import read_sun
from polyptrace.data.sources.voc import read_voc
from polyptrace.data.sources.yolo import read_yolo

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


def read_source(name: str, path: Path, options: Mapping[str, Any], cache: Path | None = None) -> Boxes:
    """The boxes of a source by its name; options that are None are ignored.

    `cache` is a folder from which a slow reader resumes after an interruption.
    """
    given = check_source(name, path, options)
    resume = {"cache": cache} if "cache" in inspect.signature(SOURCES[name]).parameters else {}
    return SOURCES[name](path, **given, **resume)


def check_source(name: str, path: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are given; an error if there is no such source or path, or the source lacks an option."""
    if name not in SOURCES:
        raise UserError(f"{name}: is not a source -> one of {', '.join(SOURCES)}")
    if not path.exists():
        raise UserError(f"{path}: no such file or folder -> check the path")
    given = {option: value for option, value in options.items() if value is not None}
    known = dict(list(inspect.signature(SOURCES[name]).parameters.items())[1:])
    known.pop("cache", None)
    for option, value in given.items():
        flag = f"--{option.replace('_', '-')}"
        if option not in known:
            others = ", ".join(f"--{other.replace('_', '-')}" for other in known)
            raise UserError(f"{name}: has no option {flag} -> it has {others}")
        choices = get_args(known[option].annotation) if get_origin(known[option].annotation) is Literal else ()
        if choices and value not in choices:
            raise UserError(f"{flag} {value}: not a choice -> {' or '.join(choices)}")
    return given


__all__ = [
    "HISTOLOGY",
    "SOURCES",
    "check_source",
    "picture_root",
    "read_coco",
    "read_cocovid",
    "read_cvat",
    "read_mot",
    "read_polypsize",
    "read_polypsset",
    "read_realcolon",
    "read_rsp",
    "read_rspp",
    "read_source",
    "read_sun",
    "read_voc",
    "read_yolo",
]
