"""The noise-aware contrastive loss: Equation 1 of the paper, over tracklets and over frames.

With anchor y_i, the K members z_ik of its bag, and s(a, b) = cos(a, b) / temperature,

    L = -1/M Σ_i log [ Σ_k e^{s(z_ik, y_i)} / ( Σ_k e^{s(z_ik, y_i)} + Σ_{j≠i} Σ_k e^{s(z_ik, y_j)} ) ].

One member close to its anchor is enough to make the fraction large, so a wrong association in the bag is not enforced.
(The paper sums over i. The mean does not grow with the batch.)

Over frames, each frame t of the anchor is an anchor. Its bag is all frames u of all members; its negatives are these
frames against the frames v of the other anchors. The other frames of the same anchor are left out:

    L = -1/(M·L) Σ_i Σ_t log [ P_it / ( P_it + N_i ) ],
    P_it = Σ_{k,u} e^{s(z_iku, y_it)},  N_i = Σ_{j≠i} Σ_{v,k,u} e^{s(z_iku, y_jv)}.

Both are computed as -log σ(log P - log N), which neither overflows nor cancels.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from polyptrace.losses.masking import log_sum_exp, masked_mean, similarities, unit_vectors


def noise_aware(
    anchors: Tensor,
    bags: Tensor,
    temperature: float = 0.07,
    mask: Tensor | None = None,
    *,
    ignore: Tensor | None = None,
) -> Tensor:
    """The mean loss of anchors (M, D) and their bags (M, K, D): a scalar.

    mask (M, K): True where a member is real. An anchor with an empty bag has no loss and does not count in the mean,
    but it is a negative of the other bags.
    ignore (M, K, M): True where member k of bag i must not be a negative of anchor j (see `repeated_members`).
    """
    mask = None if mask is None else mask.unsqueeze(2)
    return noise_aware_frames(anchors.unsqueeze(1), bags.unsqueeze(2), temperature, mask, ignore=ignore)


def noise_aware_frames(
    anchors: Tensor,
    bags: Tensor,
    temperature: float = 0.07,
    mask: Tensor | None = None,
    *,
    anchor_mask: Tensor | None = None,
    ignore: Tensor | None = None,
) -> Tensor:
    """The mean loss of the frames of anchors (M, L, D) and of their bags (M, K, U, D): a scalar.

    mask (M, K, U), anchor_mask (M, L): True where a frame is real.
    ignore (M, K, M): as in `noise_aware`, for all frames of the two tracklets.
    """
    pairs = _pairs(anchors, bags, temperature, mask, anchor_mask, ignore)
    positive = torch.where(pairs.counted, log_sum_exp(pairs.own, pairs.own_mask), 0.0)  # (M, L)
    negative = log_sum_exp(pairs.other, pairs.other_mask)  # (M,)
    return masked_mean(-functional.logsigmoid(positive - negative[:, None]), pairs.counted)


@torch.no_grad()
def condition_satisfied(
    anchors: Tensor, bags: Tensor, mask: Tensor | None = None, *, ignore: Tensor | None = None
) -> Tensor:
    """The fraction of anchors (M, D) whose bags (M, K, D) satisfy the paper's condition: a scalar in [0, 1].

    The condition is max_k s(z_ik, y_i) > max_k s(z_ik, y_j) for all j ≠ i. It holds if there is no other anchor. Empty
    bags do not count. mask, ignore: as in `noise_aware`.
    """
    mask = None if mask is None else mask.unsqueeze(2)
    pairs = _pairs(anchors.unsqueeze(1), bags.unsqueeze(2), 1.0, mask, None, ignore)
    best_own = pairs.own.masked_fill(~pairs.own_mask, -torch.inf).amax(-1)  # (M, 1)
    best_other = pairs.other.masked_fill(~pairs.other_mask, -torch.inf).amax(-1)  # (M,)
    return masked_mean((best_own > best_other[:, None]).to(pairs.own.dtype), pairs.counted)


@torch.no_grad()
def gradient_share(anchors: Tensor, bags: Tensor, temperature: float = 0.07, mask: Tensor | None = None) -> Tensor:
    """The share (M, K) of the gradient towards anchors (M, D) that each member of their bags (M, K, D) receives.

    -∂L_i/∂s(z_ik, y_i) is the softmax over k of s(z_ik, y_i), times a factor that is common to the bag. A row sums to
    1, or to 0 if the bag is empty. The symmetric form has the same shares in the term of the anchor.
    """
    mask = torch.ones_like(bags[..., 0], dtype=torch.bool) if mask is None else mask.bool()
    own = (unit_vectors(bags, mask) * unit_vectors(anchors).unsqueeze(1)).sum(-1) / temperature  # (M, K)
    own = own.masked_fill(~mask, -torch.inf).masked_fill(~mask.any(1, keepdim=True), 0.0)
    return own.softmax(1).masked_fill(~mask, 0.0)


class _BagPairs(NamedTuple):
    """Similarities of the M bags to the M anchors, with U frames in a member and L frames in an anchor."""

    own: Tensor  # (M, L, K·U) s(z_iku, y_it)
    own_mask: Tensor  # (M, L, K·U) bool
    other: Tensor  # (M, P) s(z_iku, y_jv) for all j; j = i is masked
    other_mask: Tensor  # (M, P) bool
    counted: Tensor  # (M, L) bool: anchors that have a positive


def _pairs(
    anchors: Tensor,  # (M, L, D)
    bags: Tensor,  # (M, K, U, D)
    temperature: float,
    mask: Tensor | None,  # (M, K, U)
    anchor_mask: Tensor | None,  # (M, L)
    ignore: Tensor | None,  # (M, K, M)
) -> _BagPairs:
    mask = torch.ones_like(bags[..., 0], dtype=torch.bool) if mask is None else mask.bool()
    anchor_mask = torch.ones_like(anchors[..., 0], dtype=torch.bool) if anchor_mask is None else anchor_mask.bool()

    y, z = unit_vectors(anchors, anchor_mask), unit_vectors(bags, mask)
    s = similarities(z.flatten(0, 2), y.flatten(0, 1), temperature).view(*z.shape[:3], *y.shape[:2])  # (M, K, U, M, L)
    real = mask[..., None, None] & anchor_mask  # (M, K, U, M, L)

    negative = ~torch.eye(len(y), dtype=torch.bool, device=y.device)[:, None]  # (M, 1, M)
    if ignore is not None:
        negative = negative & ignore.logical_not()  # (M, K, M)
    return _BagPairs(
        own=_own(s),
        own_mask=_own(real),
        other=s.flatten(1),
        other_mask=(real & negative[:, :, None, :, None]).flatten(1),
        counted=anchor_mask & mask.flatten(1).any(1, keepdim=True),
    )


def _own(pairs: Tensor) -> Tensor:
    """The pairs of each bag with its own anchor: (M, K, U, M, L) -> (M, L, K·U)."""
    return pairs.diagonal(dim1=0, dim2=3).permute(3, 2, 0, 1).flatten(2)
