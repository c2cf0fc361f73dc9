"""From boxes and images to a dataset folder: boxes, tracks, tracklets, crops."""

from typing import TYPE_CHECKING

from polyptrace.core import lazy_names
from polyptrace.data.boxes import Boxes
from polyptrace.data.dataset import Dataset
from polyptrace.data.joined import join_datasets
from polyptrace.data.tracklets import cut_tracklets
from polyptrace.data.tracks import link_tracks

if TYPE_CHECKING:
    from polyptrace.data.preparation import prepare
    from polyptrace.data.sources import read_rsp, read_rspp
    from polyptrace.data.sources.coco import read_coco, read_cocovid
    from polyptrace.data.sources.cvat import read_cvat
    from polyptrace.data.sources.mot import read_mot
    from polyptrace.data.sources.polypsize import read_polypsize
    from polyptrace.data.sources.polypsset import read_polypsset
    from polyptrace.data.sources.realcolon import read_realcolon
    from polyptrace.data.sources.sun import read_sun
    from polyptrace.data.sources.voc import read_voc
    from polyptrace.data.sources.yolo import read_yolo

__all__ = [
    "Boxes",
    "Dataset",
    "cut_tracklets",
    "join_datasets",
    "link_tracks",
    "prepare",
    "read_coco",
    "read_cocovid",
    "read_cvat",
    "read_mot",
    "read_polypsize",
    "read_polypsset",
    "read_realcolon",
    "read_rsp",
    "read_rspp",
    "read_sun",
    "read_voc",
    "read_yolo",
]

__getattr__ = lazy_names(__name__, "preparation", "sources")
