import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from polyptrace.losses import condition_satisfied, gradient_share, noise_aware, noise_aware_frames

TEMPERATURE = 0.07


def made(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def e(a: Tensor, b: Tensor, temperature: float) -> float:
    return math.exp(float(a @ b / (a.norm() * b.norm())) / temperature)


def slow_frames(
    anchors: Tensor,
    bags: Tensor,
    temperature: float,
    mask: Tensor,
    anchor_mask: Tensor,
    ignore: Tensor,
) -> float:
    """The frame-level formula as a slow loop."""
    m, frames, _ = anchors.shape
    k, u = bags.shape[1:3]
    terms = []
    for i in range(m):
        members = [(a, b) for a in range(k) for b in range(u) if mask[i, a, b]]
        negative = sum(
            e(bags[i, a, b], anchors[j, v], temperature)
            for a, b in members
            for j in range(m)
            for v in range(frames)
            if j != i and anchor_mask[j, v] and not ignore[i, a, j]
        )
        for t in range(frames):
            if members and anchor_mask[i, t]:
                positive = sum(e(bags[i, a, b], anchors[i, t], temperature) for a, b in members)
                terms.append(-math.log(positive / (positive + negative)))
    return sum(terms) / max(len(terms), 1)


def slow(anchors: Tensor, bags: Tensor, temperature: float, mask: Tensor, ignore: Tensor) -> float:
    """Equation 1 as a slow loop, averaged over anchors."""
    m, k = mask.shape
    terms = []
    for i in range(m):
        members = [a for a in range(k) if mask[i, a]]
        if members:
            positive = sum(e(bags[i, a], anchors[i], temperature) for a in members)
            negative = sum(
                e(bags[i, a], anchors[j], temperature)
                for j in range(m)
                for a in members
                if j != i and not ignore[i, a, j]
            )
            terms.append(-math.log(positive / (positive + negative)))
    return sum(terms) / max(len(terms), 1)


@settings(deadline=None, max_examples=60)
@given(
    m=st.integers(1, 5),
    k=st.integers(1, 4),
    d=st.integers(2, 6),
    temperature=st.sampled_from([0.05, 0.07, 0.5, 1.0]),
    kept=st.sampled_from([0.3, 0.7, 1.0]),
    ignored=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 999),
)
def test_it_is_the_papers_equation_with_members_masked_and_pairs_ignored(
    m: int, k: int, d: int, temperature: float, kept: float, ignored: float, seed: int
) -> None:
    random = torch.Generator().manual_seed(seed)
    mask = torch.rand(m, k, generator=random) < kept
    ignore = torch.rand(m, k, m, generator=random) < ignored
    anchors, bags = made(m, d, seed=seed), made(m, k, d, seed=seed + 1)
    got = noise_aware(anchors, bags, temperature, mask, ignore=ignore)
    assert float(got) == pytest.approx(slow(anchors, bags, temperature, mask, ignore), rel=1e-10, abs=1e-12)


@settings(deadline=None, max_examples=40)
@given(
    m=st.integers(1, 4),
    k=st.integers(1, 3),
    frames=st.integers(1, 3),
    kept=st.sampled_from([0.5, 1.0]),
    ignored=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 999),
)
def test_its_frame_form_is_what_a_loop_over_frames_gives(
    m: int, k: int, frames: int, kept: float, ignored: float, seed: int
) -> None:
    random = torch.Generator().manual_seed(seed)
    mask = torch.rand(m, k, frames, generator=random) < kept
    anchor_mask = torch.rand(m, frames, generator=random) < kept
    ignore = torch.rand(m, k, m, generator=random) < ignored
    anchors, bags = made(m, frames, 4, seed=seed), made(m, k, frames, 4, seed=seed + 1)
    got = noise_aware_frames(anchors, bags, TEMPERATURE, mask, anchor_mask=anchor_mask, ignore=ignore)
    want = slow_frames(anchors, bags, TEMPERATURE, mask, anchor_mask, ignore)
    assert float(got) == pytest.approx(want, rel=1e-10, abs=1e-12)


def test_it_agrees_with_the_published_numbers(shared: Path) -> None:
    with np.load(shared / "oracles/c_losses.npz") as oracle:
        anchors = torch.from_numpy(oracle["paper_anchors"]).requires_grad_()
        bags = torch.from_numpy(oracle["paper_bags"]).requires_grad_()
        loss = noise_aware(anchors, bags, float(oracle["paper_temperature"]))
        of_sum = torch.autograd.grad(loss * len(anchors), (anchors, bags))
        assert loss.item() == pytest.approx(float(oracle["paper_loss_mean"]), abs=1e-12)
        np.testing.assert_allclose(of_sum[0], oracle["paper_grad_anchors_of_sum"], atol=1e-12)
        np.testing.assert_allclose(of_sum[1], oracle["paper_grad_bags_of_sum"], atol=1e-12)


def test_one_frame_a_tracklet_makes_the_two_levels_one() -> None:
    anchors, bags = made(4, 6), made(4, 3, 6, seed=1)
    by_frame = noise_aware_frames(anchors.unsqueeze(1), bags.unsqueeze(2), TEMPERATURE)
    assert by_frame.item() == pytest.approx(noise_aware(anchors, bags, TEMPERATURE).item(), abs=1e-14)


def test_its_gradient_is_right_with_masks_and_an_empty_bag() -> None:
    mask = torch.tensor([[True, True], [True, False], [False, False]])
    ignore = torch.zeros(3, 2, 3, dtype=torch.bool)
    ignore[0, 1, 2] = True
    anchors, bags = made(3, 4).requires_grad_(), made(3, 2, 4, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda y, z: noise_aware(y, z, 0.3, mask, ignore=ignore), (anchors, bags))


def test_the_gradient_of_its_frame_form_is_right() -> None:
    anchors, bags = made(2, 3, 4).requires_grad_(), made(2, 2, 3, 4, seed=1).requires_grad_()
    real = torch.tensor([[True, True, False], [True, False, False]])

    def loss(y: Tensor, z: Tensor) -> Tensor:
        return noise_aware_frames(y, z, 0.3, real[:, None, :].expand(2, 2, 3), anchor_mask=real)

    assert torch.autograd.gradcheck(loss, (anchors, bags))


@pytest.mark.parametrize("bags", [1, 2, 7])
def test_identical_vectors_lose_the_logarithm_of_the_number_of_bags(bags: int) -> None:
    loss = noise_aware(torch.ones(bags, 5), torch.ones(bags, 3, 5))
    assert loss.item() == pytest.approx(math.log(bags), abs=1e-5)


def test_opposite_vectors_lose_the_whole_range_of_similarities() -> None:
    up = torch.tensor([1.0, 0.0])
    anchors = torch.stack([up, -up])
    right, wrong = anchors[:, None, :], -anchors[:, None, :]
    assert noise_aware(anchors, right, 0.01).item() == pytest.approx(0, abs=1e-30)
    assert noise_aware(anchors, wrong, 0.01).item() == pytest.approx(200, rel=1e-6)


def test_one_bag_has_no_negatives_no_loss_and_no_gradient() -> None:
    anchors, bags = made(1, 4).requires_grad_(), made(1, 3, 4, seed=1).requires_grad_()
    loss = noise_aware(anchors, bags)
    loss.backward()
    assert loss.item() == 0
    assert anchors.grad.abs().sum() + bags.grad.abs().sum() == 0


def test_bags_of_one_are_a_cross_entropy_over_anchors() -> None:
    anchors, bags = made(6, 5), made(6, 1, 5, seed=1)
    cosines = torch.nn.functional.cosine_similarity(bags, anchors, dim=-1)  # (6, 1, 5) against (6, 5): bag x anchor
    want = torch.nn.functional.cross_entropy(cosines / TEMPERATURE, torch.arange(6))
    assert noise_aware(anchors, bags, TEMPERATURE).item() == pytest.approx(want.item(), abs=1e-12)


def test_one_good_member_is_enough_and_a_wrong_one_is_ignored() -> None:
    anchors = torch.eye(4, 8, dtype=torch.float64)
    wrong = torch.eye(8, dtype=torch.float64)[4:]  # orthogonal to every anchor
    bags = torch.stack([anchors, wrong], dim=1).requires_grad_()
    loss = noise_aware(anchors, bags)
    loss.backward()
    assert loss.item() < 1e-4
    assert bags.grad[:, 1].norm() < 1e-4 * max(bags.grad[:, 0].norm(), 1)


def test_values_in_masked_places_have_no_influence_even_nan() -> None:
    mask = torch.tensor([[True, False], [False, False], [True, True]])
    anchors, bags = made(3, 4), made(3, 2, 4, seed=1)
    spoilt = bags.clone()
    spoilt[~mask] = torch.nan
    values, gradients = [], []
    for z in (bags, spoilt):
        y, z = anchors.clone().requires_grad_(), z.clone().requires_grad_()
        loss = noise_aware(y, z, TEMPERATURE, mask)
        loss.backward()
        values.append(loss.item())
        gradients.append((y.grad, z.grad))
    assert values[0] == values[1]
    assert torch.equal(gradients[0][0], gradients[1][0])
    assert torch.equal(gradients[0][1], gradients[1][1])
    assert (gradients[1][1][~mask] == 0).all()


def test_an_empty_bag_does_not_count_but_its_anchor_is_a_negative() -> None:
    anchors, bags = made(3, 4), made(3, 2, 4, seed=1)
    mask = torch.tensor([[True, True], [True, True], [False, False]])
    with_third = noise_aware(anchors, bags, TEMPERATURE, mask)
    nothing = torch.zeros(3, 2, 3, dtype=torch.bool)
    assert with_third.item() == pytest.approx(slow(anchors, bags, TEMPERATURE, mask, nothing))
    assert with_third.item() > noise_aware(anchors[:2], bags[:2], TEMPERATURE).item()


def test_masks_of_numbers_are_as_good_as_masks_of_truth() -> None:
    anchors, bags, mask = made(3, 4), made(3, 2, 4, seed=1), torch.tensor([[1, 0], [1, 1], [0, 1]])
    ignore = torch.zeros(3, 2, 3, dtype=torch.uint8)
    ignore[0, 0, 2] = 1
    want = noise_aware(anchors, bags, TEMPERATURE, mask.bool(), ignore=ignore.bool())
    assert noise_aware(anchors, bags, TEMPERATURE, mask, ignore=ignore) == want
    assert noise_aware(anchors, bags, TEMPERATURE, mask.double(), ignore=ignore) == want


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("count", [1, 2])
def test_nothing_but_empty_bags_lose_nothing_and_make_no_nan_on_the_way(count: int) -> None:
    bags = made(count, 2, 4).requires_grad_()
    with torch.autograd.detect_anomaly(check_nan=True):
        loss = noise_aware(made(count, 4), bags, mask=torch.zeros(count, 2, dtype=torch.bool))
        loss.backward()
    assert loss.item() == 0
    assert (bags.grad == 0).all()


def test_the_order_of_members_and_of_bags_does_not_matter() -> None:
    anchors, bags = made(5, 6), made(5, 4, 6, seed=1)
    mask = torch.rand(5, 4, generator=torch.Generator().manual_seed(2)) < 0.7
    members, order = torch.tensor([2, 0, 3, 1]), torch.tensor([4, 2, 0, 1, 3])
    want = noise_aware(anchors, bags, TEMPERATURE, mask).item()
    moved = noise_aware(anchors[order], bags[order][:, members], TEMPERATURE, mask[order][:, members])
    assert moved.item() == pytest.approx(want, abs=1e-12)


def test_the_length_of_vectors_does_not_matter() -> None:
    anchors, bags = made(3, 4), made(3, 2, 4, seed=1)
    scaled = noise_aware(anchors * 1e3, bags * 1e-3, TEMPERATURE)
    assert scaled.item() == pytest.approx(noise_aware(anchors, bags, TEMPERATURE).item(), abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_inputs_are_worked_in_float32_and_do_not_overflow(dtype: torch.dtype) -> None:
    anchors, bags = (5 * made(6, 8)).to(dtype), (5 * made(6, 3, 8, seed=1)).to(dtype).requires_grad_()
    loss = noise_aware(anchors, bags, 0.01)
    loss.backward()
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(noise_aware(anchors.double(), bags.double(), 0.01).item(), rel=1e-4)
    assert bags.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_autocast_changes_nothing(dtype: torch.dtype) -> None:
    anchors, bags = made(6, 8).to(dtype), made(6, 3, 8, seed=1).to(dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under = noise_aware(anchors, bags, TEMPERATURE)
    assert under.dtype == dtype
    assert torch.equal(under, noise_aware(anchors, bags, TEMPERATURE))


def test_the_share_is_that_of_the_losses_gradient() -> None:
    """Equation 1 as a function of its similarities s[i, k, j], differentiated by torch."""
    anchors, bags = made(4, 6), made(4, 3, 6, seed=1)
    mask = torch.tensor([[1, 1, 1], [1, 0, 1], [0, 1, 0], [1, 1, 1]], dtype=torch.bool)
    s = torch.nn.functional.cosine_similarity(bags[:, :, None], anchors, dim=-1).div(0.07).requires_grad_()
    loss = torch.zeros((), dtype=torch.float64)
    for i in range(4):
        exponentials = s[i][mask[i]].exp()  # (members, anchors)
        loss = loss - (exponentials[:, i].sum() / exponentials.sum()).log()
    loss.backward()
    pull = -torch.stack([s.grad[i, :, i] for i in range(4)])
    want = pull / pull.sum(1, keepdim=True)
    torch.testing.assert_close(gradient_share(anchors, bags, 0.07, mask), want, atol=1e-9, rtol=0)


def test_a_member_unlike_its_anchor_gets_almost_nothing() -> None:
    anchors = torch.tensor([[1.0, 0.0]])
    bags = torch.tensor([[[1.0, 0.1], [0.0, 1.0], [-1.0, 0.0]]])
    share = gradient_share(anchors, bags)
    assert share[0, 0] > 0.999
    assert share.sum().item() == pytest.approx(1)


def test_the_shares_of_an_empty_bag_are_zero() -> None:
    mask = torch.tensor([[True, True], [False, False]])
    share = gradient_share(made(2, 4), made(2, 2, 4, seed=1), mask=mask)
    assert share.sum(1).tolist() == pytest.approx([1.0, 0.0])


def slow_condition(anchors: Tensor, bags: Tensor, mask: Tensor) -> float:
    holds = []
    for i in range(len(anchors)):
        members = bags[i][mask[i]]
        if len(members):
            cosines = torch.nn.functional.cosine_similarity(members[:, None], anchors, dim=-1)  # (members, anchors)
            others = [cosines[:, j].max() for j in range(len(anchors)) if j != i]
            holds.append(all(cosines[:, i].max() > other for other in others))
    return sum(holds) / len(holds)


@pytest.mark.parametrize("seed", range(8))
def test_the_condition_is_the_papers(seed: int) -> None:
    anchors = made(5, 3, seed=seed)
    bags = anchors[:, None] + made(5, 3, 3, seed=seed + 100)
    mask = torch.rand(5, 3, generator=torch.Generator().manual_seed(seed)) < 0.7
    assert condition_satisfied(anchors, bags, mask).item() == pytest.approx(slow_condition(anchors, bags, mask))


def test_the_condition_fails_when_a_member_is_as_close_to_another_anchor() -> None:
    anchors = torch.eye(2)
    bags = torch.stack([anchors, anchors.flip(0)], dim=1)  # each bag holds both anchors
    assert condition_satisfied(anchors, bags).item() == 0
    assert condition_satisfied(anchors, bags[:, :1]).item() == 1


def test_a_repeated_tracklet_does_not_break_the_condition_when_it_is_ignored() -> None:
    anchors = torch.eye(2)
    bags = torch.stack([anchors, anchors.flip(0)], dim=1)
    ignore = torch.zeros(2, 2, 2, dtype=torch.bool)
    ignore[0, 1, 1] = ignore[1, 1, 0] = True
    assert condition_satisfied(anchors, bags, ignore=ignore).item() == 1


def test_one_bag_alone_satisfies_the_condition() -> None:
    assert condition_satisfied(made(1, 3), made(1, 2, 3, seed=1)).item() == 1
