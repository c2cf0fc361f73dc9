"""What is in a dataset, beside what the paper counted in its own."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from polyptrace.data.identity import polyp_keys, video_keys
from polyptrace.data.tracklets import LabelFreeTracklets, Tracklets


@dataclass(frozen=True)
class PaperCounts:
    """The paper's figures for one of its datasets; None where it gives none."""

    videos: int
    polyps: int
    tracks: int | None = None


PAPER = {
    "rc27": PaperCounts(27, 85),
    "rc19": PaperCounts(19, 47, 736),
    "rsp": PaperCounts(161, 189),
    "rspp": PaperCounts(195, 210),
}
SAME_AS = {"paper-train": "rc27", "paper-eval": "rc19"}


def paper_counts(name: str) -> PaperCounts | None:
    """The paper's figures for a dataset or split of that name."""
    return PAPER.get(SAME_AS.get(name, name))


def count_tracklets(tracklets: LabelFreeTracklets) -> dict[str, int]:
    """Videos, tracks, tracklets and used frames: all that can be counted without labels."""
    return {
        "videos": len(set(video_keys(tracklets))),
        "tracks": int((tracklets.unit == "track").sum()),
        "tracklets": int((tracklets.unit == "tracklet").sum()),
        "crops": len(np.unique(tracklets.flat)),
    }


def count_labels(tracklets: Tracklets) -> dict[str, Any]:
    """Polyps, and how many of them have a size and a histology."""
    known = tracklets.polyp != ""
    names = polyp_keys(tracklets)[known].tolist()
    sized = np.isfinite(tracklets.size_mm[known])
    typed = tracklets.histology[known] != ""
    return {
        "polyps": len(set(names)),
        "with size": len({name for name, has in zip(names, sized, strict=True) if has}),
        "with histology": len({name for name, has in zip(names, typed, strict=True) if has}),
    }
