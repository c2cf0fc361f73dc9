from pathlib import Path

import numpy as np
import pytest
import torch

from polyptrace.losses import multi_positive, temporally_aware


def made(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_it_agrees_with_the_published_numbers(shared: Path) -> None:
    with np.load(shared / "oracles/c_losses.npz") as oracle:
        z = torch.from_numpy(oracle["z"]).requires_grad_()
        label, position = torch.from_numpy(oracle["y"]), torch.from_numpy(oracle["positions"])
        loss = temporally_aware(z, label, position, 0.1, 1.0)
        (gradient,) = torch.autograd.grad(loss, z)
        assert loss.item() == pytest.approx(float(oracle["distaware_t01_lam1_loss"]), abs=1e-12)
        np.testing.assert_allclose(gradient, oracle["distaware_t01_lam1_grad"], atol=1e-12)


def test_its_gradient_is_right() -> None:
    label, position = torch.tensor([0, 0, 0, 1, 1, 2]), torch.tensor([0.0, 0.1, 1.0, 0.0, 1.0, 0.0])
    z = made(6, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda v: temporally_aware(v, label, position, 0.3, 2.0), (z,))


def test_without_decay_it_is_the_multi_positive_loss() -> None:
    z, label, position = made(6, 4), torch.tensor([0, 0, 0, 1, 1, 1]), torch.arange(6)
    want = multi_positive(z, label, 0.25)
    assert temporally_aware(z, label, position, 0.25, 0.0).item() == pytest.approx(want.item(), abs=1e-14)


def test_a_decay_that_underflows_leaves_the_nearest_positive() -> None:
    z, label = made(3, 4), torch.tensor([0, 0, 0])
    position = torch.tensor([0.0, 1.0, 3.0])
    got = temporally_aware(z, label, position, 0.25, 1e6, rows=slice(0, 1)) * 3
    cosines = torch.nn.functional.cosine_similarity(z[0], z[1:], dim=-1) / 0.25
    assert got.item() == pytest.approx(-cosines.log_softmax(0)[0].item(), abs=1e-10)


def test_the_parts_of_many_processes_add_up_to_the_whole() -> None:
    z, label, position = made(6, 4), torch.tensor([0, 0, 1, 1, 1, 0]), made(6, seed=1)
    parts = sum(temporally_aware(z, label, position, 0.1, 1.0, rows=slice(3 * r, 3 * r + 3)) for r in range(2))
    assert parts.item() == pytest.approx(temporally_aware(z, label, position, 0.1, 1.0).item(), abs=1e-12)
