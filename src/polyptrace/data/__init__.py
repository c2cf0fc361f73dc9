"""From boxes and pictures to a dataset folder: boxes, tracks, tracklets, crops."""

from polyptrace.data.boxes import Boxes
from polyptrace.data.tracklets import Tracklets, cut_tracklets
from polyptrace.data.tracks import box_iou, link_tracks

__all__ = ["Boxes", "Tracklets", "box_iou", "cut_tracklets", "link_tracks"]
