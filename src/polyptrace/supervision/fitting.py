"""A highest temperature that fits the data, without labels.

The paper's τ_max = 12 goes with REAL-Colon: about 60 tracklets a polyp and 190 a video, of which 12 is a share of 0.2
and of 0.06. On shorter recordings the same 12 reaches far past the polyp. Two ways to scale it with the data:

share  τ_max of a tracklet is a share (0.06) of the number of tracklets in its video: right where videos hold about as
       many polyps as the paper's.
gaps   τ_max of a tracklet is a share (0.2) of the number of tracklets in its burst. Between two polyps the camera
       travels and sees none, so a video is bursts of tracklets with long breaks between them. Breaks are the times from
       tracklet to tracklet that are longer than the median one (that inside a track). Their logarithms, over all
       videos, are split into short and long where the variance between the two classes is greatest (Otsu's threshold).
       Where the long are not clearly longer, four times in geometric mean, every video is one burst.

A burst is not a polyp: two polyps close in time make one, and a polyp seen twice makes two. The second error is
harmless (bags stay closer than they need to), the first is what the noise-aware loss is for.
"""

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from polyptrace.supervision.ranks import Column, Floats, Integers, timeline

#: How much longer than short breaks the long ones must be, in geometric mean, to count as a class of their own.
CLEARLY = 4.0

#: τ_max as a share of the tracklets of a polyp: the paper's 12 of about 60.
BURST_SHARE = 0.2


def fitted_temperature(
    video: Column,
    position: Column,
    fit: Literal["none", "share", "gaps"],
    high: float = 12.0,
    share: float = 0.06,
    low: float = 0.3,
) -> float | Tensor:
    """τ_max: `high` for all (none), or for each tracklet (N,) as its video (share) or its burst (gaps) asks.

    Never below `low`. `share` is that of the video's tracklets; that of a burst's is fixed by the paper's numbers.
    """
    match fit:
        case "none":
            return high
        case "share":
            return _scaled(share, timeline(video, position).others + 1, low)
        case "gaps":
            burst = bursts(video, position)
            return _scaled(BURST_SHARE, np.bincount(burst)[burst], low)


def bursts(video: Column, position: Column) -> Integers:
    """The burst of each tracklet, numbered from 0 in order of video and time: (N,)."""
    line = timeline(video, position)
    starts = line.video_begin == np.arange(len(line.index))
    gaps = np.diff(line.position, prepend=line.position[:1]).astype(np.float64)
    inside = gaps[~starts]
    if len(inside):
        starts |= gaps > _longest_inside(inside)
    return (np.cumsum(starts) - 1)[line.place]


def _longest_inside(gaps: Floats) -> float:
    """The time between two tracklets above which they are of two bursts; inf if no gaps stand out."""
    breaks = np.sort(np.log(gaps[gaps > np.median(gaps)]))
    count = np.arange(1, len(breaks))  # of short breaks, for each way to split
    distinct = np.diff(breaks) > 0
    if not distinct.any():
        return float("inf")
    total = np.cumsum(breaks)
    short, long = total[:-1] / count, (total[-1] - total[:-1]) / (len(breaks) - count)
    between = count * (len(breaks) - count) * (long - short) ** 2
    best = int(np.where(distinct, between, -1.0).argmax())
    if long[best] - short[best] < np.log(CLEARLY):
        return float("inf")
    return float(np.exp(breaks[best : best + 2].mean()))


def _scaled(share: float, tracklets: Integers, low: float) -> Tensor:
    return (share * torch.from_numpy(tracklets).double()).clamp(min=low)
