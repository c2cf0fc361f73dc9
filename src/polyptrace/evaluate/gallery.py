"""Who is in a query's gallery: every other tracklet, or those of its video, of other videos, or far enough in time."""

from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from polyptrace.core.errors import UserError

Scope = Literal["all", "within", "across", "between"]


@dataclass(frozen=True)
class Limits:
    """What leaves a tracklet out of a query's gallery."""

    scope: Scope
    video: NDArray[np.int64] | None
    start: NDArray[np.float64] | None
    end: NDArray[np.float64] | None
    apart: float

    def check(self) -> None:
        """Raises where a limit lacks what it is about."""
        if self.scope not in ("all", "within", "across", "between"):
            raise UserError(f"retrieval: scope {self.scope!r} -> all, within, across or between")
        if (self.scope != "all" or self.apart > 0) and self.video is None:
            raise UserError(f"retrieval: scope {self.scope!r}, {self.apart} s apart -> give each tracklet's video")
        if self.apart > 0 and (self.start is None or self.end is None):
            raise UserError(f"retrieval: {self.apart} s apart -> give each tracklet's start and end in seconds")

    def rows(self, index: NDArray[np.int64]) -> Self:
        """The limits among some of the tracklets."""
        return replace(
            self,
            video=None if self.video is None else self.video[index],
            start=None if self.start is None else self.start[index],
            end=None if self.end is None else self.end[index],
        )

    def excluded(self, polyps: Tensor, first: int, last: int) -> Tensor | None:
        """True (Q, N) where a tracklet is not in the gallery of queries first..last; None: all are."""
        if self.video is None or (self.scope in ("all", "within") and not self.apart > 0):
            return None
        device = polyps.device
        video = torch.as_tensor(self.video, device=device)
        same = video[first:last, None] == video  # (Q, N)
        out = torch.zeros_like(same)
        if self.scope == "across":
            out |= same
        if self.scope == "between":
            out |= same & (polyps[first:last, None] != polyps)
        if self.apart > 0:
            assert self.start is not None
            assert self.end is not None
            start, end = torch.as_tensor(self.start, device=device), torch.as_tensor(self.end, device=device)
            gap = torch.maximum(start - end[first:last, None], start[first:last, None] - end)
            out |= same & (gap.clamp_(min=0) < self.apart)
        return out


def in_seconds(values: ArrayLike | None, count: int) -> NDArray[np.float64] | None:
    """Times as an array, checked; None stays None."""
    if values is None:
        return None
    seconds = np.asarray(values, dtype=np.float64)
    if seconds.shape != (count,) or np.isnan(seconds).any():
        raise UserError("retrieval: start and end -> give a time in seconds for each tracklet")
    return seconds
