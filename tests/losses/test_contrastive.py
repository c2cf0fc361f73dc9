import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from polyptrace.losses import frame_vectors, multi_positive, noise_aware_symmetric, nt_xent, temporally_aware

TEMPERATURE = 0.07


def made(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def slow_symmetric(z: Tensor, group: Tensor, temperature: float, ignore: Tensor, mask: Tensor) -> float:
    """The symmetric form as a slow loop."""
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
    assert got.item() == pytest.approx(slow_symmetric(z, group, temperature, ignore, mask), rel=1e-10, abs=1e-12)


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
    frames, groups, pairs = frame_vectors(z, group)
    got = noise_aware_symmetric(frames, groups, TEMPERATURE, pairs, mask=real.flatten())
    want = slow_symmetric(z.flatten(0, 1), group.repeat_interleave(3), TEMPERATURE, nothing, real.flatten())
    assert got.item() == pytest.approx(want, abs=1e-12)


def test_pairs_of_frames_inside_a_tracklet_can_be_left_out() -> None:
    z, group = made(4, 3, 5), torch.tensor([0, 0, 1, 1])
    tracklet = torch.arange(4).repeat_interleave(3)
    inside = tracklet[:, None] == tracklet
    frames, groups, pairs = frame_vectors(z, group, within_tracklet=False)
    got = noise_aware_symmetric(frames, groups, TEMPERATURE, pairs)
    want = slow_symmetric(
        z.flatten(0, 1), group.repeat_interleave(3), TEMPERATURE, inside, torch.ones(12, dtype=torch.bool)
    )
    assert got.item() == pytest.approx(want, abs=1e-12)


def test_ignored_tracklets_are_ignored_in_all_their_frames() -> None:
    z, group = made(4, 2, 5), torch.tensor([0, 0, 1, 1])
    ignore = torch.zeros(4, 4, dtype=torch.bool)
    ignore[1, 2] = ignore[2, 1] = True
    frames, groups, pairs = frame_vectors(z, group, ignore)
    got = noise_aware_symmetric(frames, groups, TEMPERATURE, pairs)
    of_frames = torch.kron(ignore.int(), torch.ones(2, 2, dtype=torch.int)).bool()
    want = slow_symmetric(
        z.flatten(0, 1), group.repeat_interleave(2), TEMPERATURE, of_frames, torch.ones(8, dtype=torch.bool)
    )
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
    nothing = torch.zeros(5, 5, dtype=torch.bool)
    got = noise_aware_symmetric(z, group, TEMPERATURE).item()
    assert got == pytest.approx(slow_symmetric(z, group, TEMPERATURE, nothing, torch.ones(5, dtype=torch.bool)))
    assert got > noise_aware_symmetric(z[:4], group[:4], TEMPERATURE).item()


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


def slow_cross_entropy(
    z: Tensor, label: Tensor, position: Tensor, temperature: float, decay: float, ignore: Tensor
) -> float:
    """Softmax over all others against a target over the same-label others, as a slow loop."""
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
def test_multi_positive_and_temporally_aware_are_the_cross_entropy_of_their_formula(
    b: int, labels: int, ignored: float, temperature: float, decay: float, seed: int
) -> None:
    random = torch.Generator().manual_seed(seed)
    label = torch.randint(labels, (b,), generator=random)
    ignore = torch.rand(b, b, generator=random) < ignored
    position = torch.rand(b, generator=random, dtype=torch.float64)
    z = made(b, 5, seed=seed)
    uniform = multi_positive(z, label, temperature, ignore=ignore)
    aware = temporally_aware(z, label, position, temperature, decay, ignore=ignore)
    assert uniform.item() == pytest.approx(
        slow_cross_entropy(z, label, position, temperature, 0.0, ignore), rel=1e-10, abs=1e-12
    )
    assert aware.item() == pytest.approx(
        slow_cross_entropy(z, label, position, temperature, decay, ignore), rel=1e-10, abs=1e-12
    )


def test_multi_positive_agrees_with_the_published_numbers(shared: Path) -> None:
    with np.load(shared / "oracles/c_losses.npz") as oracle:
        z = torch.from_numpy(oracle["z"]).requires_grad_()
        loss = multi_positive(z, torch.from_numpy(oracle["y"]), 0.1)
        (gradient,) = torch.autograd.grad(loss, z)
        assert loss.item() == pytest.approx(float(oracle["multipos_t01_loss"]), abs=1e-12)
        np.testing.assert_allclose(gradient, oracle["multipos_t01_grad"], atol=1e-12)


def test_the_gradient_of_multi_positive_is_right_with_a_mask_and_a_label_of_one() -> None:
    label, mask = torch.tensor([0, 0, 1, 1, 2, 0]), torch.tensor([True] * 5 + [False])
    z = made(6, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda v: multi_positive(v, label, 0.3, mask=mask), (z,))


def test_multi_positive_of_identical_vectors_is_the_logarithm_of_the_number_of_others() -> None:
    loss = multi_positive(torch.ones(8, 3), torch.arange(2).repeat(4), 0.07)
    assert loss.item() == pytest.approx(math.log(7), abs=1e-5)


def test_multi_positive_enforces_every_positive() -> None:
    z = torch.eye(4, dtype=torch.float64)[[0, 0, 1, 2, 2, 3]]  # in each bag of three one member is wrong
    assert multi_positive(z, torch.tensor([0, 0, 0, 1, 1, 1]), 0.07).item() > 4


def test_multi_positive_without_any_positive_is_zero_and_has_no_gradient() -> None:
    z = made(4, 3).requires_grad_()
    loss = multi_positive(z, torch.arange(4), 0.07)
    loss.backward()
    assert loss.item() == 0
    assert (z.grad == 0).all()


def test_multi_positive_of_half_inputs_does_not_overflow() -> None:
    z, label = (3 * made(12, 8)).bfloat16().requires_grad_(), torch.arange(4).repeat(3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = multi_positive(z, label, 0.01)
    loss.backward()
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(multi_positive(z.double(), label, 0.01).item(), rel=1e-4)
    assert z.grad.isfinite().all()


def test_temporally_aware_agrees_with_the_published_numbers(shared: Path) -> None:
    with np.load(shared / "oracles/c_losses.npz") as oracle:
        z = torch.from_numpy(oracle["z"]).requires_grad_()
        label, position = torch.from_numpy(oracle["y"]), torch.from_numpy(oracle["positions"])
        loss = temporally_aware(z, label, position, 0.1, 1.0)
        (gradient,) = torch.autograd.grad(loss, z)
        assert loss.item() == pytest.approx(float(oracle["distaware_t01_lam1_loss"]), abs=1e-12)
        np.testing.assert_allclose(gradient, oracle["distaware_t01_lam1_grad"], atol=1e-12)


def test_the_gradient_of_temporally_aware_is_right() -> None:
    label, position = torch.tensor([0, 0, 0, 1, 1, 2]), torch.tensor([0.0, 0.1, 1.0, 0.0, 1.0, 0.0])
    z = made(6, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda v: temporally_aware(v, label, position, 0.3, 2.0), (z,))


def test_without_decay_temporally_aware_is_the_multi_positive_loss() -> None:
    z, label, position = made(6, 4), torch.tensor([0, 0, 0, 1, 1, 1]), torch.arange(6)
    want = multi_positive(z, label, 0.25)
    assert temporally_aware(z, label, position, 0.25, 0.0).item() == pytest.approx(want.item(), abs=1e-14)


def test_a_decay_that_underflows_leaves_the_nearest_positive() -> None:
    z, label = made(3, 4), torch.tensor([0, 0, 1])
    position = torch.tensor([0.0, 1.0, 3.0])
    want = multi_positive(z, label, 0.25).item()  # each anchor has one positive
    assert temporally_aware(z, label, position, 0.25, 1e6).item() == pytest.approx(want, abs=1e-10)
    same = torch.zeros(3, dtype=torch.long)
    cosines = torch.nn.functional.normalize(z) @ torch.nn.functional.normalize(z).T / 0.25
    nearest = [(0, 1), (1, 0), (2, 1)]
    terms = [-cosines[i][torch.arange(3) != i].log_softmax(0)[j - (j > i)].item() for i, j in nearest]
    assert temporally_aware(z, same, position, 0.25, 1e6).item() == pytest.approx(sum(terms) / 3, abs=1e-10)


def slow_nt_xent(a: Tensor, b: Tensor, temperature: float) -> float:
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
def test_nt_xent_is_the_formula(items: int, temperature: float) -> None:
    a, b = made(items, 5), made(items, 5, seed=1)
    assert nt_xent(a, b, temperature).item() == pytest.approx(slow_nt_xent(a, b, temperature), rel=1e-10, abs=1e-12)


def test_the_gradient_of_nt_xent_is_right() -> None:
    views = made(3, 4).requires_grad_(), made(3, 4, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: nt_xent(a, b, 0.3), views)


def test_the_two_views_of_nt_xent_can_be_exchanged() -> None:
    a, b = made(5, 4), made(5, 4, seed=1)
    assert nt_xent(a, b, 0.07).item() == pytest.approx(nt_xent(b, a, 0.07).item(), abs=1e-12)


def test_nt_xent_of_identical_vectors_is_the_logarithm_of_the_number_of_others() -> None:
    assert nt_xent(torch.ones(4, 3), torch.ones(4, 3), 0.07).item() == pytest.approx(math.log(7), abs=1e-5)


def test_views_that_nt_xent_ignores_are_no_negatives_and_the_positive_always_counts() -> None:
    a, b = made(3, 4), made(3, 4, seed=1)
    ignore = torch.zeros(6, 6, dtype=torch.bool)
    ignore[0, 3] = ignore[3, 0] = True  # the first view of item 0, the second view of item 1
    ignore[4, 5] = ignore[5, 4] = True  # a positive
    z = torch.stack([a, b], 1).flatten(0, 1)
    item = torch.arange(6) // 2
    want = slow_symmetric(z, item, 0.1, ignore & (item != item[:, None]), torch.ones(6, dtype=torch.bool))
    assert nt_xent(a, b, 0.1, ignore=ignore).item() == pytest.approx(want, abs=1e-12)
    assert want < nt_xent(a, b, 0.1).item()
