"""Every vector of a batch against every other: the pairs of the symmetric losses."""

from typing import NamedTuple

import torch
from torch import Tensor

from polyptrace.losses.similarity import similarities, unit


class Pairs(NamedTuple):
    """R anchors against the B vectors of a batch."""

    s: Tensor  # (R, B) similarities
    positive: Tensor  # (R, B) bool: another vector of the same group
    other: Tensor  # (R, B) bool: any other vector
    counted: Tensor  # (R,) bool: anchors that have a positive
    total: Tensor  # their number in the whole batch, not in these R rows alone


def pairs(
    z: Tensor,  # (B, D)
    group: Tensor,  # (B,)
    temperature: float,
    ignore: Tensor | None = None,  # (B, B) bool
    mask: Tensor | None = None,  # (B,) bool
    rows: slice | None = None,
) -> Pairs:
    """The similarities of the anchors `rows` (all, if None) to every vector, and which of them count as what."""
    rows = rows or slice(None)
    other = ~torch.eye(len(z), dtype=torch.bool, device=z.device)
    if ignore is not None:
        other = other & ignore.logical_not()
    if mask is not None:
        mask = mask.bool()
        other = other & mask & mask[:, None]
    positive = other & (group == group[:, None])
    counted = positive.any(1)
    vectors = unit(z, mask)
    s = similarities(vectors[rows], vectors, temperature)
    return Pairs(s, positive[rows], other[rows], counted[rows], counted.sum())
