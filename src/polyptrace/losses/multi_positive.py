"""The supervised contrastive loss with many positives: Sup of the comparison; on bags, the ablation of noise-awareness.

A softmax over all others of s = cos / temperature against a target that is uniform over the positives
P(i) = { j ≠ i : label_j = label_i }:

    L = -1/B Σ_i Σ_{j∈P(i)} 1/|P(i)| · log [ e^{s(z_i, z_j)} / Σ_{u≠i} e^{s(z_i, z_u)} ].

Every positive must be close, right or wrong: this is what the noise-aware loss relaxes.
"""

import torch
from torch import Tensor

from polyptrace.losses.pairs import pairs
from polyptrace.losses.soft_target import cross_entropy


def multi_positive(
    z: Tensor,
    label: Tensor,
    temperature: float,
    *,
    ignore: Tensor | None = None,
    mask: Tensor | None = None,
    rows: slice | None = None,
) -> Tensor:
    """The mean loss of the vectors z (B, D) with `label` (B,): a scalar.

    ignore (B, B), mask (B,), rows, vectors without a positive: as in `noise_aware_symmetric`.
    """
    p = pairs(z, label, temperature, ignore, mask, rows)
    return cross_entropy(p, torch.zeros_like(p.s))
