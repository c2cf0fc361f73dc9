"""Inputs of the tasks: vectors of one unit with their polyps, videos and bootstrap clusters."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from polyptrace.config import Evaluate
from polyptrace.core.arrays import Bools, Ints, Strings
from polyptrace.core.device import choose_device
from polyptrace.core.errors import UserError
from polyptrace.core.randomness import numpy_generator
from polyptrace.data.identity import polyp_keys, video_keys
from polyptrace.embed import Embeddings, concatenate
from polyptrace.evaluate.bootstrap import draw_counts
from polyptrace.evaluate.results import Arrays
from polyptrace.evaluate.similarity import label_codes, unit_rows

#: Tracks whose vectors are stored for a map.
PLANE = 5000


@dataclass(frozen=True)
class Clusters:
    """What the bootstrap draws: cluster of each row (N,; -1: none), counts in each draw (R, C), and a key of both."""

    kind: str
    code: Ints
    counts: Ints
    key: str

    @property
    def number(self) -> int:
        """Number of clusters C, which is also the number that each draw takes."""
        return int(self.counts.shape[1])


@dataclass(frozen=True)
class TaskInput:
    """The rows of one unit, `table` being their prefix in arrays.npz; `test` marks the test part of a given split."""

    embeddings: Embeddings
    unit: str
    table: str
    settings: Evaluate
    test: Bools | None = None

    def __len__(self) -> int:
        return len(self.embeddings)

    @cached_property
    def polyp(self) -> Strings:
        """Polyp of each row, unique across datasets; "" where it is unknown."""
        return polyp_keys(self.embeddings)

    @cached_property
    def video(self) -> Strings:
        """Video of each row, unique across datasets; "" where it is unknown."""
        return video_keys(self.embeddings)

    @cached_property
    def datasets(self) -> tuple[str, ...]:
        return tuple(sorted({str(name) for name in self.embeddings.dataset}))

    @cached_property
    def device(self) -> torch.device:
        return choose_device(self.settings.device, "--evaluate.device")[0]

    @property
    def labelled(self) -> Bools:
        """Rows (N,) whose polyp is known."""
        return np.asarray(self.polyp != "")

    @cached_property
    def default_clusters(self) -> Clusters:
        """The labelled clusters of `--evaluate.cluster`; polyps if a video is unknown."""
        unknown = bool((self.video[self.labelled] == "").any())
        return self.clusters("polyp" if unknown else self.settings.cluster, self.labelled)

    def clusters(self, kind: str, rows: Bools) -> Clusters:
        """The polyps or videos of a mask of rows (N,), and the bootstrap draws of them."""
        names = np.where(rows, self.polyp if kind == "polyp" else self.video, "")
        code = label_codes(names, len(names), kind)
        counts = draw_counts(int(code.max()) + 1, self.settings.bootstrap, self.settings.seed)
        e = self.embeddings
        ids = zip(self.video, e.track.tolist(), e.position.tolist(), self.polyp, rows.tolist(), strict=True)
        text = "\n".join([kind, str(self.settings.seed), str(self.settings.bootstrap), *sorted(map(str, ids))])
        return Clusters(kind, code, counts, hashlib.sha256(text.encode()).hexdigest()[:16])

    def cluster_remark(self, clusters: Clusters) -> str:
        """A remark for the user if the intervals are too narrow or missing; "" otherwise."""
        if clusters.kind != self.settings.cluster and self.settings.cluster == "video":
            return (
                "videos are unknown, so the bootstrap resamples polyps: intervals are too narrow if polyps share videos"
            )
        if clusters.kind == "video" and clusters.number == 1:
            return "no confidence intervals with one video; --evaluate.cluster polyp resamples its polyps"
        return ""

    def counts(self) -> dict[str, int]:
        """Numbers of tracklets, videos and polyps for the report."""
        return {
            "tracklets": len(self),
            "videos": len(set(self.video.tolist()) - {""}),
            "polyps": len(set(self.polyp.tolist()) - {""}),
            "unlabelled": int((~self.labelled).sum()),
        }

    def ids(self) -> Arrays:
        """The columns of arrays.npz: ids of the rows, and the vectors of some tracks."""
        e, table = self.embeddings, self.table
        arrays: Arrays = {f"{table}/{name}": values for name, values in e.columns().items() if name != "unit"}
        if self.unit == "track" and len(e):
            index = np.sort(numpy_generator(self.settings.seed).permutation(len(e))[:PLANE])
            arrays[f"{table}/plane_index"] = index
            arrays[f"{table}/plane_vectors"] = unit_rows(e.vectors[index])[0].numpy().astype(np.float16)
        return arrays


def task_input(test: Embeddings, train: Embeddings | None, unit: str, table: str, settings: Evaluate) -> TaskInput:
    """The rows of a unit, with the training part of a given split behind the test part."""
    test = test.select(unit)
    if train is None:
        return TaskInput(test, unit, table, settings)
    train = train.select(unit)
    mask = np.arange(len(test) + len(train)) < len(test)
    return TaskInput(concatenate([test, train], where="training and test part"), unit, table, settings, mask)


def join_inputs(inputs: Sequence[tuple[str, Embeddings]], where: str) -> Embeddings:
    """One table of several named inputs. Two inputs that contain the same video of the same dataset are an error."""
    seen: dict[tuple[str, str, str], str] = {}
    for name, embeddings in inputs:
        videos = set()
        for unit in ("track", "tracklet"):
            part = embeddings.select(unit)
            rows = set(zip(part.dataset, part.video, part.polyp, strict=True))
            videos |= {(unit, str(d), str(video) or f"polyp {polyp}") for d, video, polyp in rows if video or polyp}
        if shared := sorted(videos & seen.keys()):
            _, dataset, video = shared[0]
            raise UserError(
                f"{where}: {seen[shared[0]]} and {name} both contain {video!r} of dataset {dataset!r}"
                " -> give each dataset once, or give the datasets different names"
            )
        seen |= dict.fromkeys(videos, name)
    return concatenate([embeddings for _, embeddings in inputs], where=where)
