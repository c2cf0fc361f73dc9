"""The pairs of Equation 1: the members of a bag against its own anchor, and against the anchors of other bags."""

from typing import NamedTuple

import torch
from torch import Tensor

from polyptrace.losses.similarity import similarities, unit


class BagPairs(NamedTuple):
    """Similarities of R bags; U frames in a member, L in an anchor (1 each, when whole tracklets are compared)."""

    own: Tensor  # (R, L, K·U) s(z_iku, y_it)
    own_kept: Tensor  # (R, L, K·U) bool
    other: Tensor  # (R, P) s(z_iku, y_jv), j over all bags, j = i not kept
    other_kept: Tensor  # (R, P) bool
    counted: Tensor  # (R, L) bool: anchors that have a positive
    total: Tensor  # their number in the whole batch, not in these R rows alone


def bag_pairs(
    anchors: Tensor,  # (M, L, D)
    bags: Tensor,  # (M, K, U, D)
    temperature: float,
    anchor_real: Tensor | None = None,  # (M, L) bool
    bag_real: Tensor | None = None,  # (M, K, U) bool
    ignore: Tensor | None = None,  # (M, K, M) bool
    rows: slice | None = None,
) -> BagPairs:
    """The similarities of the bags `rows` (all, if None) of a batch to every anchor of it."""
    rows = rows or slice(None)
    bag = torch.arange(len(anchors), device=anchors.device)  # (M,)
    anchor_real = torch.ones_like(anchors[..., 0]).bool() if anchor_real is None else anchor_real.bool()
    bag_real = torch.ones_like(bags[..., 0]).bool() if bag_real is None else bag_real.bool()

    y, z = unit(anchors, anchor_real), unit(bags, bag_real)[rows]
    s = similarities(z.flatten(0, 2), y.flatten(0, 1), temperature)
    s = s.view(*z.shape[:3], *y.shape[:2])  # (R, K, U, M, L)
    kept = bag_real[rows, :, :, None, None] & anchor_real

    r, own = bag[: len(z)], bag[rows]
    negative = own[:, None, None] != bag  # (R, 1, M)
    if ignore is not None:
        negative = negative & ignore[rows].logical_not()  # (R, K, M)
    counted = anchor_real & bag_real.flatten(1).any(1, keepdim=True)
    return BagPairs(
        own=s[r, :, :, own].flatten(1, 2).transpose(1, 2),
        own_kept=kept[r, :, :, own].flatten(1, 2).transpose(1, 2),
        other=s.flatten(1),
        other_kept=(kept & negative[:, :, None, :, None]).flatten(1),
        counted=counted[rows],
        total=counted.sum(),
    )
