"""Sup: supervised contrastive learning over tracklets (Parolari et al. 2025, MICCAI); the batches of TA, too.

A batch is 4 polyps x 14 tracklets: polyps are drawn without replacement with weight = tracklets left, among those with
14 or more; their tracklets are used up; the epoch ends when fewer than 4 polyps have enough. Where polyps are too small
for that, both numbers are scaled down, and the log says so.
"""

from functools import lru_cache

import numpy as np
from torch import Tensor

from polyptrace.config import Config
from polyptrace.core.console import counted
from polyptrace.core.errors import UserError
from polyptrace.data import codes, pad_rows, video_keys
from polyptrace.losses import multi_positive
from polyptrace.methods import ours
from polyptrace.methods.batch import (
    Batch,
    Data,
    Epoch,
    Floats,
    Ints,
    Method,
    Plan,
    Targets,
    generator,
    labels_seen,
    polyp_codes,
)


def plan(data: Data, config: Config) -> Plan:
    """Batches of some tracklets of some polyps; labels are needed, and used."""
    chosen = data.select("tracklet")
    polyp = polyp_codes(data, chosen)
    rows = pad_rows([data.tracklets.rows[i] for i in chosen])
    position = time_in_polyp(data, chosen, polyp)
    polyps, each = batch_shape(np.bincount(polyp), config.views.polyps_per_batch, config.views.tracklets_per_polyp)
    remarks = []
    if (polyps, each) != (config.views.polyps_per_batch, config.views.tracklets_per_polyp):
        wanted = f"{config.views.polyps_per_batch} x {config.views.tracklets_per_polyp}"
        size = f"{counted(polyps, 'polyp')} x {counted(each, 'tracklet')}"
        remarks = [f"data: batches of {size} instead of {wanted}, the polyps are too small"]

    @lru_cache(maxsize=2)
    def deal(number: int) -> list[Ints]:
        return deal_polyps(polyp, polyps, each, generator(config.train.seed, number))

    def epoch(number: int, _epochs: int) -> Epoch:
        dealt = deal(number)

        def batch(step: int) -> Batch:
            members = dealt[step]
            return Batch(rows[members], chosen[members], polyp[members], position[members], together=1)

        return Epoch(len(dealt), batch)

    def steps(epochs: int) -> int:
        return sum(len(deal(number)) for number in range(epochs))

    return Plan(epoch, steps, remarks, labels_seen(data, "polyp identities"))


def batch_shape(tracklets: Ints, polyps: int, each: int) -> tuple[int, int]:
    """Polyps in a batch and tracklets of each: as wanted, or as many as polyps with so many `tracklets` allow."""
    sizes = np.sort(tracklets)[::-1]
    polyps = min(polyps, int((sizes >= 2).sum()))
    if polyps < 2:
        raise UserError("the data has fewer than two polyps with two tracklets -> supervised methods need more")
    return polyps, min(each, int(sizes[polyps - 1]))


def deal_polyps(polyp: Ints, polyps: int, each: int, random: np.random.Generator) -> list[Ints]:
    """Batches (polyps · each,) of tracklets of the polyps (N,), until too few polyps have enough left."""
    shuffled = random.permutation(len(polyp))
    order = shuffled[np.argsort(polyp[shuffled], kind="stable")]
    begin = np.searchsorted(polyp[order], np.arange(polyp.max() + 2))
    left = np.diff(begin)  # tracklets of each polyp that are not used up: the last of its stretch of `order`
    batches = []
    while (enough := np.flatnonzero(left >= each)).size >= polyps:
        drawn = random.choice(enough, polyps, replace=False, p=left[enough] / left[enough].sum())
        ends = begin[drawn] + left[drawn]
        batches.append(order[(ends[:, None] - 1 - np.arange(each)).flatten()])
        left[drawn] -= each
    return batches


def time_in_polyp(data: Data, chosen: Ints, polyp: Ints) -> Floats:
    """Where each tracklet begins between its polyp's first frame (0) and last (1) in its video."""
    pairs = np.stack([polyp, codes(video_keys(data.tracklets)[chosen])], 1)
    polyp = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
    position, last = data.tracklets.position[chosen], data.tracklets.last[chosen]
    first, end = np.full(polyp.max() + 1, np.inf), np.full(polyp.max() + 1, -np.inf)
    np.minimum.at(first, polyp, position)
    np.maximum.at(end, polyp, last)
    time: Floats = (position - first[polyp]) / np.maximum(end - first, 1)[polyp]
    return time


def loss(z: Tensor, targets: Targets, config: Config) -> tuple[Tensor, dict[str, Tensor]]:
    """Softmax over all others against a target that is uniform over those of the same polyp."""
    return multi_positive(z[:, 0], targets.group, config.loss.temperature), {}


METHOD = Method(
    "sup", labels="always", defaults={"loss": {"temperature": 0.25}}, encoder=ours.encoder, plan=plan, loss=loss
)
