"""From published annotation formats to the box table: one file per format, one `read_*` each."""

from collections.abc import Callable

from polyptrace.data.boxes import Boxes
from polyptrace.data.sources.coco import read_coco
from polyptrace.data.sources.cocovid import read_cocovid
from polyptrace.data.sources.cvat import read_cvat
from polyptrace.data.sources.labels import HISTOLOGY, adenoma
from polyptrace.data.sources.mot import read_mot
from polyptrace.data.sources.names import picture_root
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
}

__all__ = [
    "HISTOLOGY",
    "SOURCES",
    "adenoma",
    "picture_root",
    "read_coco",
    "read_cocovid",
    "read_cvat",
    "read_mot",
    "read_polypsize",
    "read_polypsset",
    "read_realcolon",
    "read_sun",
    "read_voc",
    "read_yolo",
]
