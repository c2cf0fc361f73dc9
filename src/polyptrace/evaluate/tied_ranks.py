"""Ranks where scores may tie: average precision and hits as means over all orders of tied scores."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Ranked:
    """For each positive (Q, m): how many scores are above it and equal to it, of all and of positives."""

    above: Tensor
    equal: Tensor
    positive_above: Tensor
    positive_equal: Tensor
    valid: Tensor


def rank(ordered: Tensor, positive: Tensor) -> Ranked:
    """Ranks of positives (Q, m; ascending, filled with +inf) among all scores (Q, N; ascending)."""
    valid = ~torch.isinf(positive)
    positives = valid.sum(dim=1, keepdim=True)  # (Q, 1)
    upper = torch.searchsorted(ordered, positive, right=True)
    lower = torch.searchsorted(ordered, positive)
    positive_upper = torch.searchsorted(positive, positive, right=True)
    positive_lower = torch.searchsorted(positive, positive)
    return Ranked(
        above=ordered.shape[1] - upper,
        equal=upper - lower,
        positive_above=positives - positive_upper,
        positive_equal=positive_upper - positive_lower,
        valid=valid,
    )


def expected_precision(ranked: Ranked) -> Tensor:
    """Mean over tie orders of the precision at a positive's rank, the same for all positives of a tie.

    With b = (p - 1)/(n - 1):  1/n Σ_j (g + 1 + (j - 1) b)/(G + j) = b + (g + 1 - b - b G)(H(G + n) - H(G))/n.
    """
    above, equal = ranked.above.double(), ranked.equal.clamp(min=1).double()
    share = (ranked.positive_equal - 1).double() / (equal - 1).clamp(min=1)
    harmonic = torch.special.digamma(above + equal + 1) - torch.special.digamma(above + 1)
    tied = share + (ranked.positive_above + 1 - share - share * above) * harmonic / equal
    return torch.where(equal > 1, tied, (ranked.positive_above + 1) / (above + 1))


def hit(above: Tensor, equal: Tensor, positives: Tensor, k: int) -> Tensor:
    """Probability that one of `positives` among `equal` tied scores below `above` others has a rank <= k."""
    places = (k - above).clamp(min=0)
    miss = torch.ones_like(above, dtype=torch.float64)
    for taken in range(k):
        others = (equal - positives - taken).clamp(min=0).double() / (equal - taken).clamp(min=1)
        miss = torch.where(taken < places, miss * others, miss)
    return 1.0 - miss
