"""Cuts tracklets of any length into the clips that a video model wants.

A tracklet that is no longer than a clip is one shorter clip. A longer one gives as few whole clips as cover it, spread
evenly from its first frame to its last: neighbours overlap where the length is no multiple of the clip's, so that every
frame is seen, none is repeated inside a clip, and no clip is cut short.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Clips:
    """Clips of one length: whose they are, which of the tracklet's they are, and their frames.

    `tracklet` (n,), `place` (n,) and `frames` (n, F) index a batch of frames (B, L, …).
    """

    tracklet: Tensor
    place: Tensor
    frames: Tensor


def clip_starts(length: int, clip_length: int) -> list[int]:
    """First frames of the clips of a tracklet of `length` frames."""
    if length <= clip_length:
        return [0]
    last, steps = length - clip_length, -(-length // clip_length) - 1
    return [(2 * last * step + steps) // (2 * steps) for step in range(steps + 1)]


def cut_clips(mask: Tensor, clip_length: int) -> Iterator[Clips]:
    """The clips of a batch with real frames where the mask (B, L) is True, those of one length together."""
    found: dict[int, list[tuple[int, int, Tensor]]] = {}
    for tracklet, real in enumerate(mask.cpu()):
        frames = real.nonzero()[:, 0]
        length = min(len(frames), clip_length)
        for place, start in enumerate(clip_starts(len(frames), clip_length)):
            found.setdefault(length, []).append((tracklet, place, frames[start : start + length]))
    for _, clips in sorted(found.items()):
        tracklets, places, frames_of = zip(*clips, strict=True)
        yield Clips(
            torch.tensor(tracklets, device=mask.device),
            torch.tensor(places, device=mask.device),
            torch.stack(frames_of).to(mask.device),
        )
