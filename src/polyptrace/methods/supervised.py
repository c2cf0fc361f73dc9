"""Sup and TA: supervised contrastive learning over tracklets, plain and temporally aware (Parolari et al. 2025).

A batch has 4 polyps with 14 tracklets each. Polyps are drawn without replacement with weight = tracklets left, and
their tracklets are used up; the epoch ends when fewer than 4 polyps can be drawn. A polyp with fewer than 14 tracklets
is drawn once per epoch with all it has. The release never draws it: `--views.small-polyps leave-out`, which also
reduces the batch if too few polyps have 14.

The target of Sup is uniform over the tracklets of the polyp. That of TA decreases with the distance in time between two
of them as e^(-λ |t_i - t_j|), with t from 0 at the polyp's first frame to 1 at its last.
"""

from functools import cache

import numpy as np
from torch import Tensor

from polyptrace.config import Config, Views
from polyptrace.core.arrays import Floats, Ints
from polyptrace.core.console import counted
from polyptrace.core.errors import UserError
from polyptrace.core.randomness import numpy_generator
from polyptrace.data.identity import codes, video_keys
from polyptrace.data.tracklets import pad_rows
from polyptrace.losses import multi_positive, temporally_aware
from polyptrace.methods import ours
from polyptrace.methods.method import (
    Batch,
    Data,
    Epoch,
    Targets,
    TrainingMethod,
    TrainingPlan,
    fixed_length,
    polyp_codes,
    tracklet_batch,
)


def plan(data: Data, config: Config) -> TrainingPlan:
    """Batches of tracklets of some polyps. Labels are needed."""
    chosen = fixed_length(data)
    polyp = polyp_codes(data, chosen)
    rows = pad_rows([data.tracklets.rows[i] for i in chosen])
    position = time_in_polyp(data, chosen, polyp)
    polyps, tracklets, notes = batch_shape(np.bincount(polyp), config.views)
    keep_small = config.views.small_polyps == "keep"

    @cache
    def batches(epoch: int) -> list[Ints]:
        return draw_batches(polyp, polyps, tracklets, keep_small, numpy_generator(config.train.seed, epoch))

    def batch(members: Ints) -> Batch:
        return tracklet_batch(members, rows, chosen, polyp[members], position[members], together=1)

    def epoch(number: int, _epochs: int) -> Epoch:
        drawn = batches(number)
        return Epoch(len(drawn), lambda step: batch(drawn[step]))

    drawn = np.array([(members >= 0).sum() for members in batches(0)])
    return TrainingPlan(
        epoch,
        lambda epochs: sum(len(batches(number)) for number in range(epochs)),
        batch_size=polyps * tracklets,
        frames_per_step=max(1, round(drawn.mean() * (rows >= 0).sum(1).mean())),
        notes=notes,
    )


def batch_shape(sizes: Ints, settings: Views) -> tuple[int, int, list[str]]:
    """Polyps in a batch, tracklets of each, and notes for the log; `sizes` are the tracklets of each polyp."""
    sizes = np.sort(sizes)[::-1]
    polyps = min(settings.polyps_per_batch, int((sizes >= 2).sum()))
    if polyps < 2:
        raise UserError("the data has fewer than two polyps with two tracklets -> supervised methods need more")
    wanted = settings.tracklets_per_polyp
    if settings.small_polyps == "keep":
        tracklets, limit, use = min(wanted, int(sizes[0])), wanted, "drawn with all they have"
    else:
        tracklets = limit = min(wanted, int(sizes[polyps - 1]))
        use = "never drawn"
    notes = []
    if small := int((sizes < limit).sum()):
        notes.append(f"data: {small} of {counted(len(sizes), 'polyp')} have fewer than {limit} tracklets: {use}")
    if polyps < settings.polyps_per_batch or limit < wanted:
        shape = f"{counted(polyps, 'polyp')} x {counted(tracklets, 'tracklet')}"
        full_shape = f"{settings.polyps_per_batch} x {wanted}"
        notes.append(f"data: batches of {shape} instead of {full_shape}: polyps are too small")
    return polyps, tracklets, notes


def draw_batches(polyp: Ints, polyps: int, tracklets: int, keep_small: bool, random: np.random.Generator) -> list[Ints]:
    """Batches (polyps · tracklets,) of tracklets of the polyps (N,), until too few polyps are left.

    With `keep_small`, a polyp with fewer tracklets is drawn with all of them, and the rest of its slots is -1.
    """
    shuffled = random.permutation(len(polyp))
    order = shuffled[np.argsort(polyp[shuffled], kind="stable")]
    begin = np.searchsorted(polyp[order], np.arange(polyp.max() + 2))
    left = np.diff(begin)  # unused tracklets of each polyp, which are the first of its run in `order`
    needed = np.minimum(tracklets, left) if keep_small else np.full_like(left, tracklets)
    batches = []
    while (available := np.flatnonzero((left >= needed) & (left > 0))).size >= polyps:
        drawn = random.choice(available, polyps, replace=False, p=left[available] / left[available].sum())
        slot = (begin[drawn] + left[drawn])[:, None] - 1 - np.arange(tracklets)
        valid = np.arange(tracklets) < needed[drawn][:, None]
        batches.append(np.where(valid, order[np.where(valid, slot, 0)], -1).flatten())
        left[drawn] -= needed[drawn]
    return batches


def time_in_polyp(data: Data, chosen: Ints, polyp: Ints) -> Floats:
    """Where each tracklet begins, from 0 at the first frame of its polyp in the video to 1 at the last."""
    pairs = np.stack([polyp, codes(video_keys(data.tracklets)[chosen])], 1)
    polyp = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
    position, last = data.tracklets.position[chosen], data.tracklets.last[chosen]
    first, end = np.full(polyp.max() + 1, np.inf), np.full(polyp.max() + 1, -np.inf)
    np.minimum.at(first, polyp, position)
    np.maximum.at(end, polyp, last)
    return (position - first[polyp]) / np.maximum(end - first, 1)[polyp]


def loss(z: Tensor, targets: Targets, config: Config) -> tuple[Tensor, dict[str, Tensor]]:
    """Softmax over all other tracklets against a target that is uniform over those of the same polyp."""
    mask = targets.tracklet >= 0
    return multi_positive(z[:, 0], targets.group, config.loss.temperature, mask=mask), {}


def temporal_loss(z: Tensor, targets: Targets, config: Config) -> tuple[Tensor, dict[str, Tensor]]:
    """Softmax over all other tracklets against a target that prefers those of the same polyp close in time."""
    temperature, decay, mask = config.loss.temperature, config.views.decay, targets.tracklet >= 0
    return temporally_aware(z[:, 0], targets.group, targets.position, temperature, decay, mask=mask), {}


SUP, TA = (
    TrainingMethod(name, "always", {"loss": {"temperature": 0.25}}, ours.encoder, plan, function)
    for name, function in (("sup", loss), ("ta", temporal_loss))
)
