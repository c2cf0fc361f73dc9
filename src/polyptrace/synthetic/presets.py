"""Scale and difficulty of generated procedures.

A preset sets the numbers of procedures and polyps and the image size. A regime sets how tracks of one polyp differ:
`real-colon` follows REAL-Colon; `hard` draws a new view, light and colour for every track and often shows two polyps.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from polyptrace.core.errors import UserError

Regime = Literal["real-colon", "hard"]


@dataclass(frozen=True)
class Difficulty:
    """Settings that make it hard to recognise a polyp again; shares in [0, 1] unless noted."""

    view_change: float = 0.72  #: variation of viewpoint, distance, light, blur and inflation
    view_memory: float = 85.0  #: frames; a gap of this length changes 63 % of the view; 0: every track is a new view
    colour_drift: float = 0.1  #: share of the colour variation that occurs within a procedure
    narrow_band: float = 0.05  #: probability that an inspection switches to narrow-band imaging
    alike: float = 0.1  #: similarity of the polyps; 1: the same traits, only patterns and positions differ
    polyps_per_site: float = 1.1  #: mean, at least 1; polyps of one site can be seen in turn
    interleave: float = 0.2  #: probability of turning to another polyp of the site before the next track
    resight: float = 0.3  #: share of polyps that are seen again much later
    box_jitter: float = 0.02  #: standard deviation of the box edges, relative to the box
    box_dropout: float = 0.0  #: share of boxes that the detector misses


@dataclass(frozen=True)
class Preset:
    """Scale of a generated dataset, with its difficulty."""

    name: str
    train_videos: int
    test_videos: int
    train_polyps: int
    test_polyps: int
    width: int  # of an image, pixels
    height: int
    texel_mm: float  # resolution of the mucosa maps
    tracklets: float  # mean per polyp
    fewest_tracklets: int  # minimum per polyp
    spread: float  # standard deviation of the logarithm of the tracklets per polyp
    track_frames: tuple[float, float]  # median, standard deviation of the logarithm
    longest_track: int  # frames
    leaving: float = 0.5  # share of longer looks that start, and that end, with the polyp outside the image
    whole_tracklets: bool = False  # lengths of looks are multiples of a tracklet, so that every rendered frame is used
    regime: Regime = "real-colon"
    separate: bool = True  # the camera shows one polyp at a time
    difficulty: Difficulty = field(default_factory=Difficulty)


HARD = Difficulty(view_change=0.7, view_memory=0.0, colour_drift=1.0, narrow_band=0.08, polyps_per_site=1.5)

PRESETS = {
    "tiny": Preset("tiny", 2, 1, 6, 3, 112, 96, 0.5, 6, 6, 0.0, (56, 0.4), 96, 0.15, True),
    "small": Preset("small", 10, 5, 28, 14, 224, 192, 0.25, 10, 5, 0.35, (48, 0.9), 240),
    "full": Preset("full", 27, 19, 85, 47, 384, 336, 0.1875, 52, 6, 0.7, (45, 1.3), 500),
}
_HARD_TRACKS: dict[str, dict[str, Any]] = {
    "small": {"tracklets": 5, "fewest_tracklets": 3, "track_frames": (48, 0.7), "longest_track": 200},
    "full": {"tracklets": 18, "spread": 0.6, "track_frames": (55, 1.1), "longest_track": 450},
}
#: Ranges of the settings that are not shares in [0, 1].
RANGES = {"view_memory": (0.0, math.inf), "polyps_per_site": (1.0, 4.0), "tracklets": (1.0, math.inf)}


def find_preset(name: str, regime: Regime = "real-colon") -> Preset:
    """The preset with this name in the given regime."""
    if name not in PRESETS:
        raise UserError(f"preset '{name}': unknown -> choose one of {', '.join(PRESETS)}")
    if regime == "real-colon":
        return PRESETS[name]
    return replace(PRESETS[name], regime="hard", separate=False, difficulty=HARD, **_HARD_TRACKS.get(name, {}))


def with_difficulty(preset: Preset, **changes: float | None) -> Preset:
    """The preset with another mean number of `tracklets` per polyp or other Difficulty fields; None keeps a value."""
    given = {name: value for name, value in changes.items() if value is not None}
    for name, value in given.items():
        low, high = RANGES.get(name, (0.0, 1.0))
        if not low <= value <= high:
            option = "--" + name.replace("_", "-")
            wanted = f"{low:g} or more" if high == math.inf else f"a number from {low:g} to {high:g}"
            raise UserError(f"{option} {value:g}: out of range -> give {wanted}")
    tracklets = given.pop("tracklets", None)
    if tracklets is not None:
        fewest = min(preset.fewest_tracklets, max(1, int(tracklets)))
        preset = replace(preset, tracklets=tracklets, fewest_tracklets=fewest)
    return replace(preset, difficulty=replace(preset.difficulty, **given))
