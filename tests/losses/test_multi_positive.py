import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from polyptrace.losses import multi_positive, temporally_aware


def made(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def slow(z: Tensor, label: Tensor, position: Tensor, temperature: float, decay: float, ignore: Tensor) -> float:
    """Softmax over all others against a target over the same-label others, one exponential after the other."""
    terms = []
    for i in range(len(z)):
        others = [j for j in range(len(z)) if j != i and not ignore[i, j]]
        positives = [j for j in others if label[j] == label[i]]
        if positives:
            s = {j: float(z[i] @ z[j] / (z[i].norm() * z[j].norm())) / temperature for j in others}
            denominator = sum(math.exp(value) for value in s.values())
            weight = {j: math.exp(-decay * abs(float(position[i] - position[j]))) for j in positives}
            total = sum(weight.values())
            terms.append(-sum(w / total * math.log(math.exp(s[j]) / denominator) for j, w in weight.items()))
    return sum(terms) / max(len(terms), 1)


cases = given(
    b=st.integers(1, 9),
    labels=st.integers(1, 4),
    ignored=st.sampled_from([0.0, 0.3]),
    temperature=st.sampled_from([0.07, 0.25, 1.0]),
    decay=st.sampled_from([0.0, 1.0, 8.0]),
    seed=st.integers(0, 999),
)


@settings(deadline=None, max_examples=60)
@cases
def test_both_are_the_cross_entropy_of_their_formula(
    b: int, labels: int, ignored: float, temperature: float, decay: float, seed: int
) -> None:
    random = torch.Generator().manual_seed(seed)
    label = torch.randint(labels, (b,), generator=random)
    ignore = torch.rand(b, b, generator=random) < ignored
    position = torch.rand(b, generator=random, dtype=torch.float64)
    z = made(b, 5, seed=seed)
    uniform = multi_positive(z, label, temperature, ignore=ignore)
    aware = temporally_aware(z, label, position, temperature, decay, ignore=ignore)
    assert uniform.item() == pytest.approx(slow(z, label, position, temperature, 0.0, ignore), rel=1e-10, abs=1e-12)
    assert aware.item() == pytest.approx(slow(z, label, position, temperature, decay, ignore), rel=1e-10, abs=1e-12)


def test_it_agrees_with_the_published_numbers(shared: Path) -> None:
    with np.load(shared / "oracles/c_losses.npz") as oracle:
        z = torch.from_numpy(oracle["z"]).requires_grad_()
        loss = multi_positive(z, torch.from_numpy(oracle["y"]), 0.1)
        (gradient,) = torch.autograd.grad(loss, z)
        assert loss.item() == pytest.approx(float(oracle["multipos_t01_loss"]), abs=1e-12)
        np.testing.assert_allclose(gradient, oracle["multipos_t01_grad"], atol=1e-12)


def test_its_gradient_is_right_with_a_mask_and_a_label_of_one() -> None:
    label, mask = torch.tensor([0, 0, 1, 1, 2, 0]), torch.tensor([True] * 5 + [False])
    z = made(6, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda v: multi_positive(v, label, 0.3, mask=mask), (z,))


def test_identical_vectors_lose_the_logarithm_of_the_number_of_others() -> None:
    loss = multi_positive(torch.ones(8, 3), torch.arange(2).repeat(4), 0.07)
    assert loss.item() == pytest.approx(math.log(7), abs=1e-5)


def test_every_positive_is_forced_where_the_noise_aware_loss_forgives() -> None:
    z = torch.eye(4, dtype=torch.float64)[[0, 0, 1, 2, 2, 3]]  # in each bag of three one member is wrong
    assert multi_positive(z, torch.tensor([0, 0, 0, 1, 1, 1]), 0.07).item() > 4


def test_no_positive_anywhere_loses_nothing_and_has_no_gradient() -> None:
    z = made(4, 3).requires_grad_()
    loss = multi_positive(z, torch.arange(4), 0.07)
    loss.backward()
    assert loss.item() == 0
    assert (z.grad == 0).all()


def test_half_inputs_are_worked_in_float32_and_do_not_overflow() -> None:
    z, label = (3 * made(12, 8)).bfloat16().requires_grad_(), torch.arange(4).repeat(3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = multi_positive(z, label, 0.01)
    loss.backward()
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(multi_positive(z.double(), label, 0.01).item(), rel=1e-4)
    assert z.grad.isfinite().all()


def test_the_parts_of_many_processes_add_up_to_the_whole() -> None:
    z, label = made(6, 4), torch.tensor([0, 0, 1, 1, 1, 2])
    parts = sum(multi_positive(z, label, 0.1, rows=slice(3 * r, 3 * r + 3)) for r in range(2))
    assert parts.item() == pytest.approx(multi_positive(z, label, 0.1).item(), abs=1e-12)
