"""What the noise-aware loss does with a bag, made visible. Nothing here has a gradient."""

import torch
from torch import Tensor

from polyptrace.losses.bag_pairs import bag_pairs
from polyptrace.losses.masked import mean_over


@torch.no_grad()
def gradient_share(anchors: Tensor, bags: Tensor, temperature: float = 0.07, mask: Tensor | None = None) -> Tensor:
    """The share (M, K) of the pull towards anchors (M, D) that each member of their bags (M, K, D) gets.

    -∂L_i/∂s(z_ik, y_i) is the softmax over k of s(z_ik, y_i), times a factor that the members have in common. A row
    sums to 1; masked members get 0, and so does an empty bag. (In the symmetric form the same holds for the term of
    the anchor.)
    """
    real = None if mask is None else mask.unsqueeze(2)
    pairs = bag_pairs(anchors.unsqueeze(1), bags.unsqueeze(2), temperature, bag_real=real)
    logits = pairs.own.masked_fill(~pairs.own_kept, -torch.inf).masked_fill(~pairs.counted[..., None], 0.0)
    return logits.softmax(-1).masked_fill(~pairs.own_kept, 0.0).squeeze(1)


@torch.no_grad()
def condition_satisfied(
    anchors: Tensor,
    bags: Tensor,
    mask: Tensor | None = None,
    *,
    ignore: Tensor | None = None,
    rows: slice | None = None,
) -> Tensor:
    """The share of anchors (M, D) and bags (M, K, D) for which the paper's condition holds: a scalar in [0, 1].

    max_k s(z_ik, y_i) > max_k s(z_ik, y_j) for all j ≠ i. Without another anchor it holds; an empty bag does not
    count.
    mask, ignore, rows: as in `noise_aware`.
    """
    real = None if mask is None else mask.unsqueeze(2)
    pairs = bag_pairs(anchors.unsqueeze(1), bags.unsqueeze(2), 1.0, bag_real=real, ignore=ignore, rows=rows)
    best_own = pairs.own.masked_fill(~pairs.own_kept, -torch.inf).amax(-1)  # (R, 1)
    best_other = pairs.other.masked_fill(~pairs.other_kept, -torch.inf).amax(-1)  # (R,)
    return mean_over((best_own > best_other[:, None]).to(pairs.own.dtype), pairs.counted, pairs.total)
