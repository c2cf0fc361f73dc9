"""An epoch's batches as a pure function of (seed, epoch, rank, world size).

Every tracklet is an anchor once an epoch. The epochs' shuffled anchors follow each other like one endless list that is
cut into batches: those that do not fill the last batch of an epoch open the next one. Which they are depends on the
previous epoch's order alone, so any epoch can be had without running the others.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from polyptrace.core.console import counted
from polyptrace.core.errors import UserError
from polyptrace.core.randomness import torch_generator
from polyptrace.supervision.bags import draw_bags
from polyptrace.supervision.composition import (
    Extents,
    deal_one_per_video,
    overlapping,
    part_overlaps,
    sharing_video,
)
from polyptrace.supervision.ranks import Column, Integers, Timeline, neighbours, timeline, video_codes

Sampling = Literal["exponential", "nearest", "uniform"]
Composition = Literal["any", "no-overlap", "one-per-video"]
SmallVideos = Literal["keep", "leave-out"]

#: What a generator of an epoch is for.
ORDER, BAGS, ARRANGEMENT = range(3)


@dataclass(frozen=True)
class Epoch:
    """The batches of an epoch, S steps of M bags, as indices of tracklets."""

    anchors: Tensor  # (S, M)
    bags: Tensor  # (S, M, K), -1 where a small video has no more
    collisions: int  # bags that the composition should have kept from an earlier one of their batch, and could not
    small_videos: int  # videos with fewer than K + 1 tracklets
    left_out: int  # tracklets that are never anchors: alone in their video, or in a small one that is left out

    def share(self, rank: int, world_size: int) -> "Epoch":
        """The part of process `rank`: the same steps, with M / world_size neighbouring bags of each."""
        bags = self.anchors.shape[1]
        check_world(bags, world_size)
        mine = slice(rank * bags // world_size, (rank + 1) * bags // world_size)
        return replace(self, anchors=self.anchors[:, mine], bags=self.bags[:, mine])


def epoch_batches(
    video: Column,
    position: Column,
    *,
    seed: int,
    epoch: int,
    temperature: float | Column,
    bag_size: int = 4,
    bags_per_batch: int = 12,
    sampling: Sampling = "exponential",
    composition: Composition = "any",
    small_videos: SmallVideos = "keep",
    rank: int = 0,
    world_size: int = 1,
) -> Epoch:
    """The batches of one epoch for process `rank` of `world_size`; the arguments are those of the settings.

    video, position (N,) and temperature: as in `sample_bags`.
    """
    check_world(bags_per_batch, world_size)
    if bag_size < 1:
        raise UserError(f"supervision.bag_size: {bag_size} -> give 1 or more")
    line = timeline(video, position)
    candidates = _candidates(line, bag_size, small_videos)
    anchors, carried = _pool(candidates, bags_per_batch, seed, epoch)
    bags = _bags(line, anchors, bag_size, sampling, temperature, torch_generator(seed, epoch, BAGS))
    batches = np.arange(len(anchors)).reshape(-1, bags_per_batch)
    collisions = 0
    if composition != "any":
        extents = _extents(line, anchors, bags)
        batches, collisions = _arrange(
            batches, extents, composition, carried, torch_generator(seed, epoch, ARRANGEMENT)
        )
    whole = Epoch(
        anchors=torch.from_numpy(anchors[batches]),
        bags=torch.from_numpy(bags[batches]),
        collisions=collisions,
        small_videos=_small_videos(line, bag_size),
        left_out=len(line.index) - len(candidates),
    )
    return whole.share(rank, world_size)


def anchor_count(video: Column, bag_size: int = 4, small_videos: SmallVideos = "keep") -> int:
    """The number of tracklets that are anchors once an epoch."""
    code = video_codes(video)
    return len(_candidates(timeline(code, np.zeros_like(code)), bag_size, small_videos))


def steps_before(epoch: int, anchors: int, bags_per_batch: int = 12) -> int:
    """The number of steps in the epochs 0..epoch-1: the first step of `epoch`, or all steps of so many epochs."""
    return epoch * anchors // bags_per_batch


def check_world(bags_per_batch: int, world_size: int) -> None:
    """Bags are dealt out whole: refuses a number of bags that the processes do not divide."""
    if bags_per_batch < 1:
        raise UserError(f"supervision.bags_per_batch: {bags_per_batch} -> give 1 or more")
    if bags_per_batch % world_size:
        less = bags_per_batch // world_size * world_size
        sizes = [less, less + world_size] if less else [world_size]
        divisors = [str(n) for n in range(1, bags_per_batch) if bags_per_batch % n == 0]
        works = ", ".join([*divisors, counted(bags_per_batch, "process", "processes")])
        raise UserError(
            f"supervision.bags_per_batch: {counted(bags_per_batch, 'bag')} cannot be dealt to {world_size} processes"
            f" -> take {' or '.join(map(str, sizes))} bags, or {works}"
        )


def _candidates(line: Timeline, bag_size: int, small_videos: SmallVideos) -> Integers:
    """The tracklets that are anchors, in order of index."""
    least = 1 if small_videos == "keep" else bag_size
    return np.flatnonzero(line.others >= least)


def _pool(candidates: Integers, bags_per_batch: int, seed: int, epoch: int) -> tuple[Integers, int]:
    """The anchors of an epoch in order, a multiple of the batch in number, and how many came over from the last one."""
    count = len(candidates)
    if count < bags_per_batch:
        raise UserError(
            f"supervision.bags_per_batch: {counted(count, 'tracklet')} can be anchors, a batch has {bags_per_batch}"
            f" bags -> take at most {counted(count, 'bag')}, or more data"
        )
    carried, left = epoch * count % bags_per_batch, (epoch + 1) * count % bags_per_batch
    old = _order(candidates, seed, epoch - 1)[count - carried :] if carried else candidates[:0]
    new = _order(candidates, seed, epoch)[: count - left]
    # An anchor that came over and is drawn again at once changes places with one of the next batches.
    again, room = np.isin(new, old), bags_per_batch - carried
    early = np.flatnonzero(again[:room])
    later = room + np.flatnonzero(~again[room:])[: len(early)]
    new[early[: len(later)]], new[later] = new[later], new[early[: len(later)]]
    return np.concatenate([old, new]), carried


def _order(candidates: Integers, seed: int, epoch: int) -> Integers:
    """The shuffled anchors of an epoch."""
    order: Integers = torch.randperm(len(candidates), generator=torch_generator(seed, epoch, ORDER)).numpy()
    return candidates[order]


def _bags(
    line: Timeline,
    anchors: Integers,
    bag_size: int,
    sampling: Sampling,
    temperature: float | Column,
    generator: torch.Generator,
) -> Integers:
    """The bags (A, K) of anchors (A,)."""
    match sampling:
        case "exponential":
            return draw_bags(line, anchors, bag_size, temperature, generator)
        case "uniform":
            return draw_bags(line, anchors, bag_size, math.inf, generator)
        case "nearest":
            return neighbours(line, anchors, bag_size)


def _extents(line: Timeline, anchors: Integers, bags: Integers) -> Extents:
    """The stretch of time that each anchor (A,) covers with its bag (A, K)."""
    here = line.place[anchors]
    first = last = line.position[here]
    for member in bags.T:
        when = np.where(member < 0, first, line.position[line.place[member]])
        first, last = np.minimum(first, when), np.maximum(last, when)
    return Extents(line.video_begin[here], first, last)


def _arrange(
    batches: Integers, extents: Extents, composition: Composition, carried: int, generator: torch.Generator
) -> tuple[Integers, int]:
    """The bags in batches (S, M) as the composition asks, those of the carried anchors first, and the collisions."""
    if composition == "one-per-video":
        batches = deal_one_per_video(extents.video, len(batches), generator)
        collisions = sharing_video(batches, extents.video)
    else:
        batches = part_overlaps(batches, extents, generator)
        collisions = overlapping(batches, extents)
    opens = (batches < carried).any(1)
    return np.concatenate([batches[opens], batches[~opens]]), collisions


def _small_videos(line: Timeline, bag_size: int) -> int:
    first = np.unique(line.video_begin)
    return int((line.video_end[first] - first <= bag_size).sum())
