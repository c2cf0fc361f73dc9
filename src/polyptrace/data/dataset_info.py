"""The content of `dataset.json`: how a dataset folder was made and what it holds.

It also decides whether an existing folder is reused: the settings and the boxes of the source must be the same.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from polyptrace.config import Crops, Tracks
from polyptrace.core.codec import JPEG_DECODER, PNG_DECODER
from polyptrace.core.errors import UserError
from polyptrace.core.files import file_hash, provenance
from polyptrace.core.reuse import differences, refuse_changes
from polyptrace.data.boxes import Boxes
from polyptrace.data.crops import container, files_hash, is_video
from polyptrace.data.dataset import FORMAT, Dataset, DatasetTracklets, LabelFreeTracklets, read_info
from polyptrace.data.identity import polyp_keys, video_keys

FILE = "dataset.json"
#: Keys of the hashes of the source's boxes, and of the sizes and times of the files that crops were cut from.
SOURCE_BOXES, PICTURES = "source boxes", "picture files"
NVJPEG, FFMPEG = "nvJPEG", "FFmpeg (PyAV)"
ADVICE = "use the same settings, give another folder, or remove this one first"


@dataclass(frozen=True)
class PrepareSettings:
    """Everything except boxes and pictures that determines the content of a dataset folder."""

    tracks: Tracks
    crops: Crops
    skip_bad: bool
    source: dict[str, Any]  # format, path and selection

    def as_dict(self) -> dict[str, Any]:
        """As recorded in `dataset.json`."""
        settings = {"tracks": asdict(self.tracks), "crops": asdict(self.crops), "skip_bad": self.skip_bad}
        return {"source": self.source, "settings": settings}


def dataset_info(
    folder: Path,
    root: Path,
    source: Boxes,
    used: Boxes,
    tracklets: DatasetTracklets,
    settings: PrepareSettings,
    counts: dict[str, int],
) -> dict[str, Any]:
    """The content of `dataset.json`; everything about labels is under `labels`.

    `source` are all boxes of the source, `used` those that have a crop, cut from pictures below `root`.
    """
    hashes = {name: file_hash(folder / name) for name in ("boxes.parquet", "tracklets.parquet")}
    return {
        "format": FORMAT,
        **settings.as_dict(),
        "generated": bool(source.generated.any()),
        "decoder": decoders(used.file, settings.crops.decoding),
        "counts": counts | count_tracklets(tracklets),
        "labels": count_labels(tracklets),
        "hashes": hashes | {SOURCE_BOXES: boxes_hash(source), PICTURES: files_hash(used.file, root)},
        "made_by": provenance(),
    }


def refuse_other_settings(out: Path, settings: PrepareSettings) -> None:
    """Raises an error unless `out` is a dataset folder that was made with the same settings."""
    if not (out / FILE).is_file():
        raise UserError(f"{out}: already exists -> give another folder, or remove it first")
    old = read_info(out)
    new = json.loads(json.dumps(settings.as_dict()))
    changed = differences({"source": old.get("source", {})}, {"source": new["source"]})
    changed += differences(old.get("settings", {}), new["settings"])
    refuse_changes(f"{out}: already exists, made", changed, ADVICE)


def refuse_other_content(out: Path, source: Boxes, root: Path) -> None:
    """Raises an error unless the dataset folder `out` was made from these boxes and from the pictures below `root`.

    The boxes must be sorted.
    """
    hashes = read_info(out).get("hashes", {})
    if hashes.get(SOURCE_BOXES) != boxes_hash(source):
        raise UserError(
            f"{out}: already exists, made from other boxes: the source, or an option of its reader, has changed"
            f" -> {ADVICE}"
        )
    dataset = Dataset.open(out)
    used = dataset.boxes().file[dataset.box_of_crop()]
    if PICTURES in hashes and hashes[PICTURES] != files_hash(used, root):
        raise UserError(
            f"{out}: already exists, made from other pictures: a picture, archive or video below {root} was replaced"
            " or written again -> remove this folder, or give another one"
        )


def boxes_hash(boxes: Boxes) -> str:
    """SHA-256 of a box table, independent of the files and lines that its rows were read from."""
    digest = hashlib.sha256()
    for column in fields(boxes):
        if column.name in ("source", "line"):
            continue
        values = getattr(boxes, column.name)
        if values.dtype == np.float64:
            values = np.where(np.isnan(values), np.nan, values)  # NaN has many bit patterns
        text = values.dtype == np.object_
        digest.update(json.dumps(values.tolist()).encode() if text else np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


def count_tracklets(tracklets: LabelFreeTracklets) -> dict[str, int]:
    """Number of videos, tracks, tracklets and crops; none of them depends on labels."""
    return {
        "videos": len(set(video_keys(tracklets))),
        "tracks": int((tracklets.unit == "track").sum()),
        "tracklets": int((tracklets.unit == "tracklet").sum()),
        "crops": len(np.unique(tracklets.crop_index)),
    }


def count_labels(tracklets: DatasetTracklets) -> dict[str, int]:
    """Number of polyps, and of polyps with a size and with a histology."""
    polyp = polyp_keys(tracklets)
    known, sized, typed = polyp != "", np.isfinite(tracklets.size_mm), tracklets.histology != ""
    return {
        "polyps": len(set(polyp[known])),
        "with size": len(set(polyp[known & sized])),
        "with histology": len(set(polyp[known & typed])),
    }


def decoders(files: Iterable[str], decoding: str) -> str:
    """The decoders of these files with this setting; nvJPEG decodes only JPEGs outside of archives."""
    names: set[str] = set()
    for file in set(files):
        if is_video(file):
            names.add(FFMPEG)
        elif PurePosixPath(file).suffix.lower() == ".png":
            names.add(PNG_DECODER)
        elif decoding == "nvjpeg" and not container(file):
            names.add(NVJPEG)
        else:
            names.add(JPEG_DECODER)
    return ", ".join(sorted(names))
