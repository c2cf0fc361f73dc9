"""What a training method is: how it samples batches, what it optimises, and which encoder it trains."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from torch import Tensor

from polyptrace.config import Config, Train, from_dict
from polyptrace.core.arrays import Floats, Ints
from polyptrace.core.console import counted
from polyptrace.core.errors import UserError
from polyptrace.data import Dataset
from polyptrace.data.dataset import LabelFree
from polyptrace.data.identity import codes, polyp_keys
from polyptrace.encoders.encoder import OwnEncoder

Data = Dataset | LabelFree


@dataclass(frozen=True)
class Batch:
    """B tracklets (or views) of all processes. Each process encodes a part of them; the loss uses all.

    `together` neighbours (an anchor and its bag, the two views of a pair) are always encoded by the same process.
    """

    rows: Ints  # (B, L) rows of the crop store, -1 where there is no frame
    tracklet: Ints  # (B,) index in the dataset, -1 where there is no tracklet
    group: Ints  # (B,) the bag, the pair or the polyp
    position: Floats  # (B,) time, for losses that use it
    together: int

    def part(self, process: int, processes: int) -> slice:
        """The tracklets that a process encodes."""
        units = len(self.rows) // self.together
        if units % processes:
            divisors = [n for n in range(1, units + 1) if units % n == 0]
            raise UserError(
                f"{counted(units, 'group')} of {self.together} in a batch cannot be divided among {processes} processes"
                f" -> start {' or '.join(map(str, divisors))}, or make the batch a multiple of {processes}"
            )
        size = len(self.rows) // processes
        return slice(process * size, (process + 1) * size)


@dataclass(frozen=True)
class Targets:
    """What a loss needs to know about the B tracklets of a batch, on their device."""

    mask: Tensor  # (B, L) bool: True where there is a frame
    tracklet: Tensor  # (B,)
    group: Tensor  # (B,)
    position: Tensor  # (B,)


@dataclass(frozen=True)
class Epoch:
    """The batches of one epoch, created when they are needed."""

    steps: int
    batch: Callable[[int], Batch]
    metrics: Callable[[int], Mapping[str, float]] = lambda _: {}  # of a step, for the log: the rank temperature, …


class RunLength(NamedTuple):
    """The length of a run; its last epoch may be incomplete."""

    epochs: int
    steps: int


def run_length(settings: Train, steps: Callable[[int], int], frames_per_step: int) -> RunLength:
    """The length of a run, from its number of epochs or, if it is set, of frames; `steps` are those of n epochs."""
    if not settings.frames:
        return RunLength(settings.epochs, steps(settings.epochs))
    needed, epochs = math.ceil(settings.frames / frames_per_step), 1
    while steps(epochs) < needed:
        epochs += 1
    return RunLength(epochs, needed)


@dataclass(frozen=True)
class TrainingPlan:
    """How a method samples one dataset: each epoch is a pure function of the seed and its number."""

    epoch: Callable[[int, int], Epoch]  # (epoch, epochs)
    steps: Callable[[int], int]  # (epochs) -> steps in all of them
    batch_size: int  # tracklets in a batch (B)
    frames_per_step: int  # frames in a batch, on average
    notes: Sequence[str] = ()  # what the log says about the data: left out, scaled down, …
    augment: Callable[[Tensor], Tensor] | None = None  # of float frames (n, 3, H, W) in [0, 255]

    def length(self, settings: Train) -> RunLength:
        """The length of a whole run."""
        return run_length(settings, self.steps, self.frames_per_step)


#: (z (B, T, P) of the whole batch, targets, settings) -> (loss, metrics for the log)
LossFunction = Callable[[Tensor, Targets, Config], tuple[Tensor, dict[str, Tensor]]]


@dataclass(frozen=True)
class TrainingMethod:
    """One trained row of the table. The training loop is the same for all."""

    name: str
    labels: Literal["never", "by setting", "always"]  # whether training reads polyp labels (setting: views.source)
    defaults: Mapping[str, Mapping[str, Any]]  # published settings that differ from the defaults, by section
    encoder: Callable[[Config, int], OwnEncoder]
    plan: Callable[[Data, Config], TrainingPlan]
    loss: LossFunction

    def sees_labels(self, config: Config) -> bool:
        """Whether training reads polyp labels with these settings."""
        return self.labels == "always" or (self.labels == "by setting" and config.views.source == "polyp")

    def label_use(self, data: Data, config: Config) -> str:
        """What training uses of polyp labels, as one of `LABEL_USE`."""
        if self.sees_labels(config):
            return "labels"
        return "label-free" if _link_setting(data) == "video" else "label-free given tracks"

    def labels_seen(self, data: Data, config: Config) -> str:
        """What training sees of polyp labels, in words: what the method reads, and what the tracks were linked with."""
        read = "none"
        if self.sees_labels(config):
            read = "polyp identities" if self.labels == "always" else "polyp identities, for second views"
        given = {"polyp": ", given tracks linked inside polyp identities", "track": ", given tracks"}
        return read + given.get(_link_setting(data), "")

    def published(self) -> Config:
        """The default settings, updated with those that were published for this method."""
        train = {**self.defaults.get("train", {}), "method": self.name}
        return from_dict({**self.defaults, "train": train}, where=f"defaults of {self.name}")


def _link_setting(data: Data) -> str:
    """The ids that linked the tracks of a dataset: the setting `tracks.link`."""
    return data.info.get("settings", {}).get("tracks", {}).get("link", "video")


def tracklet_batch(members: Ints, rows: Ints, chosen: Ints, group: Ints, position: Floats, together: int) -> Batch:
    """The batch of tracklets `members` (B,), indices into `rows` and `chosen`, -1 where there is none."""
    valid = members >= 0
    frames, tracklet = np.where(valid[:, None], rows[members], -1), np.where(valid, chosen[members], -1)
    return Batch(frames, tracklet, group, position, together)


def fixed_length(data: Data) -> Ints:
    """Indices of the tracklets of fixed length; an error if there are none."""
    chosen = data.select("tracklet")
    if not len(chosen):
        raise UserError(
            f"{data.path}: has whole tracks only -> prepare it with a lower --tracks.length or --tracks.stride"
        )
    return chosen


def polyp_codes(data: Data, chosen: Ints) -> Ints:
    """The polyp of each chosen tracklet as a number from 0; an error if labels are missing."""
    if not isinstance(data, Dataset):
        raise TypeError("a label-free view has no polyps")
    unknown = int((data.tracklets.polyp[chosen] == "").sum())
    if unknown:
        raise UserError(
            f"{data.path}: {unknown:,} of {len(chosen):,} tracklets have no polyp label, which this method needs"
            " -> train a method without labels (ours, mve; sfe and tpc with --views.source label-free)"
        )
    return codes(polyp_keys(data.tracklets)[chosen])
