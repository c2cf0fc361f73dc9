"""What `dataset.json` says of a dataset folder."""

from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from polyptrace.core.codec import JPEG_DECODER, PNG_DECODER
from polyptrace.core.files import file_hash, provenance
from polyptrace.data.asked import SOURCE, Asked
from polyptrace.data.counts import count_labels, count_tracklets
from polyptrace.data.crops import container, is_video
from polyptrace.data.dataset import FORMAT
from polyptrace.data.tracklets import Tracklets

#: What decodes JPEGs on a GPU, and videos.
NVJPEG, VIDEO = "nvJPEG", "FFmpeg (PyAV)"


def dataset_info(
    folder: Path,
    files: Iterable[str],
    tracklets: Tracklets,
    asked: Asked,
    counts: dict[str, int],
    boxes: str,
) -> dict[str, Any]:
    """The content of `dataset.json`: everything about labels stands under `labels` alone.

    `boxes`: the hash of the source's boxes.
    """
    return {
        "format": FORMAT,
        **asked.written(),
        "decoder": decoders(files, asked.crops.decoding),
        "counts": counts | count_tracklets(tracklets),
        "labels": count_labels(tracklets),
        "hashes": {name: file_hash(folder / name) for name in ("boxes.parquet", "tracklets.parquet")} | {SOURCE: boxes},
        "made_by": provenance(),
    }


def decoders(files: Iterable[str], decoding: str) -> str:
    """What decodes these pictures with this setting, in one line.

    A GPU decodes JPEGs that are files of their own, and nothing else. JPEGs made smaller come from the same decoder.
    """
    names: set[str] = set()
    for file in set(files):
        if is_video(file):
            names.add(VIDEO)
        elif PurePosixPath(file).suffix.lower() == ".png":
            names.add(PNG_DECODER)
        elif decoding == "nvjpeg" and not container(file):
            names.add(NVJPEG)
        else:
            names.add(JPEG_DECODER)
    return ", ".join(sorted(names))
