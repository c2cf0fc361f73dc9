"""What each method optimises, against the loss functions called by hand."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from polyptrace.config import Config, Loss, Supervision
from polyptrace.losses import (
    multi_positive,
    noise_aware,
    noise_aware_frames,
    noise_aware_symmetric,
    nt_xent,
    temporally_aware,
)
from polyptrace.methods import METHODS, Targets

CONFIG = Config(supervision=Supervision(bag_size=2))


@pytest.fixture
def z() -> Tensor:
    return torch.randn(12, 5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def targets(group_size: int, missing: bool = False) -> Targets:
    tracklet = torch.arange(12)
    real = torch.ones(12, 4, dtype=torch.bool)
    if missing:
        tracklet[5] = -1
        real[5] = False
    return Targets(real, tracklet, torch.arange(12) // group_size, torch.linspace(0, 1, 12, dtype=torch.float64))


def whole(name: str, z: Tensor, of: Targets, config: Config) -> Tensor:
    return METHODS[name].loss(z, of, config)[0]


@pytest.mark.parametrize(("tracklets", "frames"), [(1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.5, 2.0)])
def test_ours_is_the_weighted_sum_of_both_levels(tracklets: float, frames: float, z: Tensor) -> None:
    bags = z.reshape(4, 3, 5, 6)
    paper = Loss(form="paper", tracklet_weight=tracklets, frame_weight=frames)
    by_hand = tracklets * noise_aware(bags[:, 0, 0], bags[:, 1:, 0]) + frames * noise_aware_frames(
        bags[:, 0, 1:], bags[:, 1:, 1:]
    )
    torch.testing.assert_close(whole("ours", z, targets(3), replace(CONFIG, loss=paper)), by_hand)
    group = torch.arange(12) // 3
    by_frame = noise_aware_symmetric(z[:, 1:].flatten(0, 1), group.repeat_interleave(4))
    by_hand = tracklets * noise_aware_symmetric(z[:, 0], group) + frames * by_frame
    symmetric = replace(CONFIG, loss=replace(paper, form="symmetric"))
    torch.testing.assert_close(whole("ours", z, targets(3), symmetric), by_hand)


def test_a_tracklet_that_occurs_twice_is_not_its_own_negative(z: Tensor) -> None:
    of = targets(3)
    twice = replace(of, tracklet=torch.tensor([0, 1, 2, 0, 4, 5, 6, 7, 8, 9, 10, 11]))
    for form in ("paper", "symmetric"):
        config = replace(CONFIG, loss=Loss(form=form))
        assert whole("ours", z, twice, config) < whole("ours", z, of, config)


def test_a_missing_member_changes_nothing(z: Tensor) -> None:
    of = targets(3, missing=True)
    other = z.clone()
    other[5] = 100.0
    for loss in (Loss(form="paper"), Loss(form="symmetric"), Loss(name="multi-positive")):
        config = replace(CONFIG, loss=loss)
        torch.testing.assert_close(whole("ours", z, of, config), whole("ours", other, of, config))


def test_the_other_methods_use_their_published_losses(z: Tensor) -> None:
    config = replace(CONFIG, loss=Loss(temperature=0.25))
    of = targets(4)
    for name in ("sfe", "mve", "tpc"):
        torch.testing.assert_close(whole(name, z, of, config), nt_xent(z[0::2, 0], z[1::2, 0], 0.25))
    torch.testing.assert_close(whole("sup", z, of, config), multi_positive(z[:, 0], of.group, 0.25))
    by_hand = temporally_aware(z[:, 0], of.group, of.position, 0.25, 1.0)
    torch.testing.assert_close(whole("ta", z, of, config), by_hand)


def test_a_track_is_never_its_own_negative_in_tpc_but_may_be_in_sfe(z: Tensor) -> None:
    of = targets(2)
    twice = replace(of, tracklet=torch.tensor([0, 1, 1, 3, 4, 5, 6, 7, 8, 9, 10, 0]))
    assert whole("tpc", z, twice, CONFIG) < whole("tpc", z, of, CONFIG)
    assert whole("sfe", z, twice, CONFIG) == whole("sfe", z, of, CONFIG)
    same_pair = replace(of, tracklet=torch.arange(12) // 2)  # two views of one track stay a positive pair
    assert whole("tpc", z, same_pair, CONFIG) == whole("mve", z, of, CONFIG)


@pytest.mark.parametrize("name", ["sup", "ta"])
def test_places_without_a_tracklet_change_nothing_in_sup_and_ta(name: str, z: Tensor) -> None:
    of = targets(4, missing=True)
    other = z.clone()
    other[5] = 100.0
    torch.testing.assert_close(whole(name, z, of, CONFIG), whole(name, other, of, CONFIG))
    kept = [i for i in range(12) if i != 5]
    without = Targets(of.mask[kept], of.tracklet[kept], of.group[kept], of.position[kept])
    torch.testing.assert_close(whole(name, z, of, CONFIG), whole(name, z[kept], without, CONFIG))
