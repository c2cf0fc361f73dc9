"""What can be wrong with boxes and pictures, found and named row by row; nothing is silently repaired."""

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from polyptrace.core.files import atomic_file
from polyptrace.data.boxes import NO_FRAME, Boxes
from polyptrace.data.identity import codes, video_codes

#: share of boxes past the edge that no careful annotator or detector reaches
MANY = 0.1


@dataclass(frozen=True)
class Finding:
    """Something wrong with one row; fatal ones keep a dataset from being prepared."""

    kind: str
    fatal: bool
    row: int
    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


def check_boxes(boxes: Boxes) -> list[Finding]:
    """All findings that the box table alone can show, fatal ones first, then by kind and row."""
    findings = [
        Finding(kind, fatal, row, boxes.where(row), message)
        for kind, fatal, wrong, message in _rules(boxes)
        for row in np.flatnonzero(wrong).tolist()
    ]
    return sorted(findings, key=lambda f: (not f.fatal, f.kind, f.row))


def suspicion(boxes: Boxes) -> str:
    """What the boxes as a whole look like that they should not, "" if nothing: conventions that were mixed up."""
    x, y, w, h = boxes.xywh.T
    known = (boxes.image_width > 0) & (boxes.image_height > 0)
    if not known.any():
        return ""
    past = (x + w > boxes.image_width + 1) | (y + h > boxes.image_height + 1)
    inside = (w <= boxes.image_width + 1) & (h <= boxes.image_height + 1) & (w > x) & (h > y)
    share = float(past[known].mean())
    if share < MANY or not inside[known].all():
        return ""
    return (
        f"{100 * share:.0f} % of the boxes reach past the right or lower edge, each is wider than its left and "
        "higher than its top -> are these corners (x1, y1, x2, y2)? left, top, width, height are wanted"
    )


def _rules(boxes: Boxes) -> Iterator[tuple[str, bool, NDArray[np.bool_], str]]:
    """(kind, fatal, which rows, message) of each rule."""
    finite = np.logical_and.reduce(np.isfinite(boxes.xywh), axis=1).astype(bool)
    xywh = np.where(finite[:, None], boxes.xywh, 1.0)
    x, y, w, h = xywh.T
    known = (boxes.image_width > 0) & (boxes.image_height > 0)
    width = np.where(known, boxes.image_width, np.inf)
    height = np.where(known, boxes.image_height, np.inf)
    positive = (w > 0) & (h > 0)
    outside = finite & positive & ((x >= width) | (y >= height) | (x + w <= 0) | (y + h <= 0))
    sticks_out = finite & positive & ~outside & ((x < -1) | (y < -1) | (x + w > width + 1) | (y + h > height + 1))
    yield "not a number", True, ~finite, "box has a NaN or infinite number -> remove or mend the row"
    yield "empty box", True, finite & ~positive, "box has no width or height -> remove or mend the row"
    yield "outside", True, outside, "box lies outside its picture -> are the coordinates in pixels of this picture?"
    no_frame = boxes.frame_index == NO_FRAME
    yield "no frame", True, no_frame, "frame index is not a whole number -> frames are counted 0, 1, 2"
    negative = (boxes.frame_index < 0) & ~no_frame
    yield "negative frame", True, negative, "frame index is negative -> frames are counted from 0"
    yield (
        "picture size",
        True,
        (boxes.image_width < 0) | (boxes.image_height < 0),
        "picture size is negative -> mend it",
    )
    yield "no video", True, boxes.video == "", "row names no video -> every box belongs to a procedure"
    usable = finite & positive & ~outside & (boxes.frame_index >= 0)  # a row that is left out is no other box
    repeated = _repeated(boxes, boxes.track, usable)
    yield "duplicate", True, repeated, "track has another box in this frame -> a track has one box a frame"
    seen_twice = _repeated(boxes, boxes.polyp, usable) & ~repeated
    yield "polyp twice", False, seen_twice, "polyp has another box in this frame -> boxes are matched by overlap"
    yield "sticks out", False, sticks_out, "box reaches past the edge of its picture -> its crop stops at the edge"


def _repeated(boxes: Boxes, identity: NDArray[np.object_], usable: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Usable rows whose (video, frame, identity) stood in an earlier one; rows without an identity are never meant."""
    keys = np.stack([video_codes(boxes), boxes.frame_index, codes(identity)], 1)
    order = np.lexsort(keys.T)
    order = order[usable[order]]
    same = np.zeros(len(boxes), bool)
    same[order[1:]] = (keys[order[1:]] == keys[order[:-1]]).all(1)
    known: NDArray[np.bool_] = identity != ""
    return same & known


def summary(findings: Sequence[Finding], most: int = 5) -> str:
    """Findings counted by kind, with the first few of each."""
    lines: list[str] = []
    for (fatal, kind), count in sorted(Counter((f.fatal, f.kind) for f in findings).items(), reverse=True):
        lines.append(f"{'fatal' if fatal else 'warning'}: {kind}: {count:,}")
        same = [f for f in findings if f.kind == kind]
        lines += [f"  {finding}" for finding in same[:most]]
        lines += [f"  ... and {len(same) - most:,} more"] if len(same) > most else []
    return "\n".join(lines)


def write_rejected(path: Path, boxes: Boxes, findings: Sequence[Finding]) -> None:
    """The rows that were left out, each with where it was read and what was wrong."""
    with atomic_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["where", "kind", "message", "video", "frame_index", "file", "x", "y", "w", "h"])
        for f in findings:
            frame = boxes.frame_index[f.row]
            place = (boxes.video[f.row], "" if frame == NO_FRAME else frame, boxes.file[f.row])
            writer.writerow([f.where, f.kind, f.message, *place, *boxes.xywh[f.row]])
