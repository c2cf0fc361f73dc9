"""Detectors over videos: from a recording to boxes.

`polyptrace.detect.preview` makes a page with some frames. It is not imported here, because it needs `report`.
"""

from polyptrace.detect.detector import Detector, load_detector
from polyptrace.detect.recording import Detections, detect

__all__ = ["Detections", "Detector", "detect", "load_detector"]
