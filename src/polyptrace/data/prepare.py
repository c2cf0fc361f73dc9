"""From a box table and its pictures to a dataset folder.

    polyptrace prepare mot clips --out dataset

The folder takes its name when everything in it is there. Until then it is `OUT.partial`, where a run that was killed
goes on with the crops it had already cut.
"""

import os
import warnings
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from polyptrace.config import Crops, Tracks
from polyptrace.core.console import counted
from polyptrace.core.errors import UserError
from polyptrace.core.files import write_json
from polyptrace.data.asked import Asked, boxes_hash, refuse_other_boxes, refuse_other_settings
from polyptrace.data.boxes import Boxes, Ints
from polyptrace.data.checks import Finding, check_boxes, summary, suspicion, write_rejected
from polyptrace.data.crops import VIDEO_ENDS, BadPicture, Fill, PartialStore, fill_store, is_video
from polyptrace.data.dataset import Dataset, save_tracklets
from polyptrace.data.info import dataset_info
from polyptrace.data.tracklets import Tracklets, cut_tracklets
from polyptrace.data.tracks import link_tracks

#: Datasets whose frames are sampled from a video: their `sampled_*` settings may differ from those of other datasets.
SAMPLED = ("polypsset", "artificial polypsset")


@dataclass(frozen=True)
class _Linked:
    """The boxes that are not left out, their tracks, and the tracklets of those that are long enough."""

    good: Ints  # their rows in the whole table
    boxes: Boxes
    track: Ints
    used: Ints  # rows of `boxes` that some tracklet has
    tracklets: Tracklets  # as rows of the crop store, which holds the used ones

    @property
    def cropped(self) -> Ints:
        """Rows of the whole table that have a crop."""
        return self.good[self.used]

    @property
    def short(self) -> int:
        """Tracks that were linked, but dropped for being too short."""
        return len(np.unique(self.track)) - len(np.unique(self.tracklets.track))


def prepare(
    boxes: Boxes,
    root: Path,
    out: Path,
    tracks: Tracks | None = None,
    crops: Crops | None = None,
    *,
    skip_bad: bool = False,
    source: dict[str, Any] | None = None,
    fill: Fill = fill_store,
) -> Dataset:
    """Writes the dataset folder `out` from boxes and the pictures below `root`, and opens it.

    Fatal findings are an error; with `skip_bad` their rows are left out and written to `rejected.csv`. So are, in any
    case, boxes after the end of a video that ends early, of which a warning tells.
    `fill` cuts the crops: here, or (`polyptrace.cluster`) on many machines.
    A folder that was made of the same boxes with the same settings is opened as it is; another is an error.
    """
    tracks, crops = tracks or Tracks(), crops or Crops()
    asked = Asked(tracks, crops, skip_bad, source or {})
    check_request(out, asked)
    boxes = boxes.in_order()
    if out.exists():
        refuse_other_boxes(out, boxes)
        return Dataset.open(out)
    doubt = suspicion(boxes)
    if doubt:
        warnings.warn(doubt, stacklevel=2)
    findings = [f for f in check_boxes(boxes) if f.fatal]
    _refuse(findings, skip_bad)
    partial = out.with_name(out.name + ".partial")
    store = PartialStore(partial, boxes, root, crops, fill)
    while True:
        linked = _link(boxes, findings, tracks)
        new = _of_pictures(boxes, linked.good, store.cut(linked.cropped))
        _refuse([finding for finding in new if finding.fatal], skip_bad)
        if not new:
            break
        findings += new  # without these boxes the tracks are others: link and cut again
    _write_tables(partial, linked)
    (partial / "rejected.csv").unlink(missing_ok=True)  # of a run that was killed, since when pictures were restored
    if findings:
        write_rejected(partial / "rejected.csv", boxes, findings)
    counts = {"boxes": len(linked.boxes), "rejected": len(boxes) - len(linked.boxes), "short tracks": linked.short}
    files = linked.boxes.file[linked.used]
    info = dataset_info(partial, files, linked.tracklets, asked, counts, boxes_hash(boxes))
    write_json(partial / "dataset.json", info)
    store.finish(linked.cropped)
    partial.rename(out)
    return Dataset.open(out)


def check_request(out: Path, asked: Asked) -> None:
    """Refuses what cannot be done before anything is read."""
    tracks, crops = asked.tracks, asked.crops
    if out.exists():
        refuse_other_settings(out, asked)
    above = next(parent for parent in out.absolute().parents if parent.exists())
    if not (above.is_dir() and os.access(above, os.W_OK)):
        raise UserError(f"{out}: {above} cannot be written to -> choose another folder, or check its permissions")
    least = {
        "tracks.max_gap": 0,
        "tracks.min_track": 1,
        "tracks.stride": 1,
        "tracks.length": 1,
        "tracks.sampled_min_track": 1,
        "tracks.sampled_stride": 1,
        "crops.size": 8,
        "crops.workers": 0,
    }
    sections = {"tracks": tracks, "crops": crops}
    for name, lowest in least.items():
        section, _, key = name.partition(".")
        value = getattr(sections[section], key)
        if value is not None and value < lowest:
            raise UserError(f"--{name} {value}: is too small -> {lowest} or more")
    for name, share in (("iou", tracks.iou), ("sampled_iou", tracks.sampled_iou)):
        if share is not None and not 0 <= share <= 1:
            raise UserError(f"--tracks.{name} {share}: is no overlap -> between 0 and 1")
    if not crops.scale > 0:
        raise UserError(f"--crops.scale {crops.scale}: is too small -> the paper's is 5")


def link_all(boxes: Boxes, settings: Tracks) -> Ints:
    """Track of each box; `sampled_iou` replaces `iou` where frames are sampled."""
    sampled = _is_sampled(boxes)
    sampled_iou = settings.iou if settings.sampled_iou is None else settings.sampled_iou
    track = np.empty(len(boxes), np.int64)
    first = 0
    for rows, iou in ((~sampled, settings.iou), (sampled, sampled_iou)):
        if rows.any():
            track[rows] = first + link_tracks(boxes.take(rows), settings.link, iou, settings.max_gap)
            first = int(track[rows].max()) + 1
    return track


def cut_both(boxes: Boxes, track: Ints, settings: Tracks) -> Tracklets:
    """Fixed-length tracklets and whole tracks, side by side, as rows of the box table."""
    sampled = _is_sampled(boxes)
    stride = _in_frames(boxes, settings.stride, settings.stride_seconds, sampled, settings.sampled_stride)
    min_track = _in_frames(boxes, settings.min_track, settings.min_track_seconds, sampled, settings.sampled_min_track)
    short = cut_tracklets(boxes, track, settings.length, stride, min_track)
    return Tracklets.concatenate(short, cut_tracklets(boxes, track, None, stride, min_track))


def _link(boxes: Boxes, findings: list[Finding], settings: Tracks) -> _Linked:
    """Tracks and tracklets of the boxes that nothing was found against; an error if no tracklet comes out."""
    good = np.delete(np.arange(len(boxes)), [f.row for f in findings])
    table = boxes.take(good)
    track = link_all(table, settings)
    used, tracklets = _renumbered(cut_both(table, track, settings))
    if not len(tracklets):
        raise UserError(_nothing_left(table, track, settings))
    return _Linked(good, table, track, used, tracklets)


def _is_sampled(boxes: Boxes) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = np.logical_or.reduce([boxes.dataset == name for name in SAMPLED])
    return found


def _in_frames(
    boxes: Boxes, frames: int, seconds: float | None, sampled: NDArray[np.bool_], sampled_frames: int | None
) -> Ints:
    """A setting in frames, for each box: as given, or from seconds at its video's own frame rate."""
    of_sampled = frames if sampled_frames is None else sampled_frames
    if seconds is None:
        return np.where(sampled, of_sampled, frames)
    unknown = np.flatnonzero(~(boxes.fps > 0) & ~sampled)
    if len(unknown):
        raise UserError(
            f"{boxes.where(unknown[0])}: video {boxes.video[unknown[0]]!r} has no frame rate "
            "-> give settings in frames, or the frame rate with --fps"
        )
    from_seconds = np.maximum(1, np.rint(seconds * np.where(sampled, 1.0, boxes.fps)))
    return np.where(sampled, of_sampled, from_seconds).astype(np.int64)


def _renumbered(tracklets: Tracklets) -> tuple[Ints, Tracklets]:
    """The box rows that some tracklet uses, and the tracklets as rows of the crop store that holds those."""
    used, flat = np.unique(tracklets.flat, return_inverse=True)
    columns = {f.name: getattr(tracklets, f.name) for f in fields(Tracklets)} | {"flat": flat.astype(np.int64)}
    return used, Tracklets(**columns)


def _of_pictures(boxes: Boxes, good: Ints, bad: list[BadPicture]) -> list[Finding]:
    """What is wrong with pictures; where a video ends early, everything before is kept and all boxes after left out."""
    ends: dict[str, int] = {}  # the first frame that a video lacks
    for one in bad:
        if one.reason == VIDEO_ENDS:
            frame = int(boxes.frame_index[one.row])
            ends[boxes.file[one.row]] = min(frame, ends.get(boxes.file[one.row], frame))
    findings = [Finding("picture", True, *_said(boxes, b.row, b.reason)) for b in bad if b.reason != VIDEO_ENDS]
    for file, frame in ends.items():
        after = good[(boxes.file[good] == file) & (boxes.frame_index[good] >= frame)]
        findings += [Finding("video ends", False, *_said(boxes, row, VIDEO_ENDS)) for row in after.tolist()]
    return findings


def _said(boxes: Boxes, row: int, reason: str) -> tuple[int, str, str]:
    return row, boxes.where(row), f"{_picture(boxes, row)}: {reason}"


def _picture(boxes: Boxes, row: int) -> str:
    """The picture of a row as a user can look for it."""
    file = boxes.file[row]
    return f"{file}, frame {boxes.frame_index[row]}" if is_video(file) else str(file)


def _nothing_left(boxes: Boxes, track: Ints, settings: Tracks) -> str:
    """What to do when no track is long enough."""
    if not len(boxes):
        return "no box is left -> is the score threshold too high, or was everything left out?"
    first, last = np.full(track.max() + 1, np.iinfo(np.int64).max), np.full(track.max() + 1, -1)
    np.minimum.at(first, track, boxes.frame_index)
    np.maximum.at(last, track, boxes.frame_index)
    return (
        f"no track is long enough: {counted(len(boxes), 'box', 'boxes')} in {counted(len(first), 'track')}, the "
        f"longest of {counted(int((last - first).max()) + 1, 'frame')}, and --tracks.min_track is "
        f"{settings.min_track} -> if a detector misses frames, bridge them with --tracks.max_gap "
        f"(now {settings.max_gap}); if frames are sampled, lower --tracks.min_track and --tracks.stride"
    )


def _refuse(findings: list[Finding], skip_bad: bool) -> None:
    if findings and not skip_bad:
        what = f"rows that cannot be used: {len(findings):,} -> mend them, or leave them out with --skip-bad"
        raise UserError(f"{what}\n{summary(findings)}")


def _write_tables(partial: Path, linked: _Linked) -> None:
    save_tracklets(linked.tracklets, partial / "tracklets.parquet")
    linked.boxes.save(partial / "boxes.parquet")
    crop = np.full(len(linked.boxes), -1)
    crop[linked.used] = np.arange(len(linked.used))
    table = pq.read_table(partial / "boxes.parquet").append_column("crop", pa.array(crop))
    pq.write_table(table, partial / "boxes.parquet", compression="zstd")
