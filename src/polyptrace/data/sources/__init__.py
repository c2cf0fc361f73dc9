"""From published annotation formats to the box table: one file per format, one `read_*` each."""

from collections.abc import Callable

from polyptrace.data.boxes import Boxes
from polyptrace.data.sources.coco import read_coco
from polyptrace.data.sources.mot import read_mot
from polyptrace.data.sources.names import picture_root

SOURCES: dict[str, Callable[..., Boxes]] = {"coco": read_coco, "mot": read_mot}

__all__ = ["SOURCES", "picture_root", "read_coco", "read_mot"]
