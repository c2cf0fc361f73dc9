import pytest
import torch
from torch import Tensor

from polyptrace.losses import condition_satisfied, gradient_share


def made(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


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


def test_the_parts_of_many_processes_add_up_to_the_whole_share() -> None:
    anchors = made(6, 3)
    bags = anchors[:, None] + made(6, 2, 3, seed=1)
    parts = sum(condition_satisfied(anchors, bags, rows=slice(2 * r, 2 * r + 2)) for r in range(3))
    assert 0 < parts.item() < 1
    assert parts.item() == pytest.approx(condition_satisfied(anchors, bags).item())
