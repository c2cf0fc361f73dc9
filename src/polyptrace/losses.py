"""The losses: pure functions of vectors that return the mean over anchors, with s(a, b) = cos(a, b) / temperature.

Equation 1 of the paper, the noise-aware loss, with anchor y_i and the K members z_ik of its bag:

    L = -1/M Σ_i log [ Σ_k e^{s(z_ik, y_i)} / ( Σ_k e^{s(z_ik, y_i)} + Σ_{j≠i} Σ_k e^{s(z_ik, y_j)} ) ].

One member close to its anchor is enough to make the fraction large, so a wrong association in the bag is not enforced.
(The paper sums over i. The mean does not grow with the batch.)

Over frames, each frame t of the anchor is an anchor. Its bag is all frames u of all members; its negatives are these
frames against the frames v of the other anchors. The other frames of the same anchor are left out:

    L = -1/(M·L) Σ_i Σ_t log [ P_it / ( P_it + N_i ) ],
    P_it = Σ_{k,u} e^{s(z_iku, y_it)},  N_i = Σ_{j≠i} Σ_{v,k,u} e^{s(z_iku, y_jv)}.

Both are computed as -log σ(log P - log N), which neither overflows nor cancels.

In the other losses every vector of a batch is an anchor against all others. With the positives
P(i) = { j ≠ i : group_j = group_i } of anchor i:

noise_aware_symmetric   the noise-aware loss in the form of the authors' release: every member of a bag is an anchor,
                            L = -1/B Σ_i log [ Σ_{j∈P(i)} e^{s(z_i, z_j)} / Σ_{u≠i} e^{s(z_i, z_u)} ].
multi_positive          supervised contrastive (Sup); on bags, the ablation of noise-awareness: every positive must be
                        close, right or wrong,
                            L = -1/B Σ_i Σ_{j∈P(i)} 1/|P(i)| · log [ e^{s(z_i, z_j)} / Σ_{u≠i} e^{s(z_i, z_u)} ].
temporally_aware        TA: the same with weights w_ij = e^{-decay · |position_i - position_j|}, normalised over P(i),
                        instead of 1/|P(i)|.
nt_xent                 SimCLR (SFE, MVE, TPC): noise_aware_symmetric on pairs.

An anchor without a positive is a negative of the others and does not count in the mean. `mask` is True where a vector
is real; what is stored elsewhere has no influence, and its gradient is zero, never NaN. `ignore` is True for a pair
that is neither positive nor negative. In training it leaves out the pairs of a tracklet that occurs twice in a batch
(`repeated_members`, `repeated_tracklets`), which Equation 1 and the authors' release count as negatives.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


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
    pairs = _bag_pairs(anchors, bags, temperature, mask, anchor_mask, ignore)
    positive = torch.where(pairs.counted, log_sum_exp(pairs.own), 0.0)  # (M, L)
    negative = log_sum_exp(pairs.other)  # (M,)
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
    pairs = _bag_pairs(anchors.unsqueeze(1), bags.unsqueeze(2), 1.0, mask, None, ignore)
    satisfied = pairs.own.amax(-1) > pairs.other.amax(-1, keepdim=True)  # (M, 1)
    return masked_mean(satisfied.to(pairs.own.dtype), pairs.counted)


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
    """Similarities of the M bags to the M anchors, with U frames in a member and L in an anchor; -inf: no pair."""

    own: Tensor  # (M, L, K·U) s(z_iku, y_it)
    other: Tensor  # (M, K·U·M·L) s(z_iku, y_jv) for all j; -inf for j = i
    counted: Tensor  # (M, L) bool: anchors that have a positive


def _bag_pairs(
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
    s = s.masked_fill(~(mask[..., None, None] & anchor_mask), -torch.inf)

    no_negative = torch.eye(len(y), dtype=torch.bool, device=y.device)[:, None]  # (M, 1, M)
    if ignore is not None:
        no_negative = no_negative | ignore.bool()  # (M, K, M)
    return _BagPairs(
        own=s.diagonal(dim1=0, dim2=3).permute(3, 2, 0, 1).flatten(2),
        other=s.masked_fill(no_negative[:, :, None, :, None], -torch.inf).flatten(1),
        counted=anchor_mask & mask.flatten(1).any(1, keepdim=True),
    )


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
    positive = torch.where(counted, log_sum_exp(pairs.s.masked_fill(~pairs.positive, -torch.inf)), 0.0)  # (B,)
    negative = log_sum_exp(pairs.s.masked_fill(~pairs.other | pairs.positive, -torch.inf))  # (B,)
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
    return temporally_aware(z, label, torch.zeros_like(label), temperature, 0.0, ignore=ignore, mask=mask)


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
    log_weight = -decay * (time[:, None] - time).abs()  # (B, B)
    counted = pairs.positive.any(1)  # (B,)
    target = log_weight.masked_fill(~pairs.positive, -torch.inf).masked_fill(~counted[:, None], 0.0).softmax(1)
    normaliser = torch.where(counted, log_sum_exp(pairs.s.masked_fill(~pairs.other, -torch.inf)), 0.0)  # (B,)
    return masked_mean(normaliser - (target * pairs.s).sum(1), counted)


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


def frame_vectors(
    z: Tensor, group: Tensor, ignore: Tensor | None = None, within_tracklet: bool = True
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The frames z (B, L, D) of tracklets with `group` (B,) and `ignore` (B, B), for a loss over frames.

    Returns z (B·L, D), group (B·L,) and ignore (B·L, B·L).
    within_tracklet: whether two frames of one tracklet form a pair.
    """
    tracklets, length = z.shape[:2]
    if not within_tracklet:
        same = torch.eye(tracklets, dtype=torch.bool, device=z.device)
        ignore = same if ignore is None else ignore | same
    if ignore is not None:
        ignore = ignore.repeat_interleave(length, 0).repeat_interleave(length, 1)
    return z.flatten(0, 1), group.repeat_interleave(length), ignore


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


def unit_vectors(vectors: Tensor, mask: Tensor | None = None) -> Tensor:
    """Vectors (..., D) scaled to length 1; zeros where `mask` (...) is False.

    Half precision is converted to float32, because at temperature 0.07 a similarity reaches 14.3 and e^14.3 overflows
    float16. float64 stays float64.
    """
    if vectors.dtype in (torch.float16, torch.bfloat16):
        vectors = vectors.float()
    if mask is not None:
        vectors = vectors.masked_fill(~mask.unsqueeze(-1), 0.0)
    return functional.normalize(vectors, dim=-1)


def similarities(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    """s(a, b) = cos(a, b) / temperature of all pairs of unit vectors, outside autocast: (n, D), (m, D) -> (n, m)."""
    with torch.autocast(a.device.type, enabled=False):
        return a @ b.T / temperature


def log_sum_exp(logits: Tensor) -> Tensor:
    """log Σ exp over the last dimension: (..., n) -> (...); -inf, with a gradient of zero, where all are -inf."""
    empty = logits.isneginf().all(-1, keepdim=True)
    return torch.logsumexp(logits.masked_fill(empty, 0.0), -1).masked_fill(empty.squeeze(-1), -torch.inf)


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """The mean of the values where `mask` is True: a scalar; 0 if it nowhere is."""
    return values.masked_fill(~mask, 0.0).sum() / mask.sum().clamp(min=1)


def repeated_members(anchor: Tensor, bag: Tensor) -> Tensor:
    """`ignore` (M, K, M) for `noise_aware`, from the indices of the tracklets: anchor (M,), bag (M, K).

    A tracklet may occur twice in a batch and must not be its own negative: True at (i, k, j) if anchor j is the same
    tracklet as member k of bag i, or as anchor i.
    """
    same_member = bag[:, :, None] == anchor  # (M, K, M)
    same_anchor = anchor[:, None] == anchor  # (M, M)
    return same_member | same_anchor[:, None, :]


def repeated_tracklets(tracklet: Tensor) -> Tensor:
    """`ignore` (B, B) for the losses in which every vector is an anchor, from the indices (B,) of the tracklets.

    True for two vectors of the same tracklet.
    """
    same = tracklet[:, None] == tracklet
    return same & ~torch.eye(len(tracklet), dtype=torch.bool, device=tracklet.device)
