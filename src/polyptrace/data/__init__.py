"""From boxes and pictures to a dataset folder: boxes, tracks, tracklets, crops."""

from typing import TYPE_CHECKING

from polyptrace.core.lazy import lazy_names
from polyptrace.data.boxes import Boxes
from polyptrace.data.checks import Finding, check_boxes
from polyptrace.data.dataset import Dataset, DatasetTracklets, LabelFree, LabelFreeTracklets
from polyptrace.data.identity import codes, join_keys, polyp_keys, video_keys
from polyptrace.data.tracklets import Tracklets, cut_tracklets, pad_rows
from polyptrace.data.tracks import box_iou, link_tracks

if TYPE_CHECKING:
    from polyptrace.data.crops import crop_regions, cut_crop
    from polyptrace.data.preparation import prepare
    from polyptrace.data.sources import (
        SOURCES,
        read_coco,
        read_cocovid,
        read_cvat,
        read_mot,
        read_polypsize,
        read_polypsset,
        read_realcolon,
        read_rsp,
        read_rspp,
        read_sun,
        read_voc,
        read_yolo,
    )
    from polyptrace.data.splits import REAL_COLON, Selection, split_by

__all__ = [
    "REAL_COLON",
    "SOURCES",
    "Boxes",
    "Dataset",
    "DatasetTracklets",
    "Finding",
    "LabelFree",
    "LabelFreeTracklets",
    "Selection",
    "Tracklets",
    "box_iou",
    "check_boxes",
    "codes",
    "crop_regions",
    "cut_crop",
    "cut_tracklets",
    "join_keys",
    "link_tracks",
    "pad_rows",
    "polyp_keys",
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
    "split_by",
    "video_keys",
]

__getattr__ = lazy_names(__name__, "crops", "preparation", "splits", "sources")
