"""The noise-aware loss in which every member of a bag is an anchor in turn (the form of the authors' release).

With G(i) the group (bag and anchor) of i and s(a, b) = cos(a, b) / temperature,

    L = -1/B Σ_i log [ Σ_{j∈G(i), j≠i} e^{s(z_i, z_j)} / Σ_{j≠i} e^{s(z_i, z_j)} ].

Many processes: give each the gathered vectors, and as `rows` those that it answers for; the results add up to the
loss of one.
"""

import torch
from torch import Tensor
from torch.nn import functional

from polyptrace.losses.masked import log_sum_exp, mean_over
from polyptrace.losses.pairs import pairs


def noise_aware_symmetric(
    z: Tensor,
    group: Tensor,
    temperature: float = 0.07,
    ignore: Tensor | None = None,
    *,
    mask: Tensor | None = None,
    rows: slice | None = None,
) -> Tensor:
    """The mean loss of the vectors z (B, D) of the bags `group` (B,): a scalar.

    ignore (B, B): True for pairs that are neither positive nor negative (see `repeated_tracklets`).
    mask (B,): True where a vector is real; what stands elsewhere has no influence.
    A vector without a positive (alone in its group) is a negative of the others, but does not count in the mean.
    """
    p = pairs(z, group, temperature, ignore, mask, rows)
    positive = log_sum_exp(p.s, p.positive)  # (R,)
    negative = log_sum_exp(p.s, p.other & ~p.positive)  # (R,)
    positive = torch.where(p.counted, positive, 0.0)
    return mean_over(-functional.logsigmoid(positive - negative), p.counted, p.total)


def noise_aware_symmetric_frames(
    z: Tensor,
    group: Tensor,
    temperature: float = 0.07,
    ignore: Tensor | None = None,
    *,
    frames: Tensor | None = None,
    within_tracklet: bool = True,
    rows: slice | None = None,
) -> Tensor:
    """The same loss over the B·L frames of z (B, L, D), `group` (B,) and `ignore` (B, B) being those of the tracklets.

    frames (B, L): True where a frame is real. within_tracklet: whether two frames of one tracklet are a pair.
    """
    tracklets, length = z.shape[:2]
    apart = None if ignore is None else ignore
    if not within_tracklet:
        same = torch.eye(tracklets, dtype=torch.bool, device=z.device)
        apart = same if apart is None else apart | same
    return noise_aware_symmetric(
        z.flatten(0, 1),
        group.repeat_interleave(length),
        temperature,
        None if apart is None else apart.repeat_interleave(length, 0).repeat_interleave(length, 1),
        mask=None if frames is None else frames.flatten(),
        rows=None if rows is None else _of_frames(rows, tracklets, length),
    )


def _of_frames(rows: slice, tracklets: int, length: int) -> slice:
    start, stop, step = rows.indices(tracklets)
    assert step == 1, "a process answers for neighbouring rows"
    return slice(start * length, stop * length)
