"""Prepares a dataset folder from a source: boxes → tracks → tracklets → crops.

    prepare("mot", Path("clips"), Path("dataset"))      # as `polyptrace prepare mot clips --out dataset`
    prepare(boxes, Path("images"), Path("dataset"))   # from a box table

The folder is written as `OUT.partial` and renamed at the end. A run that was killed resumes with the crops that it had
already cut.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from polyptrace.config import Crops, Tracks, check_limits
from polyptrace.core.arrays import Ints
from polyptrace.core.codec import JPEG_DECODER
from polyptrace.core.console import counted
from polyptrace.core.errors import UserError, warn
from polyptrace.core.files import (
    PARTIAL,
    check_writable,
    differences,
    file_hash,
    provenance,
    refuse_changes,
    remove_temporary_files,
    write_json,
)
from polyptrace.core.lock import lock
from polyptrace.data.boxes import Boxes
from polyptrace.data.checks import Finding, check_boxes, summary, suspected_corners, write_rejected
from polyptrace.data.crops.filling import fill_store
from polyptrace.data.crops.images import VIDEO_ENDS, files_hash
from polyptrace.data.crops.store import Failures, Fill, PartialStore
from polyptrace.data.crops.videos import is_video
from polyptrace.data.dataset import DATASET_FILE, FORMAT, Dataset, read_info, save_tracklets
from polyptrace.data.identity import group_rows, polyp_keys, video_keys
from polyptrace.data.sources import check_source, read_source
from polyptrace.data.sources.file_names import image_root
from polyptrace.data.splits import Selection
from polyptrace.data.tracklets import LabelFreeTracklets, Tracklets, cut_both_units
from polyptrace.data.tracks import link_with_settings

#: Gives boxes, with the track of each, other polyps.
Relabel = Callable[[Boxes, Ints], Boxes]
#: Keys of the hashes of the source's boxes, and of the sizes and times of the files that crops were cut from.
SOURCE_BOXES, PICTURES = "source boxes", "image files"
ADVICE = "use the same settings, give another folder, or remove this one first"


class NoTrackError(UserError):
    """No track of the boxes is long enough."""


@dataclass(frozen=True)
class PrepareSettings:
    """Everything except boxes and images that determines the content of a dataset folder."""

    tracks: Tracks
    crops: Crops
    skip_bad: bool
    source: dict[str, Any]  # format, path and selection

    def as_dict(self) -> dict[str, Any]:
        """As recorded in `dataset.json`."""
        settings = {"tracks": asdict(self.tracks), "crops": asdict(self.crops), "skip_bad": self.skip_bad}
        return {"source": self.source, "settings": settings}


@dataclass(frozen=True)
class _Linked:
    """The usable boxes of a source, their tracks, and the tracklets of the tracks that are long enough."""

    source_row: Ints  # row of each usable box among all boxes of the source
    boxes: Boxes
    track: Ints
    cropped: Ints  # rows of `boxes` that have a crop, in the order of the crop store
    tracklets: Tracklets  # as rows of the crop store


def prepare(
    source: Boxes | str,
    path: Path,
    out: Path,
    tracks: Tracks | None = None,
    crops: Crops | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    selection: Selection | None = None,
    skip_bad: bool = False,
    fill: Fill = fill_store,
    relabel: Relabel | None = None,
) -> Dataset:
    """Writes the dataset folder `out` and opens it.

    `source` is the name of a format (a key of `SOURCES`) with `options` of its reader, and `path` the folder or file
    with the annotations; or `source` is a box table, and `path` the folder of its images.

    Rows with fatal findings are an error; with `skip_bad` they are excluded and listed in `rejected.csv`. If a video
    ends early, the boxes after its end are excluded in any case, with a warning.
    `fill` cuts the crops, by default on this machine; `polyptrace.cluster` does it on many.
    `relabel` replaces the polyps of the boxes in tracks, given the track of each; other boxes then have none.
    A folder made from the same boxes and images with the same settings is opened unchanged; any other existing
    folder is an error.
    """
    options, selection = options or {}, selection or Selection()
    record = selection.as_dict()
    if isinstance(source, str):
        check_source(source, path, options)
        split = options.get("split")
        record = {"format": source, "path": path.resolve().name, "split": split, "min_score": None} | record
    settings = PrepareSettings(tracks or Tracks(), crops or Crops(), skip_bad, record)
    check_limits(settings.tracks, "tracks")
    check_limits(settings.crops, "crops")
    check_writable(out)
    with lock(out):
        if out.exists():
            refuse_other_settings(out, settings)
        boxes = selection.apply(_read(source, path, options)).in_order()
        if relabel is not None:
            boxes = _relabelled(boxes, relabel, settings.tracks)
        root = image_root(path) if isinstance(source, str) else path
        if out.exists():
            refuse_other_content(out, boxes, root)
        else:
            _write_folder(boxes, root, out, settings, fill)
    return Dataset.open(out)


def _read(source: Boxes | str, path: Path, options: Mapping[str, Any]) -> Boxes:
    """The boxes of a source; a source without a dataset name is named after its folder."""
    if isinstance(source, Boxes):
        return source
    boxes = read_source(source, path, options)
    return replace(boxes, dataset=np.where(boxes.dataset == "", path.resolve().name, boxes.dataset))


def _relabelled(boxes: Boxes, relabel: Relabel, settings: Tracks) -> Boxes:
    """The boxes with the polyps that `relabel` gives to those in tracks; bad rows are in none, as in the dataset."""
    usable = _rows_without([f for f in check_boxes(boxes) if f.fatal], boxes)
    track = link_with_settings(boxes.take(usable), settings)
    linked = usable[track >= 0]
    polyp = np.full(len(boxes), "", object)
    polyp[linked] = relabel(boxes.take(linked), track[track >= 0]).polyp
    return replace(boxes, polyp=polyp)


def _write_folder(boxes: Boxes, root: Path, out: Path, settings: PrepareSettings, fill: Fill) -> None:
    """Links, cuts and writes everything; excluded boxes change the tracks, so both are repeated until none is new."""
    if warning := suspected_corners(boxes):
        warn(warning)
    findings = [f for f in check_boxes(boxes) if f.fatal]
    _refuse(findings, settings.skip_bad)
    partial = out.with_name(out.name + PARTIAL)
    store = PartialStore(partial, boxes, root, settings.crops, fill)
    while True:
        linked = _link_and_cut(boxes, findings, settings.tracks)
        cropped = linked.source_row[linked.cropped]
        new = _image_findings(boxes, linked.source_row, store.cut(cropped))
        _refuse([finding for finding in new if finding.fatal], settings.skip_bad)
        if not new:
            break
        findings += new
    if not (linked.tracklets.unit == "tracklet").any():
        warn("no track fills a tracklet: nothing to train on; for training, lower --tracks.length or --tracks.stride")
    save_tracklets(linked.tracklets, partial / "tracklets.parquet")
    crop = np.full(len(linked.boxes), -1)
    crop[linked.cropped] = np.arange(len(linked.cropped))
    linked.boxes.save(partial / "boxes.parquet", crop=crop)
    (partial / "rejected.csv").unlink(missing_ok=True)  # left by a killed run; its bad images may have been restored
    if findings:
        write_rejected(partial / "rejected.csv", boxes, findings)
    write_json(partial / DATASET_FILE, dataset_info(partial, root, boxes, linked, settings))
    store.finish(cropped)
    remove_temporary_files(partial)  # of a killed run
    partial.rename(out)


def _link_and_cut(source: Boxes, findings: list[Finding], settings: Tracks) -> _Linked:
    """Tracks and tracklets of the boxes without findings; an error if there is no tracklet."""
    rows = _rows_without(findings, source)
    boxes = source.take(rows)
    track = link_with_settings(boxes, settings)
    tracklets = cut_both_units(boxes, track, settings)
    if not len(tracklets):
        linked = track >= 0
        raise NoTrackError(_no_track_message(boxes.take(linked), track[linked], settings))
    cropped, crop_index = np.unique(tracklets.row_index, return_inverse=True)
    return _Linked(rows, boxes, track, cropped, replace(tracklets, row_index=crop_index.astype(np.int64)))


def _rows_without(findings: list[Finding], boxes: Boxes) -> Ints:
    return np.delete(np.arange(len(boxes)), [f.row for f in findings])


def _track_count(track: Ints) -> int:
    return len(np.unique(track[track >= 0]))


def _image_findings(boxes: Boxes, usable: Ints, failures: Failures) -> list[Finding]:
    """Findings of bad images. If a video ends early, all its usable boxes after the end are excluded."""
    ends: dict[str, int] = {}  # first missing frame of each video
    findings = []
    for row, reason in failures.items():
        file, frame = boxes.file[row], int(boxes.frame_index[row])
        if reason == VIDEO_ENDS:
            ends[file] = min(frame, ends.get(file, frame))
        else:
            findings.append(_finding(boxes, row, "image", True, reason))
    for file, frame in ends.items():
        after = usable[(boxes.file[usable] == file) & (boxes.frame_index[usable] >= frame)]
        findings += [_finding(boxes, row, "video ends", False, VIDEO_ENDS) for row in after.tolist()]
    return findings


def _finding(boxes: Boxes, row: int, kind: str, fatal: bool, reason: str) -> Finding:
    file = str(boxes.file[row])
    picture = f"{file}, frame {boxes.frame_index[row]}" if is_video(file) else file
    return Finding(kind, fatal, row, boxes.where(row), f"{picture}: {reason}")


def _no_track_message(boxes: Boxes, track: Ints, settings: Tracks) -> str:
    """What to do when no track is long enough."""
    thresholds = {"--tracks.start-score": settings.start_score, "--tracks.min-score": settings.min_score}
    given = [f"{option} {score:g}" for option, score in thresholds.items() if score]
    if not len(boxes) and given:
        return f"no track is left with {' and '.join(given)} -> check the detector, or lower these scores"
    if not len(boxes):
        return "no box is left -> check the score threshold, and rejected rows with 'polyptrace check'"
    frames = [boxes.frame_index[rows] for rows in group_rows(track)]
    longest = max(int(each.max() - each.min()) + 1 for each in frames)
    return (
        f"no track is long enough: the longest of {len(frames):,} has {counted(longest, 'frame')}, and"
        f" --tracks.min-track is {settings.min_track} -> if a detector misses frames, raise --tracks.max-gap (now"
        f" {settings.max_gap}); if frames are sampled, lower --tracks.min-track and --tracks.stride"
    )


def _refuse(findings: list[Finding], skip_bad: bool) -> None:
    if findings and not skip_bad:
        what = f"unusable rows: {len(findings):,} -> correct them, or exclude them with --skip-bad"
        raise UserError(f"{what}\n{summary(findings)}")


def dataset_info(folder: Path, root: Path, source: Boxes, linked: _Linked, settings: PrepareSettings) -> dict[str, Any]:
    """The content of `dataset.json`; everything about labels is under `labels`.

    `source` are all boxes of the source, whose images are below `root`.
    """
    hashes = {name: file_hash(folder / name) for name in ("boxes.parquet", "tracklets.parquet")}
    hashes |= {SOURCE_BOXES: source.digest(), PICTURES: files_hash(linked.boxes.file[linked.cropped], root)}
    short = _track_count(linked.track) - len(np.unique(linked.tracklets.track))
    counts = {"boxes": len(linked.boxes), "rejected": len(source) - len(linked.boxes), "short tracks": short}
    if settings.tracks.min_score:
        with_weak = link_with_settings(linked.boxes, replace(settings.tracks, min_score=0.0))
        counts["weak tracks"] = _track_count(with_weak) - _track_count(linked.track)
    return {
        "format": FORMAT,
        **settings.as_dict(),
        "generated": bool(source.generated.any()),
        "decoder": "nvJPEG" if settings.crops.decoding == "nvjpeg" else JPEG_DECODER,
        "counts": counts | count_tracklets(linked.tracklets),
        "labels": count_labels(linked.tracklets),
        "hashes": hashes,
        "made_by": provenance(),
    }


def refuse_other_settings(out: Path, settings: PrepareSettings) -> None:
    """Raises an error unless `out` is a dataset folder that was made with the same settings."""
    if not (out / DATASET_FILE).is_file():
        raise UserError(f"{out}: already exists -> give another folder, or remove it first")
    old = read_info(out)
    new = settings.as_dict()
    changed = differences(old.get("source", {}), new["source"], "source.")
    changed += differences(old.get("settings", {}), new["settings"])
    refuse_changes(f"{out}: already exists, made", changed, ADVICE)


def refuse_other_content(out: Path, source: Boxes, root: Path) -> None:
    """Raises an error unless the dataset folder `out` was made from these boxes and from the images below `root`.

    The boxes must be sorted.
    """
    hashes = read_info(out).get("hashes", {})
    if hashes.get(SOURCE_BOXES) != source.digest():
        raise UserError(f"{out}: already exists, made from other boxes, options or videos -> {ADVICE}")
    dataset = Dataset.open(out)
    used = dataset.boxes().file[dataset.box_of_crop()]
    if PICTURES in hashes and hashes[PICTURES] != files_hash(used, root):
        raise UserError(
            f"{out}: already exists, made from other images below {root} -> give another folder, or remove it"
        )


def count_tracklets(tracklets: LabelFreeTracklets) -> dict[str, int]:
    """Number of videos, tracks, tracklets and crops; none of them depends on labels."""
    return {
        "videos": len(set(video_keys(tracklets))),
        "tracks": int((tracklets.unit == "track").sum()),
        "tracklets": int((tracklets.unit == "tracklet").sum()),
        "crops": len(np.unique(tracklets.row_index)),
    }


def count_labels(tracklets: Tracklets) -> dict[str, int]:
    """Number of polyps, and of polyps with a size and with a histology."""
    polyp = polyp_keys(tracklets)
    known, sized, typed = polyp != "", np.isfinite(tracklets.size_mm), tracklets.histology != ""
    return {
        "polyps": len(set(polyp[known])),
        "with size": len(set(polyp[known & sized])),
        "with histology": len(set(polyp[known & typed])),
    }
