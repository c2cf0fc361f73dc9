"""Checks of a box table: every problem is reported with its row; nothing is repaired silently."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from polyptrace.core.arrays import Bools, Strings
from polyptrace.core.files import atomic_file, write_csv
from polyptrace.data.boxes import NO_FRAME, Boxes
from polyptrace.data.identity import codes, video_codes

#: Share of boxes past the edge above which the coordinates are probably corners.
SUSPICIOUS_SHARE = 0.1


@dataclass(frozen=True)
class Finding:
    """A problem of one row; `prepare` refuses rows with fatal ones."""

    kind: str
    fatal: bool
    row: int
    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


def check_boxes(boxes: Boxes) -> list[Finding]:
    """All problems that can be found in the box table alone, fatal ones first, then by kind and row."""
    findings = [
        Finding(kind, fatal, row, boxes.where(row), message)
        for kind, fatal, wrong, message in _rules(boxes)
        for row in np.flatnonzero(wrong).tolist()
    ]
    return sorted(findings, key=lambda f: (not f.fatal, f.kind, f.row))


def suspected_corners(boxes: Boxes) -> str:
    """A warning if the boxes look like corners (x1, y1, x2, y2) instead of x, y, w, h; else ""."""
    x, y, w, h = boxes.xywh.T
    known = (boxes.image_width > 0) & (boxes.image_height > 0)
    if not known.any():
        return ""
    past = (x + w > boxes.image_width + 1) | (y + h > boxes.image_height + 1)
    inside = (w <= boxes.image_width + 1) & (h <= boxes.image_height + 1) & (w > x) & (h > y)
    share = float(past[known].mean())
    if share < SUSPICIOUS_SHARE or not inside[known].all():
        return ""
    return f"{100 * share:.0f} % of the boxes leave the image, and w > x, h > y -> are they corners (x1, y1, x2, y2)?"


def _rules(boxes: Boxes) -> Iterator[tuple[str, bool, Bools, str]]:
    """(kind, fatal, rows as a mask, message) of each rule."""
    finite = np.logical_and.reduce(np.isfinite(boxes.xywh), axis=1).astype(bool)
    xywh = np.where(finite[:, None], boxes.xywh, 1.0)
    x, y, w, h = xywh.T
    known = (boxes.image_width > 0) & (boxes.image_height > 0)
    width = np.where(known, boxes.image_width, np.inf)
    height = np.where(known, boxes.image_height, np.inf)
    positive = (w > 0) & (h > 0)
    outside = finite & positive & ((x >= width) | (y >= height) | (x + w <= 0) | (y + h <= 0))
    past_edge = finite & positive & ~outside & ((x < -1) | (y < -1) | (x + w > width + 1) | (y + h > height + 1))
    yield "not a number", True, ~finite, "box has a NaN or infinite coordinate -> remove or correct the row"
    yield "empty box", True, finite & ~positive, "box has no width or height -> remove or correct the row"
    yield "outside", True, outside, "box is outside its image -> check that coordinates are pixels of this image"
    no_frame = boxes.frame_index == NO_FRAME
    yield "no frame", True, no_frame, "frame index is not a whole number -> number frames 0, 1, 2, ..."
    negative = (boxes.frame_index < 0) & ~no_frame
    yield "negative frame", True, negative, "frame index is negative -> number frames from 0"
    negative_size = (boxes.image_width < 0) | (boxes.image_height < 0)
    yield "image size", True, negative_size, "image size is negative -> correct it"
    wrong_rate = ~np.isnan(boxes.fps) & ~((boxes.fps > 0) & np.isfinite(boxes.fps))
    yield "frame rate", True, wrong_rate, "frame rate is not positive and finite -> correct it, or NaN if unknown"
    yield "no video", True, boxes.video == "", "row has no video -> every box belongs to a video"
    usable = finite & positive & ~outside & (boxes.frame_index >= 0)  # excluded rows are not duplicates
    repeated = _repeated(boxes, boxes.track, usable)
    yield "duplicate", True, repeated, "track has another box in this frame -> keep one box per track and frame"
    same_polyp = _repeated(boxes, boxes.polyp, usable) & ~repeated
    yield "polyp twice", False, same_polyp, "polyp has another box in this frame -> boxes are matched by overlap"
    yield "past the edge", False, past_edge, "box reaches past the edge of its image -> its crop stops at the edge"


def _repeated(boxes: Boxes, identity: Strings, usable: Bools) -> Bools:
    """Usable rows that repeat the (video, frame, identity) of an earlier row; rows without an identity never do."""
    rows = np.flatnonzero(usable & (identity != ""))
    keys = np.stack([video_codes(boxes), boxes.frame_index, codes(identity)], 1)[rows]
    repeated = np.zeros(len(boxes), bool)
    repeated[np.delete(rows, np.unique(keys, axis=0, return_index=True)[1])] = True
    return repeated


def summary(findings: Sequence[Finding], limit: int = 5, warnings: int | None = None) -> str:
    """Findings counted by kind, with the first `limit` of each; of warnings the first `warnings`, if it is given."""
    lines: list[str] = []
    for (fatal, kind), count in sorted(Counter((f.fatal, f.kind) for f in findings).items(), reverse=True):
        lines.append(f"{'fatal' if fatal else 'warning'}: {kind}: {count:,}")
        same = [f for f in findings if f.kind == kind]
        most = limit if fatal or warnings is None else warnings
        lines += [f"  {finding}" for finding in same[:most]]
        lines += [f"  ... and {len(same) - most:,} more"] if len(same) > most else []
    return "\n".join(lines)


def write_rejected(path: Path, boxes: Boxes, findings: Sequence[Finding]) -> None:
    """Writes the excluded rows as CSV, each with where it was read and why it was excluded."""
    rows: list[list[object]] = [["where", "kind", "message", "video", "frame_index", "file", "x", "y", "w", "h"]]
    for f in findings:
        frame = boxes.frame_index[f.row]
        location = (boxes.video[f.row], "" if frame == NO_FRAME else frame, boxes.file[f.row])
        rows.append([f.where, f.kind, f.message, *location, *boxes.xywh[f.row]])
    with atomic_file(path) as temporary:
        write_csv(temporary, rows)
