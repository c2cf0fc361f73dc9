"""Which bags meet in a batch.

Two bags of one video that overlap in time probably show one polyp; in one batch each would be the other's negative.
`no-overlap` keeps such bags apart, `one-per-video` any two bags of one video. Both rearrange the same bags, so every
tracklet stays an anchor once an epoch. Where no arrangement can help (a video with more bags than there are batches),
the bags that still meet are counted: as few as possible with `one-per-video`, as few as a search finds with
`no-overlap`.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from polyptrace.supervision.ranks import Integers

#: The search ends when this many rounds together part less than one in a hundred of the pairs that still overlap.
PATIENCE = 30

#: Batches compared with each other at a time.
CHUNK = 8_192


class Extents(NamedTuple):
    """The stretch of its video that each of A bags covers, anchor included: from its first tracklet to its last."""

    video: Integers
    first: NDArray[Any]  # position
    last: NDArray[Any]  # position


def deal_one_per_video(video: Integers, batches: int, generator: torch.Generator) -> Integers:
    """Bags of the given videos (A,), dealt to S batches (S, A/S) so that as few as possible meet one of their video.

    In order of video they fill S columns, row after row: the bags of a video then stand in different columns, unless
    they are more than S. Each row's columns are shuffled; a video that goes on in the next row first takes the columns
    where it is not yet.
    """
    shuffled = _permutation(len(video), generator)
    place = _permutation(int(video.max()) + 1, generator)[video]
    order = shuffled[np.argsort(place[shuffled], kind="stable")]
    rows = order.reshape(-1, batches)  # (M, S)
    dealt = np.empty_like(rows)
    taken = np.zeros(batches, dtype=bool)  # columns where the last video of the row above stands
    for m, row in enumerate(rows):
        columns = _permutation(batches, generator)
        if m > 0 and video[row[0]] == video[rows[m - 1, -1]]:
            head = int(np.count_nonzero(video[row] == video[row[0]]))
            columns = columns[np.argsort(taken[columns], kind="stable")]
            columns[head:] = columns[head:][_permutation(batches - head, generator)]
        dealt[m, columns] = row
        taken = np.zeros(batches, dtype=bool)
        taken[columns[video[row] == video[row[-1]]]] = True
    return np.ascontiguousarray(dealt.T)


def part_overlaps(batches: Integers, extents: Extents, generator: torch.Generator) -> Integers:
    """The batches (S, M) of bags, with bags exchanged between them until none overlap in any, or no exchange helps.

    In each round batches meet in random pairs. A pair makes, of all exchanges of two bags, the one after which the
    fewest bags overlap; also one that changes nothing in number, which carries a bag on to where it may find a place.
    """
    batches = batches.copy()
    faults = _faults(batches, extents)  # (S,)
    best, rounds = faults.sum(), 0
    while faults.any() and rounds < PATIENCE:
        pairs = _permutation(len(batches), generator)[: len(batches) // 2 * 2].reshape(-1, 2)
        pairs = pairs[faults[pairs].any(1)]
        for some in np.array_split(pairs, -(-len(pairs) // CHUNK)) if len(pairs) else []:
            _exchange(batches, some, extents, generator)
            faults[some] = _faults(batches[some.ravel()], extents).reshape(some.shape)
        rounds += 1
        if faults.sum() < 0.99 * best:
            best, rounds = faults.sum(), 0
    return batches


def overlapping(batches: Integers, extents: Extents) -> int:
    """How many bags overlap in time with an earlier bag of their batch."""
    parts = np.array_split(batches, -(-len(batches) // CHUNK))
    return sum(int(np.tril(_overlaps(extents, part, part), -1).any(2).sum()) for part in parts)


def sharing_video(batches: Integers, video: Integers) -> int:
    """How many bags share their video with an earlier bag of their batch."""
    return int((np.diff(np.sort(video[batches], axis=1), axis=1) == 0).sum())


def _exchange(batches: Integers, pairs: Integers, extents: Extents, generator: torch.Generator) -> None:
    """Makes the best exchange in each of R pairs (R, 2) of batches, unless it makes things worse."""
    a, b = batches[pairs[:, 0]], batches[pairs[:, 1]]  # (R, M) each
    between = _overlaps(extents, a, b).astype(np.int16)  # (R, M, M)
    in_a, in_b = _inner(extents, a).sum(2), _inner(extents, b).sum(2)  # (R, M)
    after = between.sum(2)[:, :, None] + between.sum(1)[:, None, :] - 2 * between
    change = after - in_a[:, :, None] - in_b[:, None, :]  # (R, M, M) pairs of bags that overlap, more than before
    chance = torch.rand(change.shape, generator=generator).numpy()
    choice = (change + chance).reshape(len(pairs), -1).argmin(1)
    i, j = np.divmod(choice, b.shape[1])
    r = np.flatnonzero(change[np.arange(len(pairs)), i, j] <= 0)
    batches[pairs[r, 0], i[r]], batches[pairs[r, 1], j[r]] = b[r, j[r]], a[r, i[r]]


def _faults(batches: Integers, extents: Extents) -> Integers:
    """The number of pairs of bags that overlap in each batch: (S,)."""
    parts = np.array_split(batches, -(-len(batches) // CHUNK))
    return np.concatenate([_inner(extents, part).sum((1, 2)) // 2 for part in parts])


def _inner(extents: Extents, batch: Integers) -> NDArray[np.bool_]:
    """Which bags of a batch (S, M) overlap with which others of it: (S, M, M), False on the diagonal."""
    return _overlaps(extents, batch, batch) & ~np.eye(batch.shape[1], dtype=bool)


def _overlaps(extents: Extents, a: Integers, b: Integers) -> NDArray[np.bool_]:
    """Which bags a (S, P) and b (S, Q) overlap in time in the same video: (S, P, Q)."""
    video, first, last = extents
    a, b = a[:, :, None], b[:, None, :]
    overlap: NDArray[np.bool_] = (video[a] == video[b]) & (first[a] <= last[b]) & (first[b] <= last[a])
    return overlap


def _permutation(count: int, generator: torch.Generator) -> Integers:
    permutation: Integers = torch.randperm(count, generator=generator).numpy()
    return permutation
