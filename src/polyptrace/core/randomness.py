"""Random generators as a function of explicit numbers, so that no random state has to be carried or saved.

The path names what the numbers are for, for example `(epoch, stream)`. Its length is part of the key, so
`(seed, epoch)` and `(seed, epoch, 0)` are independent.
"""

from typing import TYPE_CHECKING

import numpy as np

from polyptrace.core.errors import UserError

if TYPE_CHECKING:
    import torch


def numpy_generator(seed: int, *path: int) -> np.random.Generator:
    """A NumPy generator that depends on the seed and on every number of the path."""
    return np.random.default_rng(_sequence(seed, path))


def torch_generator(seed: int, *path: int) -> "torch.Generator":
    """A torch generator that depends on the seed and on every number of the path."""
    import torch  # takes seconds, and NumPy generators do not need it

    return torch.Generator().manual_seed(torch_seed(seed, *path))


def torch_seed(seed: int, *path: int) -> int:
    """A seed for torch's global generator that depends on the seed and on every number of the path."""
    return int(_sequence(seed, path).generate_state(1, np.uint64)[0])


def _sequence(seed: int, path: tuple[int, ...]) -> np.random.SeedSequence:
    if seed < 0:
        raise UserError(f"seed: {seed} is negative -> give 0 or more")
    return np.random.SeedSequence([seed, len(path), *path])
