"""Losses in which every vector of a batch is an anchor against all others, with s(a, b) = cos(a, b) / temperature.

With the positives P(i) = { j ≠ i : group_j = group_i } of anchor i:

noise_aware_symmetric   the noise-aware loss in the form of the authors' release: every member of a bag is an anchor,
                            L = -1/B Σ_i log [ Σ_{j∈P(i)} e^{s(z_i, z_j)} / Σ_{u≠i} e^{s(z_i, z_u)} ].
multi_positive          supervised contrastive (Sup); on bags, the ablation of noise-awareness: every positive must be
                        close, right or wrong,
                            L = -1/B Σ_i Σ_{j∈P(i)} 1/|P(i)| · log [ e^{s(z_i, z_j)} / Σ_{u≠i} e^{s(z_i, z_u)} ].
temporally_aware        TA: the same with weights w_ij = e^{-decay · |position_i - position_j|}, normalised over P(i),
                        instead of 1/|P(i)|.
nt_xent                 SimCLR (SFE, MVE, TPC): noise_aware_symmetric on pairs.

An anchor without a positive is a negative of the others and does not count in the mean.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from polyptrace.losses.masking import log_sum_exp, masked_mean, similarities, unit_vectors


def noise_aware_symmetric(
    z: Tensor,
    group: Tensor,
    temperature: float = 0.07,
    ignore: Tensor | None = None,
    *,
    mask: Tensor | None = None,
) -> Tensor:
    """The mean loss of vectors z (B, D) in the bags `group` (B,): a scalar.

    ignore (B, B): True for pairs that are neither positive nor negative (see `repeated_tracklets`).
    mask (B,): True where a vector is real.
    """
    pairs = _pairs(z, group, temperature, ignore, mask)
    counted = pairs.positive.any(1)  # (B,)
    positive = torch.where(counted, log_sum_exp(pairs.s, pairs.positive), 0.0)  # (B,)
    negative = log_sum_exp(pairs.s, pairs.other & ~pairs.positive)  # (B,)
    return masked_mean(-functional.logsigmoid(positive - negative), counted)


def multi_positive(
    z: Tensor,
    label: Tensor,
    temperature: float,
    *,
    ignore: Tensor | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The mean loss of vectors z (B, D) with `label` (B,): a scalar. ignore, mask: as in `noise_aware_symmetric`."""
    pairs = _pairs(z, label, temperature, ignore, mask)
    return _cross_entropy(pairs, torch.zeros_like(pairs.s))


def temporally_aware(
    z: Tensor,
    label: Tensor,
    position: Tensor,
    temperature: float,
    decay: float,
    *,
    ignore: Tensor | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The mean loss of vectors z (B, D) with `label` (B,) at `position` (B,): a scalar.

    `position` runs from 0 at the first frame of the polyp to 1 at its last. decay = 0 gives `multi_positive`.
    ignore, mask: as in `noise_aware_symmetric`.
    """
    pairs = _pairs(z, label, temperature, ignore, mask)
    time = position.to(pairs.s.dtype)
    return _cross_entropy(pairs, -decay * (time[:, None] - time).abs())


def nt_xent(a: Tensor, b: Tensor, temperature: float, *, ignore: Tensor | None = None) -> Tensor:
    """The mean loss of two views a (B, D), b (B, D) of the same items: a scalar.

    ignore (2B, 2B): True for pairs of views that are not negatives, in the order a_0, b_0, a_1, b_1, … The positive
    always counts.
    """
    z = torch.stack([a, b], 1).flatten(0, 1)  # (2B, D), the two views of an item next to each other
    item = torch.arange(len(a), device=a.device).repeat_interleave(2)
    if ignore is not None:
        ignore = ignore & (item != item[:, None])
    return noise_aware_symmetric(z, item, temperature, ignore)


class FrameVectors(NamedTuple):
    """The frames of B tracklets as B·L vectors, in the arguments of the losses above."""

    z: Tensor  # (B·L, D)
    group: Tensor  # (B·L,)
    ignore: Tensor | None  # (B·L, B·L)


def frame_vectors(z: Tensor, group: Tensor, ignore: Tensor | None = None, within_tracklet: bool = True) -> FrameVectors:
    """The frames z (B, L, D) of tracklets with `group` (B,) and `ignore` (B, B), for a loss over frames.

    within_tracklet: whether two frames of one tracklet form a pair.
    """
    tracklets, length = z.shape[:2]
    if not within_tracklet:
        same = torch.eye(tracklets, dtype=torch.bool, device=z.device)
        ignore = same if ignore is None else ignore | same
    if ignore is not None:
        ignore = ignore.repeat_interleave(length, 0).repeat_interleave(length, 1)
    return FrameVectors(z.flatten(0, 1), group.repeat_interleave(length), ignore)


class _Pairs(NamedTuple):
    """Every vector of a batch against every other."""

    s: Tensor  # (B, B) similarities
    positive: Tensor  # (B, B) bool: another vector of the same group
    other: Tensor  # (B, B) bool: any other vector


def _pairs(z: Tensor, group: Tensor, temperature: float, ignore: Tensor | None, mask: Tensor | None) -> _Pairs:
    other = ~torch.eye(len(z), dtype=torch.bool, device=z.device)
    if ignore is not None:
        other = other & ignore.logical_not()
    if mask is not None:
        mask = mask.bool()
        other = other & mask & mask[:, None]
    vectors = unit_vectors(z, mask)
    return _Pairs(similarities(vectors, vectors, temperature), other & (group == group[:, None]), other)


def _cross_entropy(pairs: _Pairs, log_weight: Tensor) -> Tensor:
    """The mean cross-entropy of the softmax over all others against a target ∝ exp(log_weight) over the positives."""
    counted = pairs.positive.any(1)  # (B,)
    target = log_weight.masked_fill(~pairs.positive, -torch.inf).masked_fill(~counted[:, None], 0.0).softmax(1)
    normaliser = torch.where(counted, log_sum_exp(pairs.s, pairs.other), 0.0)  # (B,)
    return masked_mean(normaliser - (target * pairs.s).sum(1), counted)
