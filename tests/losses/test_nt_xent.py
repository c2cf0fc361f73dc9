import math

import pytest
import torch
from torch import Tensor

from polyptrace.losses import nt_xent


def made(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def slow(a: Tensor, b: Tensor, temperature: float) -> float:
    """The positive against 2B - 2 negatives, for each of 2B anchors."""
    z = torch.nn.functional.normalize(torch.cat([a, b]), dim=1)
    terms = []
    for i in range(len(z)):
        partner = (i + len(a)) % len(z)
        denominator = sum(math.exp(float(z[i] @ z[j]) / temperature) for j in range(len(z)) if j != i)
        terms.append(-math.log(math.exp(float(z[i] @ z[partner]) / temperature) / denominator))
    return sum(terms) / len(terms)


@pytest.mark.parametrize("items", [1, 2, 7])
@pytest.mark.parametrize("temperature", [0.07, 0.5])
def test_it_is_the_formula(items: int, temperature: float) -> None:
    a, b = made(items, 5), made(items, 5, seed=1)
    assert nt_xent(a, b, temperature).item() == pytest.approx(slow(a, b, temperature), rel=1e-10, abs=1e-12)


def test_its_gradient_is_right() -> None:
    views = made(3, 4).requires_grad_(), made(3, 4, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: nt_xent(a, b, 0.3), views)


def test_the_two_views_can_change_sides() -> None:
    a, b = made(5, 4), made(5, 4, seed=1)
    assert nt_xent(a, b, 0.07).item() == pytest.approx(nt_xent(b, a, 0.07).item(), abs=1e-12)


def test_identical_vectors_lose_the_logarithm_of_the_number_of_others() -> None:
    assert nt_xent(torch.ones(4, 3), torch.ones(4, 3), 0.07).item() == pytest.approx(math.log(7), abs=1e-5)


def test_the_parts_of_many_processes_add_up_to_the_whole() -> None:
    a, b = made(6, 4), made(6, 4, seed=1)
    parts = sum(nt_xent(a, b, 0.07, rows=slice(2 * r, 2 * r + 2)) for r in range(3))
    assert parts.item() == pytest.approx(nt_xent(a, b, 0.07).item(), abs=1e-12)
