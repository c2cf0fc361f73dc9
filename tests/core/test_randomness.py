import itertools

import numpy as np
import pytest
import torch

from polyptrace.core.errors import UserError
from polyptrace.core.randomness import numpy_generator, torch_generator, torch_seed

PATHS = [(s, *p) for s in (0, 1, 2) for n in (0, 1, 2) for p in itertools.product((0, 1, 2), repeat=n)]


def test_every_seed_and_path_has_its_own_torch_numbers() -> None:
    first = {path: torch.rand(4, generator=torch_generator(*path)) for path in PATHS}
    assert all(torch.equal(numbers, torch.rand(4, generator=torch_generator(*path))) for path, numbers in first.items())
    assert len({tuple(numbers.tolist()) for numbers in first.values()}) == len(PATHS)


def test_every_seed_and_path_has_its_own_numpy_numbers() -> None:
    first = {path: numpy_generator(*path).random(4) for path in PATHS}
    assert all(np.array_equal(numbers, numpy_generator(*path).random(4)) for path, numbers in first.items())
    assert len({tuple(numbers) for numbers in first.values()}) == len(PATHS)


def test_a_torch_seed_is_that_of_its_generator() -> None:
    assert torch_seed(3, 1) == torch_generator(3, 1).initial_seed()


@pytest.mark.parametrize("make", [numpy_generator, torch_generator, torch_seed])
def test_a_negative_seed_is_refused(make: object) -> None:
    with pytest.raises(UserError, match="negative"):
        make(-1)  # type: ignore[operator]
