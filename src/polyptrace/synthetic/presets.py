"""How much is generated, and how hard it is: a few documented numbers."""

from dataclasses import dataclass, field, replace

from polyptrace.core.errors import UserError


@dataclass(frozen=True)
class Difficulty:
    """What makes it hard to see that two tracks show the same polyp. Every number is in [0, 1]."""

    view_change: float = 0.7  #: how much viewpoint, scale, light, colour and blur differ between tracks of one polyp
    alike: float = 0.1  #: how alike the polyps are; 1: all have the same traits, only their patterns differ
    interleave: float = 0.2  #: how often the camera turns to another polyp before the next track
    resight: float = 0.3  #: share of polyps that are seen again much later
    box_jitter: float = 0.02  #: deviation of the boxes' edges, as a share of the box
    box_dropout: float = 0.0  #: share of boxes that the detector misses


@dataclass(frozen=True)
class Preset:
    """How much is generated."""

    name: str
    train_videos: int
    test_videos: int
    train_polyps: int
    test_polyps: int
    width: int  # of a picture, pixels
    height: int
    texel_mm: float  # detail of the mucosa
    tracklets: int  # wanted per polyp, about
    fewest_tracklets: int  # at least this many per polyp
    spread: float  # how unequal polyps are in how long they are seen (deviation of the logarithm)
    track_frames: tuple[float, float]  # median, deviation of the logarithm
    longest_track: int
    leaving: float = 0.5  # share of longer looks that begin, and that end, with the polyp outside the picture
    whole_tracklets: bool = False  # looks as long as their tracklets: no frame is rendered in vain
    difficulty: Difficulty = field(default_factory=Difficulty)


PRESETS = {
    "tiny": Preset("tiny", 2, 1, 6, 3, 112, 96, 0.5, 6, 6, 0.0, (56, 0.4), 96, 0.15, True),
    # Many polyps, each seen for a short time and in easier views: what little training can learn from.
    "small": Preset(
        "small", 12, 5, 44, 18, 224, 192, 0.25, 5, 3, 0.35, (48, 0.7), 200, difficulty=Difficulty(view_change=0.5)
    ),
    "full": Preset("full", 27, 19, 85, 47, 384, 336, 0.1875, 18, 6, 0.6, (55, 1.1), 450),
}


def find_preset(name: str) -> Preset:
    """The preset of that name."""
    if name not in PRESETS:
        raise UserError(f"preset '{name}': no such preset -> choose one of {', '.join(PRESETS)}")
    return PRESETS[name]


def with_difficulty(preset: Preset, **changes: float | None) -> Preset:
    """The preset with some of its difficulty numbers changed; None leaves one as it is."""
    wanted = {name: value for name, value in changes.items() if value is not None}
    for name, value in wanted.items():
        if not 0.0 <= value <= 1.0:
            raise UserError(f"{name.replace('_', '-')} {value}: not in [0, 1] -> give a share")
    return replace(preset, difficulty=replace(preset.difficulty, **wanted))
