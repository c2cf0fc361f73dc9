"""Random numbers as a function of explicit numbers: no state to carry from one epoch to the next."""

import numpy as np
import torch

from polyptrace.errors import UserError


def seeded(seed: int, *path: int) -> torch.Generator:
    """A generator that depends on the seed and on every number of the path, such as (epoch, purpose).

    The numbers are mixed, not added or multiplied: (0, 1) and (1, 0) have nothing in common, and zero is as good a
    seed or an epoch as any.
    """
    if seed < 0:
        raise UserError(f"seed: {seed} is negative -> give 0 or more")
    state = np.random.SeedSequence([seed, len(path), *path]).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0]))
