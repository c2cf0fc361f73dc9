"""Scale and difficulty of generated procedures.

A preset sets the numbers of procedures and polyps and the image size. A regime sets how tracks of one polyp differ:
`real-colon` follows REAL-Colon; `hard` draws a new view, light and colour for every track and often shows two polyps.
"""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from polyptrace.config import Limits, NonNegative, Share, check_limits
from polyptrace.core.errors import UserError

Regime = Literal["real-colon", "hard"]


@dataclass(frozen=True)
class Difficulty:
    """Settings that make it hard to recognise a polyp again."""

    view_change: Share = 0.72  #: variation of viewpoint, distance, light, blur and inflation
    view_memory: NonNegative = 85.0  #: frames; a gap this long renews 63 % of the view; 0: each track is a new view
    colour_drift: Share = 0.1  #: share of the colour variation that occurs within a procedure
    narrow_band: Share = 0.05  #: probability that an inspection switches to narrow-band imaging
    alike: Share = 0.1  #: similarity of the polyps; 1: the same traits, only patterns and positions differ
    polyps_per_site: Annotated[float, Limits(1, 4)] = 1.1  #: mean, at least 1; polyps of one site can be seen in turn
    interleave: Share = 0.2  #: probability of turning to another polyp of the site before the next track
    resight: Share = 0.3  #: share of polyps that are seen again much later
    box_jitter: Share = 0.02  #: standard deviation of the box edges, relative to the box
    box_dropout: Share = 0.0  #: share of boxes that the detector misses


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
    tracklets: Annotated[float, Limits(1)]  # mean per polyp
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
    tracklets = given.pop("tracklets", preset.tracklets)
    changed = replace(preset, tracklets=tracklets, difficulty=replace(preset.difficulty, **given))
    check_limits(changed)
    check_limits(changed.difficulty)
    return replace(changed, fewest_tracklets=min(preset.fewest_tracklets, max(1, int(tracklets))))
