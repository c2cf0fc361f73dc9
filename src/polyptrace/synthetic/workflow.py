"""The schedule of a procedure: when the camera looks at which polyp, for how long, and how much the view changes.

Withdrawal proceeds from site to site. At each site the camera finds a polyp, loses it and finds it again; the polyp is
approached, inspected, washed and removed. Some polyps are seen again much later. The longer the gap between two looks,
the more the view changes: renewal = 1 - exp(-gap / view_memory), so that a gap of three frames changes almost nothing.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator

from polyptrace.synthetic.presets import Preset

Phase = Literal["survey", "approach", "inspect", "wash", "remove"]
FPS = (25.0, 29.97, 30.0)
GAP_FRAMES = (7.0, 1.4)  # between two looks at a site: median, standard deviation of the logarithm
MAX_GAP = 600
NEW_PHASE = 0.15  # probability of a new phase after a short gap


@dataclass(frozen=True)
class Look:
    """A run of frames in which the camera shows one polyp: one track, unless the polyp leaves the view."""

    start: int  # frame index
    frames: int
    polyp: int
    phase: Phase
    renewal: float  # change of the conditions since the previous look, in [0, 1]
    view_renewal: float  # change of the viewpoint since the previous look at this polyp, in [0, 1]
    narrow_band: bool = False


def tracklets_in(frames: int) -> int:
    """Number of complete tracklets in a track of `frames` frames, with default settings."""
    return 0 if frames < 30 else -(-frames // 4) // 8


def renewal_after(gap: int, memory: float) -> float:
    """Share of a view that is new after a gap, in [0, 1]."""
    return 1.0 if memory <= 0 else float(1.0 - np.exp(-gap / memory))


def plan_looks(rng: Generator, preset: Preset, sites: list[list[int]], extra: int = 0) -> list[Look]:
    """The looks of one procedure in time order; `sites` holds the polyps of each site in order of withdrawal.

    `extra` tracklets per polyp are added, because some looks lose the polyp.
    """
    looks: list[Look] = []
    now = int(rng.integers(1500, 9000))
    seen_again: list[int] = []
    for polyps in sites:
        now = _visit(rng, preset, looks, now, {each: _draw_count(rng, preset) + extra for each in polyps})
        seen_again += [each for each in polyps if rng.random() < preset.difficulty.resight]
        now += int(rng.lognormal(np.log(1500), 0.7))
    for polyp in seen_again:
        count = max(1, round(0.2 * _draw_count(rng, preset)))
        now = _visit(rng, preset, looks, now + int(rng.integers(600, 4000)), {polyp: count}, late=True)
    return looks


def _draw_count(rng: Generator, preset: Preset) -> int:
    """Number of tracklets of one polyp."""
    drawn = preset.tracklets * np.exp(rng.normal(-0.5 * preset.spread**2, preset.spread))
    return max(preset.fewest_tracklets, round(float(drawn)))


def _visit(
    rng: Generator, preset: Preset, looks: list[Look], now: int, counts: dict[int, int], late: bool = False
) -> int:
    """Append the looks of one visit to a site until every polyp has its tracklets; return the next free frame."""
    hard = preset.difficulty
    left = dict(counts)
    last = {look.polyp: look for look in looks}
    current = int(rng.choice(list(left)))
    while any(count > 0 for count in left.values()):
        others = [each for each, count in left.items() if count > 0 and each != current]
        if others and (left[current] <= 0 or rng.random() < hard.interleave):
            current = int(rng.choice(others))
        frames = _draw_frames(rng, preset)
        renewal = renewal_after(now - _end(looks[-1]), hard.view_memory) if looks else 1.0
        previous = last.get(current)
        view_renewal = renewal_after(now - _end(previous), hard.view_memory) if previous else 1.0
        if previous is None or rng.random() < max(NEW_PHASE, view_renewal):
            phase = "survey" if late else _draw_phase(rng, 1.0 - left[current] / counts[current])
            narrow_band = phase == "inspect" and rng.random() < hard.narrow_band
        else:
            phase, narrow_band = previous.phase, previous.narrow_band
        look = Look(now, frames, current, phase, renewal, view_renewal, narrow_band)
        looks.append(look)
        last[current] = look
        left[current] -= tracklets_in(frames)
        median, deviation = GAP_FRAMES
        now += frames + min(1 + int(rng.lognormal(np.log(median), deviation)), MAX_GAP)
    return now


def _end(look: Look) -> int:
    return look.start + look.frames


def _draw_frames(rng: Generator, preset: Preset) -> int:
    median, deviation = preset.track_frames
    frames = int(np.clip(round(float(rng.lognormal(np.log(median), deviation))), 2, preset.longest_track))
    return 32 * max(1, round(frames / 32)) if preset.whole_tracklets else frames


def _draw_phase(rng: Generator, share: float) -> Phase:
    """The phase of a look after `share` of the polyp's tracklets."""
    draw = rng.random()
    if share < 0.15:
        return "survey" if draw < 0.7 else "approach"
    if share < 0.75:
        return "approach" if draw < 0.35 else "inspect" if draw < 0.75 else "wash" if draw < 0.9 else "survey"
    return "remove" if draw < 0.6 else "inspect" if draw < 0.9 else "survey"
