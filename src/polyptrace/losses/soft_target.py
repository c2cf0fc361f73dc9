"""Cross-entropy of a softmax over all other vectors against a target spread over the positives."""

import torch
from torch import Tensor

from polyptrace.losses.masked import log_sum_exp, mean_over
from polyptrace.losses.pairs import Pairs


def cross_entropy(pairs: Pairs, log_weight: Tensor) -> Tensor:
    """The mean over anchors; the target is ∝ exp(log_weight) (R, B) over the positives and sums to 1."""
    weight = log_weight.masked_fill(~pairs.positive, -torch.inf).masked_fill(~pairs.counted[:, None], 0.0)
    target = weight.softmax(1)
    everyone = torch.where(pairs.counted, log_sum_exp(pairs.s, pairs.other), 0.0)  # (R,)
    return mean_over(everyone - (target * pairs.s).sum(1), pairs.counted, pairs.total)
