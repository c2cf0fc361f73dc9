import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from polyptrace.losses import noise_aware_symmetric, noise_aware_symmetric_frames

TEMPERATURE = 0.07


def made(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def slow(z: Tensor, group: Tensor, temperature: float, ignore: Tensor, mask: Tensor) -> float:
    """Every member an anchor in turn, one exponential after the other."""
    terms = []
    for i in range(len(z)):
        positive = everyone = 0.0
        for j in range(len(z)):
            if i != j and mask[i] and mask[j] and not ignore[i, j]:
                cosine = float(z[i] @ z[j] / (z[i].norm() * z[j].norm()))
                everyone += math.exp(cosine / temperature)
                positive += math.exp(cosine / temperature) * bool(group[i] == group[j])
        if positive:
            terms.append(-math.log(positive / everyone))
    return sum(terms) / max(len(terms), 1)


@settings(deadline=None, max_examples=60)
@given(
    b=st.integers(1, 10),
    groups=st.integers(1, 4),
    kept=st.sampled_from([0.5, 1.0]),
    ignored=st.sampled_from([0.0, 0.3]),
    temperature=st.sampled_from([0.05, 0.07, 1.0]),
    seed=st.integers(0, 999),
)
def test_it_is_the_formula_with_vectors_masked_and_pairs_ignored(
    b: int, groups: int, kept: float, ignored: float, temperature: float, seed: int
) -> None:
    random = torch.Generator().manual_seed(seed)
    group = torch.randint(groups, (b,), generator=random)
    mask = torch.rand(b, generator=random) < kept
    ignore = torch.rand(b, b, generator=random) < ignored
    z = made(b, 5, seed=seed)
    got = noise_aware_symmetric(z, group, temperature, ignore, mask=mask)
    assert got.item() == pytest.approx(slow(z, group, temperature, ignore, mask), rel=1e-10, abs=1e-12)


def test_it_agrees_with_the_published_numbers(shared: Path) -> None:
    with np.load(shared / "oracles/c_losses.npz") as oracle:
        z = torch.from_numpy(oracle["z"]).requires_grad_()
        loss = noise_aware_symmetric(z, torch.from_numpy(oracle["y"]), 0.07)
        (gradient,) = torch.autograd.grad(loss, z)
        assert loss.item() == pytest.approx(float(oracle["milnce_loss"]), abs=1e-12)
        np.testing.assert_allclose(gradient, oracle["milnce_grad"], atol=1e-12)


def test_its_gradient_is_right_with_masks_and_a_vector_alone_in_its_group() -> None:
    group = torch.tensor([0, 0, 1, 1, 1, 2])
    mask = torch.tensor([True, True, True, False, True, True])
    ignore = torch.zeros(6, 6, dtype=torch.bool)
    ignore[0, 5] = ignore[5, 0] = True
    z = made(6, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda v: noise_aware_symmetric(v, group, 0.3, ignore, mask=mask), (z,))


def test_over_frames_it_is_the_same_loss_of_all_tokens() -> None:
    z, group = made(4, 3, 5), torch.tensor([0, 0, 1, 1])
    real = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 1, 1]], dtype=torch.bool)
    nothing = torch.zeros(12, 12, dtype=torch.bool)
    got = noise_aware_symmetric_frames(z, group, TEMPERATURE, frames=real)
    want = slow(z.flatten(0, 1), group.repeat_interleave(3), TEMPERATURE, nothing, real.flatten())
    assert got.item() == pytest.approx(want, abs=1e-12)


def test_pairs_of_frames_inside_a_tracklet_can_be_left_out() -> None:
    z, group = made(4, 3, 5), torch.tensor([0, 0, 1, 1])
    tracklet = torch.arange(4).repeat_interleave(3)
    inside = tracklet[:, None] == tracklet
    got = noise_aware_symmetric_frames(z, group, TEMPERATURE, within_tracklet=False)
    want = slow(z.flatten(0, 1), group.repeat_interleave(3), TEMPERATURE, inside, torch.ones(12, dtype=torch.bool))
    assert got.item() == pytest.approx(want, abs=1e-12)


def test_ignored_tracklets_are_ignored_in_all_their_frames() -> None:
    z, group = made(4, 2, 5), torch.tensor([0, 0, 1, 1])
    ignore = torch.zeros(4, 4, dtype=torch.bool)
    ignore[1, 2] = ignore[2, 1] = True
    got = noise_aware_symmetric_frames(z, group, TEMPERATURE, ignore)
    of_frames = torch.kron(ignore.int(), torch.ones(2, 2, dtype=torch.int)).bool()
    want = slow(z.flatten(0, 1), group.repeat_interleave(2), TEMPERATURE, of_frames, torch.ones(8, dtype=torch.bool))
    assert got.item() == pytest.approx(want, abs=1e-12)


def test_identical_vectors_lose_the_share_of_positives() -> None:
    loss = noise_aware_symmetric(torch.ones(12, 4), torch.arange(3).repeat_interleave(4))
    assert loss.item() == pytest.approx(math.log(11 / 3), abs=1e-5)


def test_opposite_groups_lose_nothing_and_opposite_members_the_whole_range() -> None:
    up = torch.tensor([[1.0, 0.0]])
    z = torch.cat([up, up, -up, -up])
    assert noise_aware_symmetric(z, torch.tensor([0, 0, 1, 1]), 0.01).item() == pytest.approx(0, abs=1e-30)
    crossed = noise_aware_symmetric(z, torch.tensor([0, 1, 0, 1]), 0.01)
    assert crossed.item() == pytest.approx(200, rel=1e-6)


def test_one_bag_alone_loses_nothing() -> None:
    z = made(4, 3).requires_grad_()
    loss = noise_aware_symmetric(z, torch.zeros(4, dtype=torch.long))
    loss.backward()
    assert loss.item() == 0
    assert (z.grad == 0).all()


def test_a_vector_alone_in_its_group_is_a_negative_but_does_not_count_in_the_mean() -> None:
    z, group = made(5, 4), torch.tensor([0, 0, 1, 1, 2])
    rows = [noise_aware_symmetric(z, group, TEMPERATURE, rows=slice(i, i + 1)).item() for i in range(5)]
    assert rows[4] == 0
    assert noise_aware_symmetric(z, group, TEMPERATURE).item() == pytest.approx(sum(rows))
    assert sum(rows) > noise_aware_symmetric(z[:4], group[:4], TEMPERATURE).item()


def test_the_order_and_the_names_of_groups_do_not_matter() -> None:
    z, group = made(9, 4), torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2])
    order = torch.randperm(9, generator=torch.Generator().manual_seed(0))
    moved = noise_aware_symmetric(z[order], 7 - 3 * group[order], TEMPERATURE)
    assert moved.item() == pytest.approx(noise_aware_symmetric(z, group, TEMPERATURE).item(), abs=1e-12)


def test_masked_vectors_have_no_influence_even_nan() -> None:
    z, group = made(6, 4), torch.tensor([0, 0, 0, 1, 1, 1])
    mask = torch.tensor([True, True, False, True, True, True])
    spoilt = z.clone()
    spoilt[2] = torch.nan
    spoilt.requires_grad_()
    loss = noise_aware_symmetric(spoilt, group, TEMPERATURE, mask=mask)
    loss.backward()
    assert loss.item() == pytest.approx(noise_aware_symmetric(z[mask], group[mask], TEMPERATURE).item(), abs=1e-12)
    assert spoilt.grad.isfinite().all()


def test_half_inputs_are_worked_in_float32_under_autocast_too() -> None:
    z, group = (3 * made(12, 8)).bfloat16().requires_grad_(), torch.arange(4).repeat(3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = noise_aware_symmetric(z, group, 0.01)
    loss.backward()
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(noise_aware_symmetric(z.double(), group, 0.01).item(), rel=1e-4)
    assert z.grad.isfinite().all()


def test_the_parts_of_many_processes_add_up_to_the_whole_in_value_and_gradient() -> None:
    z, group = made(6, 2, 4).requires_grad_(), torch.tensor([0, 0, 0, 1, 1, 1])
    whole = noise_aware_symmetric_frames(z, group, TEMPERATURE)
    parts = [noise_aware_symmetric_frames(z, group, TEMPERATURE, rows=slice(3 * r, 3 * r + 3)) for r in range(2)]
    assert sum(parts).item() == pytest.approx(whole.item(), abs=1e-12)
    got, want = torch.autograd.grad(sum(parts), z)[0], torch.autograd.grad(whole, z)[0]
    torch.testing.assert_close(got, want, atol=1e-12, rtol=0)
