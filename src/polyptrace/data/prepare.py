"""From a box table and its pictures to a dataset folder.

    polyptrace prepare mot clips --out dataset

The folder takes its name when everything in it is there. Until then it is `OUT.partial`, where a run that was killed
goes on with the crops it had already cut.
"""

import hashlib
import json
import shutil
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from polyptrace.codec import DECODER
from polyptrace.config import Crops, Tracks
from polyptrace.data.boxes import Boxes, Ints
from polyptrace.data.checks import Finding, check_boxes, summary, write_rejected
from polyptrace.data.counts import count_labels, count_tracklets
from polyptrace.data.dataset import FORMAT, Dataset, save_tracklets
from polyptrace.data.store import fill_store
from polyptrace.data.tracklets import Tracklets, cut_tracklets
from polyptrace.data.tracks import link_tracks
from polyptrace.errors import UserError
from polyptrace.files import file_hash, provenance, write_json
from polyptrace.progress import progress

#: datasets whose frames are sampled: neighbours in the table lie some time apart, and have settings of their own
SAMPLED = ("polypsset", "artificial polypsset")


def prepare(
    boxes: Boxes,
    root: Path,
    out: Path,
    tracks: Tracks | None = None,
    crops: Crops | None = None,
    *,
    skip_bad: bool = False,
    source: dict[str, Any] | None = None,
) -> Dataset:
    """Writes the dataset folder `out` from boxes and the pictures below `root`, and opens it.

    Fatal findings are an error; with `skip_bad` their rows are left out and written to `rejected.csv`.
    """
    tracks, crops = tracks or Tracks(), crops or Crops()
    if out.exists():
        raise UserError(f"{out}: already exists -> give another folder, or remove it first")
    boxes = boxes.in_order()
    findings = [f for f in check_boxes(boxes) if f.fatal]
    _refuse(findings, skip_bad)
    partial = out.with_name(out.name + ".partial")
    while True:
        good = np.delete(np.arange(len(boxes)), [f.row for f in findings])
        table = boxes.take(good)
        tracklets = cut_both(table, tracks)
        used, tracklets = _renumbered(tracklets)
        bad = _cut_crops(partial, table.take(used), root, crops)
        new = [Finding("picture", True, row, boxes.where(row), text) for row, text in _rows_of(bad, good[used])]
        _refuse(new, skip_bad)
        if not new:
            break
        findings += new  # without these boxes the tracks are others: link and cut again
    _write_tables(partial, table, tracklets, used)
    if findings:
        write_rejected(partial / "rejected.csv", boxes, findings)
    settings = {"tracks": asdict(tracks), "crops": asdict(crops)}
    write_json(partial / "dataset.json", _info(partial, table, tracklets, settings, len(findings), source))
    (partial / "plan").unlink()
    (partial / "crops.log").unlink()
    partial.rename(out)
    return Dataset.open(out)


def cut_both(boxes: Boxes, settings: Tracks) -> Tracklets:
    """Fixed-length tracklets and whole tracks, side by side, as rows of the box table."""
    sampled = np.logical_or.reduce([boxes.dataset == name for name in SAMPLED])
    track = np.empty(len(boxes), np.int64)
    first = 0
    for rows, iou in ((~sampled, settings.iou), (sampled, settings.sampled_iou)):
        if rows.any():
            track[rows] = first + link_tracks(boxes.take(rows), settings.link, iou, settings.max_gap)
            first = int(track[rows].max()) + 1
    stride = _in_frames(boxes, settings.stride, settings.stride_seconds, sampled, settings.sampled_stride)
    min_track = _in_frames(boxes, settings.min_track, settings.min_track_seconds, sampled, settings.sampled_min_track)
    short = cut_tracklets(boxes, track, settings.length, stride, min_track)
    return Tracklets.concatenate(short, cut_tracklets(boxes, track, None, stride, min_track))


def _in_frames(boxes: Boxes, frames: int, seconds: float | None, sampled: NDArray[np.bool_], of_sampled: int) -> Ints:
    """A setting in frames, for each box: as given, or from seconds at its video's own frame rate."""
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


def _cut_crops(partial: Path, used: Boxes, root: Path, crops: Crops) -> list[tuple[int, str]]:
    """Fills the crop store in the partial folder, going on with what an earlier run of the same plan left there."""
    plan = _fingerprint(used, root, crops)
    note = partial / "plan"
    if partial.exists() and (not note.exists() or note.read_text(encoding="utf-8") != plan):
        shutil.rmtree(partial)
    partial.mkdir(parents=True, exist_ok=True)
    note.write_text(plan, encoding="utf-8")
    pictures = len(set(zip(used.file, used.frame_index.tolist(), strict=True)))
    with progress("cutting crops", pictures, "pictures") as bar:
        bad = fill_store(
            partial / "crops.npy",
            used,
            root,
            scale=crops.scale,
            size=crops.size,
            decoding=crops.decoding,
            workers=crops.workers,
            advance=bar.advance,
        )
    return [(b.row, b.reason) for b in bad]


def _fingerprint(used: Boxes, root: Path, crops: Crops) -> str:
    """Changes whenever another crop store would be asked for; the number of workers does not change it."""
    digest = hashlib.sha256()
    for column in (used.xywh, used.frame_index, used.image_width, used.image_height):
        digest.update(np.ascontiguousarray(column).tobytes())
    settings = {key: value for key, value in asdict(crops).items() if key != "workers"}
    digest.update(json.dumps([str(root.resolve()), settings, used.file.tolist()]).encode())
    return digest.hexdigest()


def _rows_of(bad: list[tuple[int, str]], rows: Ints) -> list[tuple[int, str]]:
    return [(int(rows[row]), reason) for row, reason in bad]


def _refuse(findings: list[Finding], skip_bad: bool) -> None:
    if findings and not skip_bad:
        what = f"{len(findings):,} rows cannot be used -> mend them, or leave them out with --skip-bad"
        raise UserError(f"{what}\n{summary(findings)}")


def _write_tables(partial: Path, boxes: Boxes, tracklets: Tracklets, used: Ints) -> None:
    save_tracklets(tracklets, partial / "tracklets.parquet")
    boxes.save(partial / "boxes.parquet")
    crop = np.full(len(boxes), -1)
    crop[used] = np.arange(len(used))
    table = pq.read_table(partial / "boxes.parquet").append_column("crop", pa.array(crop))
    pq.write_table(table, partial / "boxes.parquet", compression="zstd")


def _info(
    folder: Path,
    boxes: Boxes,
    tracklets: Tracklets,
    settings: dict[str, Any],
    rejected: int,
    source: dict[str, Any] | None,
) -> dict[str, Any]:
    """What `dataset.json` says: everything about labels stands under `labels` alone."""
    return {
        "format": FORMAT,
        "source": source or {},
        "settings": settings,
        "decoder": "nvJPEG" if settings["crops"]["decoding"] == "nvjpeg" else DECODER,
        "counts": {"boxes": len(boxes), "rejected": rejected} | count_tracklets(tracklets),
        "labels": count_labels(tracklets),
        "hashes": {name: file_hash(folder / name) for name in ("boxes.parquet", "tracklets.parquet")},
        "made_by": provenance(),
    }
