"""From boxes and pictures to a dataset folder: boxes, tracks, tracklets, crops."""

from polyptrace.data.asked import Asked
from polyptrace.data.boxes import Boxes
from polyptrace.data.checks import Finding, check_boxes
from polyptrace.data.crops import crop_regions, cut_crop
from polyptrace.data.dataset import Dataset, LabelFree
from polyptrace.data.identity import codes, join_keys, polyp_keys, video_keys
from polyptrace.data.prepare import check_request, prepare
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
from polyptrace.data.splits import REAL_COLON, split_by
from polyptrace.data.tracklets import LabelFreeTracklets, Tracklets, cut_tracklets
from polyptrace.data.tracks import box_iou, link_tracks

__all__ = [
    "REAL_COLON",
    "SOURCES",
    "Asked",
    "Boxes",
    "Dataset",
    "Finding",
    "LabelFree",
    "LabelFreeTracklets",
    "Tracklets",
    "box_iou",
    "check_boxes",
    "check_request",
    "codes",
    "crop_regions",
    "cut_crop",
    "cut_tracklets",
    "join_keys",
    "link_tracks",
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
