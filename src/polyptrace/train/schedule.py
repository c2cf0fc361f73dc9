"""The learning rate as a function of training progress: nothing to save, nothing to restore."""

import math
from typing import Literal

#: One-cycle: share of training in which the rate rises, and where it starts and ends, as shares of the highest.
WARM_UP, START, END = 0.1, 1 / 25, 1 / 250_000


def learning_rate(progress: float, highest: float, schedule: Literal["constant", "one-cycle"]) -> float:
    """The rate at `progress` in [0, 1]; one-cycle rises and falls along half cosines."""
    if schedule == "constant":
        return highest
    if progress < WARM_UP:
        low, share = START, progress / WARM_UP
    else:
        low, share = END, (1 - progress) / (1 - WARM_UP)
    return highest * (low + (1 - low) * (1 - math.cos(math.pi * share)) / 2)
