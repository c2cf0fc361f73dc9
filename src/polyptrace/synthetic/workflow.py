"""The course of a procedure in time: when the camera looks at which polyp, and for how long.

Withdrawal goes from site to site. At each site its polyps are found, lost and found again; the camera turns from one
to another; a polyp is washed, approached, removed. Some are seen once more, much later.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from polyptrace.synthetic.noise import Rng
from polyptrace.synthetic.presets import Preset

Phase = Literal["survey", "approach", "inspect", "wash", "remove"]
FPS = (25.0, 29.97, 30.0)


@dataclass(frozen=True)
class Look:
    """A stretch of frames in which the camera looks at one polyp: a track, unless the polyp slips out of view."""

    start: int  # frame index
    frames: int
    polyp: int
    phase: Phase
    fresh: bool  # a new viewpoint, rather than where the last look ended


def tracklets_in(frames: int, stride: int = 4, length: int = 8, shortest: int = 30) -> int:
    """Whole tracklets that a track of so many frames gives."""
    return 0 if frames < shortest else -(-frames // stride) // length


def plan_looks(rng: Rng, preset: Preset, sites: list[list[int]], extra: int = 0) -> list[Look]:
    """The looks of one procedure in time order; `sites` holds the polyps of each site in the order of withdrawal.

    `extra` tracklets are planned for each polyp beyond those wanted, since some looks lose the polyp.
    """
    looks: list[Look] = []
    now = int(rng.integers(1500, 9000))
    again: list[int] = []
    for polyps in sites:
        now = _visit(rng, preset, looks, now, {each: _wanted(rng, preset) + extra for each in polyps})
        again += [each for each in polyps if rng.random() < preset.difficulty.resight]
        now += int(rng.lognormal(np.log(1500), 0.7))
    for polyp in again:
        wanted = max(1, round(0.2 * _wanted(rng, preset)))
        now = _visit(rng, preset, looks, now + int(rng.integers(600, 4000)), {polyp: wanted}, late=True)
    return looks


def _wanted(rng: Rng, preset: Preset) -> int:
    """Tracklets wanted of one polyp."""
    drawn = preset.tracklets * np.exp(rng.normal(-0.5 * preset.spread**2, preset.spread))
    return max(preset.fewest_tracklets, round(float(drawn)))


def _visit(rng: Rng, preset: Preset, looks: list[Look], now: int, wanted: dict[int, int], late: bool = False) -> int:
    """Adds the looks of one visit to a site until every polyp has what is wanted; gives the frame after the last."""
    left = dict(wanted)
    current = int(rng.choice(list(left)))
    while any(count > 0 for count in left.values()):
        others = [each for each, count in left.items() if count > 0 and each != current]
        turned = bool(others) and (left[current] <= 0 or rng.random() < preset.difficulty.interleave)
        if turned:
            current = int(rng.choice(others))
        frames = _frames(rng, preset)
        share = 1.0 - left[current] / wanted[current]
        same = bool(looks) and looks[-1].polyp == current and not turned
        gap = 1 + int(rng.lognormal(np.log(10), 1.4))
        fresh = not same or gap > 25 or rng.random() < preset.difficulty.view_change
        looks.append(Look(now, frames, current, "survey" if late else _phase(rng, share), fresh))
        left[current] -= tracklets_in(frames)
        now += frames + min(gap, 600)
    return now


def _frames(rng: Rng, preset: Preset) -> int:
    median, deviation = preset.track_frames
    frames = int(np.clip(round(float(rng.lognormal(np.log(median), deviation))), 2, preset.longest_track))
    return 32 * max(1, round(frames / 32)) if preset.whole_tracklets else frames


def _phase(rng: Rng, share: float) -> Phase:
    """What is being done to a polyp once `share` of its tracklets are there."""
    draw = rng.random()
    if share < 0.15:
        return "survey" if draw < 0.7 else "approach"
    if share < 0.75:
        return "approach" if draw < 0.35 else "inspect" if draw < 0.75 else "wash" if draw < 0.9 else "survey"
    return "remove" if draw < 0.6 else "inspect" if draw < 0.9 else "survey"
