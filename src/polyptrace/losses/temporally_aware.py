"""The temporally-aware supervised contrastive loss (TA of the comparison).

`multi_positive` with a target that falls with the distance in time, w_ij = e^{-decay · |position_i - position_j|}:

    L = -1/B Σ_i Σ_{j∈P(i)} w_ij / Σ_{u∈P(i)} w_iu · log [ e^{s(z_i, z_j)} / Σ_{u≠i} e^{s(z_i, z_u)} ].

`position` is that of the tracklet between its polyp's first frame (0) and last (1). decay = 0 gives `multi_positive`.
"""

from torch import Tensor

from polyptrace.losses.pairs import pairs
from polyptrace.losses.soft_target import cross_entropy


def temporally_aware(
    z: Tensor,
    label: Tensor,
    position: Tensor,
    temperature: float,
    decay: float,
    *,
    ignore: Tensor | None = None,
    mask: Tensor | None = None,
    rows: slice | None = None,
) -> Tensor:
    """The mean loss of the vectors z (B, D) with `label` (B,) at `position` (B,): a scalar.

    ignore (B, B), mask (B,), rows, vectors without a positive: as in `noise_aware_symmetric`.
    """
    p = pairs(z, label, temperature, ignore, mask, rows)
    time = position.to(p.s.dtype)
    distance = (time[rows or slice(None), None] - time).abs()  # (R, B)
    return cross_entropy(p, -decay * distance)
