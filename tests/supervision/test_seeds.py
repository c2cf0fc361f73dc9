import itertools

import pytest
import torch

from polyptrace.errors import UserError
from polyptrace.supervision import seeded


def test_every_seed_and_path_has_its_own_numbers() -> None:
    paths = [(s, *p) for s in (0, 1, 2) for n in (0, 1, 2) for p in itertools.product((0, 1, 2), repeat=n)]
    first = {path: torch.rand(4, generator=seeded(*path)) for path in paths}
    assert all(torch.equal(numbers, torch.rand(4, generator=seeded(*path))) for path, numbers in first.items())
    assert len({tuple(numbers.tolist()) for numbers in first.values()}) == len(paths)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(UserError, match="negative"):
        seeded(-1)
