"""What a task works on: one table of vectors, its polyps and videos by name, and the bootstrap's draws of them."""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from polyptrace.config import Evaluate
from polyptrace.data import polyp_keys, video_keys
from polyptrace.embed import Embeddings
from polyptrace.evaluate.results import Metric, Task
from polyptrace.evaluate.significance import draw_counts, interval
from polyptrace.evaluate.similarity import label_codes

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Clusters:
    """The polyps or videos that are drawn: of each row (N,; -1: none), how often in each draw (R, C), and a key."""

    code: NDArray[np.int64]
    counts: NDArray[np.int64]
    key: str

    @property
    def number(self) -> int:
        """C: how many there are, and how many each draw takes."""
        return int(self.counts.shape[1])


@dataclass(frozen=True)
class Outcome:
    """A task's figures and arrays while it is put together."""

    task: Task
    arrays: Arrays = field(default_factory=dict)


@dataclass(frozen=True)
class Subject:
    """The rows of one unit, with names that are unique across datasets."""

    embeddings: Embeddings
    unit: str
    table: str
    settings: Evaluate

    @cached_property
    def polyp(self) -> NDArray[np.str_]:
        """dataset/polyp of each row, "" where the polyp is unknown."""
        return polyp_keys(self.embeddings).astype(str)

    @cached_property
    def video(self) -> NDArray[np.str_]:
        """dataset/video of each row, "" where the video is unknown."""
        return video_keys(self.embeddings).astype(str)

    @cached_property
    def datasets(self) -> tuple[str, ...]:
        return tuple(sorted({str(name) for name in self.embeddings.dataset}))

    @cached_property
    def device(self) -> torch.device:
        wanted = self.settings.device
        return torch.device("cuda" if wanted == "auto" and torch.cuda.is_available() else wanted.replace("auto", "cpu"))

    def clusters(self, kind: str, *, unlabelled: bool = False) -> Clusters:
        """What the bootstrap draws: "polyp" or "video"; those of `unlabelled` rows only where that is said."""
        names = self.polyp if kind == "polyp" else self.video
        if not unlabelled:
            names = np.where(self.polyp == "", "", names)
        code = label_codes(names, len(names), kind)
        counts = draw_counts(int(code.max()) + 1, self.settings.bootstrap, self.settings.seed)
        e = self.embeddings
        rows = zip(self.video, e.track.tolist(), e.position.tolist(), self.polyp, strict=True)
        text = "\n".join([kind, str(self.settings.seed), str(self.settings.bootstrap), *sorted(map(str, rows))])
        return Clusters(code, counts, hashlib.sha256(text.encode()).hexdigest()[:16])

    def skipped(self, reason: str) -> Outcome:
        """The outcome of a task that cannot be done here."""
        return Outcome(Task(self.unit, self.table, status="skipped", reason=reason, datasets=self.datasets))

    def counts(self) -> dict[str, int]:
        """How much there is, for the report."""
        return {
            "tracklets": len(self.embeddings),
            "videos": len(set(self.video.tolist()) - {""}),
            "polyps": len(set(self.polyp.tolist()) - {""}),
            "unlabelled": int((self.polyp == "").sum()),
        }


def figure(value: float, draws: NDArray[np.float64], clusters: int, n: int, of: str) -> Metric:
    """A value with the interval of its draws of so many clusters."""
    low, high = interval(draws, clusters)
    return Metric(float(value), low, high, int(n), of)
