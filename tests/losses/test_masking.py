import torch

from polyptrace.losses import noise_aware, noise_aware_symmetric, repeated_members, repeated_tracklets


def test_a_member_that_is_another_bags_anchor_is_ignored_against_it() -> None:
    anchor, bag = torch.tensor([10, 20, 30]), torch.tensor([[11, 20], [21, 22], [31, -1]])
    ignore = repeated_members(anchor, bag)
    off_diagonal = ignore & ~torch.eye(3, dtype=torch.bool)[:, None, :]
    assert off_diagonal.nonzero().tolist() == [[0, 1, 1]]


def test_an_anchor_that_occurs_twice_is_never_its_own_negative() -> None:
    ignore = repeated_members(torch.tensor([10, 20, 10]), torch.tensor([[11, 12], [21, 22], [12, 13]]))
    assert ignore[0, :, 2].all()
    assert ignore[2, :, 0].all()
    assert not ignore[0, :, 1].any()
    assert not ignore[1].any(0)[[0, 2]].any()


def test_two_places_of_one_tracklet_are_no_pair() -> None:
    ignore = repeated_tracklets(torch.tensor([4, 5, 4, 6]))
    assert ignore.nonzero().tolist() == [[0, 2], [2, 0]]


def test_a_repeated_tracklet_adds_no_loss_in_either_form() -> None:
    """Tracklet 7 is a member of bag 0 and the anchor of bag 1."""
    vector = {1: [1.0, 0, 0], 7: [0, 1.0, 0], 8: [0, 1.0, 0.1], 2: [1.0, 0, 0.1]}
    anchor, bag = torch.tensor([1, 7]), torch.tensor([[2, 7], [8, 8]])
    anchors = torch.tensor([vector[int(i)] for i in anchor])
    bags = torch.tensor([[vector[int(i)] for i in row] for row in bag])
    assert noise_aware(anchors, bags) > 0.3
    assert noise_aware(anchors, bags, ignore=repeated_members(anchor, bag)) < 1e-4

    tracklet = torch.tensor([1, 2, 7, 7, 8])
    z = torch.tensor([vector[int(i)] for i in tracklet])
    group = torch.tensor([0, 0, 0, 1, 1])
    assert noise_aware_symmetric(z, group, ignore=repeated_tracklets(tracklet)) < noise_aware_symmetric(z, group)
