"""What a step encodes, whatever the method: rows of the crop store in groups, the same for every process."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from polyptrace.config import Config, from_dict
from polyptrace.core.console import counted
from polyptrace.core.errors import UserError
from polyptrace.data import Dataset, LabelFree, codes, polyp_keys
from polyptrace.encoders import OwnEncoder

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Data = Dataset | LabelFree


@dataclass(frozen=True)
class Batch:
    """B tracklets (or views) of the whole batch; each process encodes a run of them, and the loss sees all.

    `together` neighbours (an anchor and its bag, the two views of a pair) always go to the same process.
    """

    rows: Ints  # (B, L) rows of the crop store, -1 where there is no frame
    tracklet: Ints  # (B,) index of each in the dataset, -1 where a small video has no more
    group: Ints  # (B,) the bag, the pair, the polyp
    position: Floats  # (B,) time, where a loss uses it
    together: int

    def part(self, process: int, processes: int) -> slice:
        """Which of the B this process encodes."""
        units = len(self.rows) // self.together
        if units % processes:
            works = [n for n in range(1, units + 1) if units % n == 0]
            raise UserError(
                f"{counted(units, 'group')} of {self.together} in a batch cannot be dealt out whole to {processes}"
                f" processes -> start {' or '.join(map(str, works))}, or make the batch a multiple of {processes}"
            )
        share = len(self.rows) // processes
        return slice(process * share, (process + 1) * share)


@dataclass(frozen=True)
class Targets:
    """What a loss needs to know about the B vectors of a batch, on their device."""

    real: Tensor  # (B, L) bool: where there is a frame
    tracklet: Tensor  # (B,)
    group: Tensor  # (B,)
    position: Tensor  # (B,)


@dataclass(frozen=True)
class Epoch:
    """The batches of one epoch, made when they are asked for."""

    steps: int
    batch: Callable[[int], Batch]
    notes: Mapping[str, float] = field(default_factory=dict)  # for the log: τ, …


@dataclass(frozen=True)
class Plan:
    """How a method goes through one dataset: its epochs, each a pure function of the seed and its number."""

    epoch: Callable[[int, int], Epoch]  # (epoch, epochs)
    steps: Callable[[int], int]  # of so many epochs
    remarks: list[str]  # what the log says about the data: left out, scaled down, …
    labels: str = "none"  # what training saw of them: none, or what for


#: (z (B, T, P) of the whole batch, targets, settings) -> (loss, figures for the log)
LossFunction = Callable[[Tensor, Targets, Config], tuple[Tensor, dict[str, Tensor]]]


@dataclass(frozen=True)
class Method:
    """One row of the table: how it samples, what it optimises, which encoder; the loop is the same for all."""

    name: str
    labels: Literal["never", "by setting", "always"]  # whether training reads polyp labels (setting: views.source)
    defaults: Mapping[str, Mapping[str, Any]]  # published settings that differ from the tree's, by section
    encoder: Callable[[Config, int], OwnEncoder]
    plan: Callable[[Data, Config], Plan]
    loss: LossFunction

    def sees_labels(self, config: Config) -> bool:
        """Whether training reads polyp labels with these settings."""
        return self.labels == "always" or (self.labels == "by setting" and config.views.source == "polyp")

    def published(self) -> Config:
        """The settings it starts from: the tree's defaults, with its own published ones on top."""
        train = {**self.defaults.get("train", {}), "method": self.name}
        return from_dict({**self.defaults, "train": train}, where=f"defaults of {self.name}")


def generator(seed: int, epoch: int, *stream: int) -> np.random.Generator:
    """Random numbers that depend on nothing but the seed, the epoch and which stream of them it is."""
    return np.random.default_rng((seed, epoch, *stream))


def polyp_codes(data: Data, chosen: Ints) -> Ints:
    """The polyp of each chosen tracklet as a number 0, 1, …; refuses data without labels."""
    if not isinstance(data, Dataset):
        raise TypeError("a label-free view has no polyps")
    polyp = data.tracklets.polyp[chosen]
    unknown = np.flatnonzero(polyp == "")
    if len(unknown):
        raise UserError(
            f"{data.path}: {len(unknown):,} of {len(chosen):,} tracklets have no polyp label, which this method needs"
            " -> train one without labels (ours, mve; sfe and tpc with --views.source label-free)"
        )
    return codes(polyp_keys(data.tracklets)[chosen])


def labels_seen(data: Data, used: str) -> str:
    """What training saw of the labels, in words: `used` by the method, and what the tracks were linked with."""
    link = data.info.get("settings", {}).get("tracks", {}).get("link", "video")
    return used + {"polyp": ", given tracks linked inside polyp identities", "track": ", given tracks"}.get(link, "")
