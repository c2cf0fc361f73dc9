"""The noise-aware contrastive loss: Equation 1 of the paper, over tracklets and over frames.

With y_i the anchor and z_ik the K members of bag i, and s(a, b) = cos(a, b) / temperature,

    L = -1/M Σ_i log [ Σ_k e^{s(z_ik, y_i)} / ( Σ_k e^{s(z_ik, y_i)} + Σ_{j≠i} Σ_k e^{s(z_ik, y_j)} ) ].

One member that fits its anchor is enough to make the fraction large, so a wrong association in the bag is not forced.
(The paper writes the sum over i; here it is the mean, so that the loss does not grow with the batch.)

Over frames each frame t of the anchor is an anchor, its bag is all frames u of all members, its negatives are those
against the frames v of other anchors; the sibling frames of the same anchor are left out:

    L = -1/(M·L) Σ_i Σ_t log [ P_it / ( P_it + N_i ) ],
    P_it = Σ_{k,u} e^{s(z_iku, y_it)},  N_i = Σ_{j≠i} Σ_{v,k,u} e^{s(z_iku, y_jv)}.

Both are -log σ(log P - log N), P the sum over positives and N over negatives, which neither overflows nor cancels.

Many processes: give each the gathered anchors and bags, and as `rows` the bags that it answers for. Its result is the
sum over those divided by the number of anchors in the whole batch, so the processes' results add up to the loss of one.
"""

import torch
from torch import Tensor
from torch.nn import functional

from polyptrace.losses.bag_pairs import bag_pairs
from polyptrace.losses.masked import log_sum_exp, mean_over


def noise_aware(
    anchors: Tensor,
    bags: Tensor,
    temperature: float = 0.07,
    mask: Tensor | None = None,
    *,
    ignore: Tensor | None = None,
    rows: slice | None = None,
) -> Tensor:
    """The mean loss of anchors (M, D) and their bags (M, K, D): a scalar.

    mask (M, K): True where a member is real; what stands elsewhere has no influence. An anchor whose bag is empty
    has no loss of its own and does not count in the mean, but is a negative of the others.
    ignore (M, K, M): True where member k of bag i must not be a negative of anchor j (see `repeated_members`).
    """
    mask = None if mask is None else mask.unsqueeze(2)
    return _loss(anchors.unsqueeze(1), bags.unsqueeze(2), temperature, None, mask, ignore, rows)


def noise_aware_frames(
    anchors: Tensor,
    bags: Tensor,
    temperature: float = 0.07,
    mask: Tensor | None = None,
    *,
    anchor_frames: Tensor | None = None,
    bag_frames: Tensor | None = None,
    ignore: Tensor | None = None,
    rows: slice | None = None,
) -> Tensor:
    """The mean loss of the frames of anchors (M, L, D) and of their bags (M, K, L, D): a scalar.

    mask (M, K), anchor_frames (M, L), bag_frames (M, K, L): True where a member, a frame is real.
    ignore (M, K, M): as in `noise_aware`, for all frames of the two tracklets.
    """
    bag_real = bag_frames
    if mask is not None:
        bag_real = mask.bool().unsqueeze(2).expand(bags.shape[:3])
        bag_real = bag_real if bag_frames is None else bag_real & bag_frames.bool()
    return _loss(anchors, bags, temperature, anchor_frames, bag_real, ignore, rows)


def _loss(
    anchors: Tensor,  # (M, L, D)
    bags: Tensor,  # (M, K, U, D)
    temperature: float,
    anchor_real: Tensor | None,
    bag_real: Tensor | None,
    ignore: Tensor | None,
    rows: slice | None,
) -> Tensor:
    pairs = bag_pairs(anchors, bags, temperature, anchor_real, bag_real, ignore, rows)
    positive = log_sum_exp(pairs.own, pairs.own_kept)  # (R, L)
    negative = log_sum_exp(pairs.other, pairs.other_kept)  # (R,)
    positive = torch.where(pairs.counted, positive, 0.0)
    return mean_over(-functional.logsigmoid(positive - negative[:, None]), pairs.counted, pairs.total)
