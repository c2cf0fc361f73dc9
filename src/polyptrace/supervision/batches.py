"""The batches of an epoch, and which bags meet in a batch, as a pure function of (seed, epoch).

Every tracklet is an anchor once per epoch. The shuffled anchors of all epochs form one endless list that is cut into
batches: those that do not fill the last batch of an epoch open the next one. They depend on the order of the previous
epoch only, so any epoch can be drawn without the others.

Two bags of one video that overlap in time probably show the same polyp, and in one batch each would be a negative of
the other. The composition `no-overlap` keeps such bags apart, `one-per-video` any two bags of one video. Both rearrange
the same bags, so every tracklet stays an anchor once per epoch. Bags that cannot be kept apart (a video with more bags
than there are batches) are counted: `one-per-video` has the minimum possible, `no-overlap` what a local search reaches.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from polyptrace.config import Supervision
from polyptrace.core.arrays import Bools, Ints
from polyptrace.core.console import counted
from polyptrace.core.errors import UserError
from polyptrace.core.randomness import torch_generator
from polyptrace.supervision.bags import Timeline, draw_bags, neighbours, timeline

#: The streams of random numbers of an epoch.
ORDER, BAGS, ARRANGEMENT = range(3)

#: The search for `no-overlap` ends when this many rounds remove less than one per cent of the remaining overlaps.
PATIENCE = 30


@dataclass(frozen=True)
class BagBatches:
    """The batches of an epoch: S steps of M bags, as indices of tracklets."""

    anchors: Ints  # (S, M)
    bags: Ints  # (S, M, K), -1 where a small video has no more tracklets
    collisions: int  # bags that the composition forbids beside an earlier bag of their batch


def epoch_batches(
    video: ArrayLike,
    position: ArrayLike,
    settings: Supervision,
    *,
    seed: int,
    epoch: int,
    temperature: Callable[[Ints, Ints], ArrayLike],
) -> BagBatches:
    """The batches of one epoch of tracklets; video and position (N,) are as in `sample_bags`.

    temperature: from the anchors (A,) of the epoch in order and the batch of each (A,), counted from 0 in the epoch, to
    their τ: one number or (A,).
    """
    line, size = timeline(video, position), settings.bags_per_batch
    candidates = np.flatnonzero(line.others + 1 >= fewest_tracklets(settings))
    anchors, carried = _order_anchors(candidates, size, seed, epoch)
    tau = temperature(anchors, np.arange(len(anchors)) // size)
    bags = bags_with_settings(line, anchors, settings, tau, torch_generator(seed, epoch, BAGS))
    batches, collisions = np.arange(len(anchors)).reshape(-1, size), 0
    if settings.composition != "any":
        extents, generator = _extents(line, anchors, bags), torch_generator(seed, epoch, ARRANGEMENT)
        if settings.composition == "one-per-video":
            batches = spread_videos(extents.video, len(batches), generator)
            collisions = sharing_video(batches, extents.video)
        else:
            batches = separate_overlaps(batches, extents, generator)
            collisions = overlapping(batches, extents)
        with_carried = (batches < carried).any(1)  # these come first
        batches = np.concatenate([batches[with_carried], batches[~with_carried]])
    return BagBatches(anchors[batches], bags[batches], collisions)


def anchor_count(sizes: Ints, settings: Supervision) -> int:
    """The number of tracklets that are anchors once per epoch; an error if they do not fill a batch.

    `sizes` are the tracklets of each video. The epochs 0 to n - 1 have n * anchors // bags_per_batch steps.
    """
    anchors = int(sizes[sizes >= fewest_tracklets(settings)].sum())
    if anchors < settings.bags_per_batch:
        raise UserError(
            f"supervision.bags_per_batch: {counted(anchors, 'tracklet')} can be anchors, but a batch has"
            f" {settings.bags_per_batch} bags -> use at most {counted(anchors, 'bag')}, or more data"
        )
    return anchors


def fewest_tracklets(settings: Supervision) -> int:
    """The fewest tracklets of a video that has anchors."""
    return 2 if settings.small_videos == "keep" else settings.bag_size + 1


def _order_anchors(candidates: Ints, bags_per_batch: int, seed: int, epoch: int) -> tuple[Ints, int]:
    """The anchors of an epoch in order, a multiple of the batch, and how many were carried over from the last epoch."""
    count = len(candidates)
    carried, left = epoch * count % bags_per_batch, (epoch + 1) * count % bags_per_batch
    old = _shuffled(candidates, seed, epoch - 1)[count - carried :] if carried else candidates[:0]
    new = _shuffled(candidates, seed, epoch)[: count - left]
    # A carried anchor that is drawn again in the first batch is exchanged with one of a later batch.
    again, room = np.isin(new, old), bags_per_batch - carried
    early = np.flatnonzero(again[:room])
    later = room + np.flatnonzero(~again[room:])[: len(early)]
    new[early[: len(later)]], new[later] = new[later], new[early[: len(later)]]
    return np.concatenate([old, new]), carried


def _shuffled(candidates: Ints, seed: int, epoch: int) -> Ints:
    return candidates[_permutation(len(candidates), torch_generator(seed, epoch, ORDER))]


def bags_with_settings(
    line: Timeline,
    anchors: Ints,
    settings: Supervision,
    temperature: ArrayLike,
    generator: torch.Generator,
) -> Ints:
    """The bags (A, K) of anchors (A,), by `sampling`; only `exponential` uses the temperature, one number or (A,)."""
    if settings.sampling == "nearest":
        return neighbours(line, anchors, settings.bag_size)
    tau = math.inf if settings.sampling == "uniform" else temperature
    return draw_bags(line, anchors, settings.bag_size, tau, generator)


class Extents(NamedTuple):
    """The interval of time that each of A bags covers, anchor included: from its first tracklet to its last."""

    video: Ints
    first: NDArray[Any]  # position
    last: NDArray[Any]  # position


def _extents(line: Timeline, anchors: Ints, bags: Ints) -> Extents:
    slot = line.slot[anchors]
    members = np.where(bags < 0, slot[:, None], line.slot[bags])
    time = line.position[np.concatenate([slot[:, None], members], axis=1)]  # (A, 1 + K)
    return Extents(line.video_begin[slot], time.min(1), time.max(1))


def spread_videos(video: Ints, batches: int, generator: torch.Generator) -> Ints:
    """Bags of the given videos (A,) in S batches (S, A/S), with the fewest possible bags of one video in a batch.

    Sorted by video, the bags fill S columns row by row, so the bags of a video are in different columns unless it has
    more than S. The columns of each row are shuffled; a video that continues in the next row first takes the columns
    where it is not yet.
    """
    shuffled = _permutation(len(video), generator)
    video_order = _permutation(int(video.max()) + 1, generator)[video]
    order = shuffled[np.argsort(video_order[shuffled], kind="stable")]
    rows = order.reshape(-1, batches)  # (M, S)
    spread = np.empty_like(rows)
    taken = np.zeros(batches, dtype=bool)  # columns that hold the last video of the row above
    for m, row in enumerate(rows):
        columns = _permutation(batches, generator)
        if m > 0 and video[row[0]] == video[rows[m - 1, -1]]:
            head = int(np.count_nonzero(video[row] == video[row[0]]))
            columns = columns[np.argsort(taken[columns], kind="stable")]
            columns[head:] = columns[head:][_permutation(batches - head, generator)]
        spread[m, columns] = row
        taken = np.zeros(batches, dtype=bool)
        taken[columns[video[row] == video[row[-1]]]] = True
    return np.ascontiguousarray(spread.T)


def separate_overlaps(batches: Ints, extents: Extents, generator: torch.Generator) -> Ints:
    """The batches (S, M), with bags exchanged until no two overlap within a batch, or no exchange helps.

    In each round the batches form random pairs, and each pair makes the exchange of two bags that leaves the fewest
    overlaps. Exchanges that do not change the number are made as well: they move a bag on to where it may fit.
    """
    batches = batches.copy()
    overlaps = _overlaps_within(batches, extents)  # (S,)
    best, since_best = overlaps.sum(), 0
    while overlaps.any() and since_best < PATIENCE:
        pairs = _permutation(len(batches), generator)[: len(batches) // 2 * 2].reshape(-1, 2)
        pairs = pairs[overlaps[pairs].any(1)]
        _exchange(batches, pairs, extents, generator)
        overlaps[pairs] = _overlaps_within(batches[pairs.ravel()], extents).reshape(pairs.shape)
        since_best += 1
        if overlaps.sum() < 0.99 * best:
            best, since_best = overlaps.sum(), 0
    return batches


def overlapping(batches: Ints, extents: Extents) -> int:
    """The number of bags that overlap in time with an earlier bag of their batch."""
    return int(np.tril(_overlaps(extents, batches, batches), -1).any(2).sum())


def sharing_video(batches: Ints, video: Ints) -> int:
    """The number of bags that share their video with an earlier bag of their batch."""
    return int((np.diff(np.sort(video[batches], axis=1), axis=1) == 0).sum())


def _exchange(batches: Ints, pairs: Ints, extents: Extents, generator: torch.Generator) -> None:
    """Makes the best exchange in each of R pairs (R, 2) of batches, unless it increases the overlaps."""
    a, b = batches[pairs[:, 0]], batches[pairs[:, 1]]  # (R, M) each
    between = _overlaps(extents, a, b).astype(np.int16)  # (R, M, M)
    in_a, in_b = _inner_overlaps(extents, a).sum(2), _inner_overlaps(extents, b).sum(2)  # (R, M)
    after = between.sum(2)[:, :, None] + between.sum(1)[:, None, :] - 2 * between
    change = after - in_a[:, :, None] - in_b[:, None, :]  # (R, M, M) overlaps after the exchange, minus those before
    tie_break = torch.rand(change.shape, generator=generator).numpy()
    choice = (change + tie_break).reshape(len(pairs), a.shape[1] * b.shape[1]).argmin(1)
    i, j = np.divmod(choice, b.shape[1])
    r = np.flatnonzero(change[np.arange(len(pairs)), i, j] <= 0)
    batches[pairs[r, 0], i[r]], batches[pairs[r, 1], j[r]] = b[r, j[r]], a[r, i[r]]


def _overlaps_within(batches: Ints, extents: Extents) -> Ints:
    """The number of pairs of bags that overlap in each batch: (S,)."""
    return np.asarray(_inner_overlaps(extents, batches).sum((1, 2)) // 2)


def _inner_overlaps(extents: Extents, batch: Ints) -> Bools:
    """Which bags of a batch (S, M) overlap with which others of it: (S, M, M), False on the diagonal."""
    return _overlaps(extents, batch, batch) & ~np.eye(batch.shape[1], dtype=bool)


def _overlaps(extents: Extents, a: Ints, b: Ints) -> Bools:
    """Which of the bags a (S, P) and b (S, Q) overlap in time in the same video: (S, P, Q)."""
    video, first, last = extents
    a, b = a[:, :, None], b[:, None, :]
    return (video[a] == video[b]) & (first[a] <= last[b]) & (first[b] <= last[a])


def _permutation(count: int, generator: torch.Generator) -> Ints:
    return torch.randperm(count, generator=generator).numpy()
