"""The curriculum: the temperature τ of the ranks as a function of training progress c in [0, 1].

    τ(c) = τ_min + (1 - cos πc)/2 · (τ_max - τ_min)

It is a function without state: the temperature of any epoch or step is known without running the others. The paper
advances c once per epoch. Over few epochs that is a coarse staircase, and in a single epoch τ stays at τ_min; `step`
advances c with every step instead.

The paper's τ_max = 12 suits REAL-Colon, with about 60 tracklets per polyp and 190 per video: 12 is 0.2 of the tracklets
of a polyp and 0.06 of those of a video. On shorter recordings the same 12 reaches far past the polyp. There are two
ways to scale it with the data:

share  τ_max of a tracklet is a share (0.06) of the number of tracklets in its video. This is right if videos have about
       as many polyps as the paper's.
gaps   τ_max of a tracklet is a share (0.2) of the number of tracklets in its burst. Between two polyps the camera moves
       on and sees none, so a video consists of bursts of tracklets with long breaks between them. Breaks are the times
       between consecutive tracklets that exceed the median (the one within a track). Over all videos, their logarithms
       are split into short and long by Otsu's threshold, which maximises the variance between the two classes. If the
       long breaks are less than four times the short ones, in geometric mean, every video is one burst.

A burst is not a polyp. Two polyps close in time form one burst, and a polyp seen twice forms two. The second error is
harmless (bags are closer than they need to be); the first is what the noise-aware loss is made for.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from polyptrace.config import Supervision
from polyptrace.core.arrays import Floats, Ints
from polyptrace.supervision.bags import timeline

#: The least ratio of long to short breaks, in geometric mean, for the two to be separate classes.
MIN_RATIO = 4.0

#: τ_max as a share of the tracklets of a polyp: 12 of about 60 in the paper.
BURST_SHARE = 0.2


def temperature(c: float, low: float = 0.3, high: float = 12.0) -> float:
    """τ at progress c."""
    if not 0 <= c <= 1:
        raise ValueError(f"progress {c} is not in [0, 1]")
    return low + (1 - math.cos(math.pi * c)) / 2 * (high - low)


def epoch_progress(epoch: int, epochs: int, convention: Literal["paper", "release"] = "paper") -> float:
    """c of an epoch in 0..epochs-1.

    paper: epoch / (epochs - 1), which is 1 in the last epoch (0 if there is only one); release: epoch / epochs.
    """
    if not 0 <= epoch < epochs:
        raise ValueError(f"epoch {epoch} is not in 0..{epochs - 1}")
    if convention == "release":
        return epoch / epochs
    return epoch / max(epochs - 1, 1)


def step_progress(steps: range, total: int) -> list[float]:
    """c of some steps of a run of `total` steps, which reaches 1 in the last one."""
    return [min(step / max(total - 1, 1), 1.0) for step in steps]


def anchor_temperatures(c: Sequence[float], batch: Ints, high: ArrayLike, settings: Supervision) -> Floats:
    """τ of anchors in batches (A,), if each batch is at progress c (S,) and τ_max is `high`, one number or (A,)."""
    if settings.curriculum == "fixed":
        return np.full(len(batch), high, np.float64)
    share = np.array([temperature(each, 0.0, 1.0) for each in c])[batch]  # (A,) of the way from τ_min to τ_max
    return settings.tau_min + share * (np.asarray(high) - settings.tau_min)


def fitted_temperature(video: ArrayLike, position: ArrayLike, settings: Supervision) -> Floats:
    """τ_max of each tracklet (N,): that of the settings (none), or from its video (share) or burst (gaps).

    Fitted values are never below τ_min. `settings.tau_share` is the share of the video's tracklets; that of a burst is
    BURST_SHARE.
    """
    match settings.tau_fit:
        case "none":
            return np.full(np.shape(video), settings.tau_max)
        case "share":
            fitted = settings.tau_share * (timeline(video, position).others + 1)
        case "gaps":
            burst = bursts(video, position)
            fitted = BURST_SHARE * np.bincount(burst)[burst]
    return np.maximum(fitted, settings.tau_min)


def bursts(video: ArrayLike, position: ArrayLike) -> Ints:
    """The burst of each tracklet (N,), numbered from 0 by video and time."""
    line = timeline(video, position)
    starts = line.video_begin == np.arange(len(line.index))
    gaps = np.diff(line.position, prepend=line.position[:1]).astype(np.float64)
    within_videos = gaps[~starts]
    if len(within_videos):
        starts |= gaps > _burst_gap(within_videos)
    return (np.cumsum(starts) - 1)[line.slot]


def _burst_gap(gaps: Floats) -> float:
    """The longest time between two tracklets of one burst; inf if the gaps do not form two classes."""
    breaks = np.sort(np.log(gaps[gaps > np.median(gaps)]))
    count = np.arange(1, len(breaks))  # number of short breaks, for each split
    distinct = np.diff(breaks) > 0
    if not distinct.any():
        return float("inf")
    total = np.cumsum(breaks)
    short, long = total[:-1] / count, (total[-1] - total[:-1]) / (len(breaks) - count)
    between = count * (len(breaks) - count) * (long - short) ** 2
    best = int(np.where(distinct, between, -1.0).argmax())
    if long[best] - short[best] < np.log(MIN_RATIO):
        return float("inf")
    return float(np.exp(breaks[best : best + 2].mean()))
