import numpy as np
import pytest

from polyptrace.core.randomness import torch_generator
from polyptrace.supervision import sample_bags
from polyptrace.supervision.purity import bag_purity, same_polyp


def test_a_member_is_right_wrong_or_unknown() -> None:
    polyp = np.array(["a", "a", "b", ""], object)
    bags = np.array([[1, 2, 3, -1], [0, -1, -1, -1], [0, 1, -1, -1], [0, -1, -1, -1]])
    same = same_polyp(bags, polyp)
    np.testing.assert_array_equal(same[0], [1, 0, np.nan, np.nan])
    np.testing.assert_array_equal(same[3], [np.nan] * 4)


def test_purity_is_what_a_loop_counts() -> None:
    tracklet = np.arange(90)
    polyp = np.array([f"p{n // 10}" for n in tracklet], object)
    bags = sample_bags(tracklet // 30, 32 * tracklet, 4, 3.0, torch_generator(0)).numpy()
    purity = bag_purity(bags, polyp)
    wrong = [[polyp[m] != polyp[i] for m in bag] for i, bag in enumerate(bags)]
    assert purity.anchor.tolist() == tracklet.tolist()
    assert purity.wrong.tolist() == wrong
    assert purity.pure.tolist() == [not any(bag) for bag in wrong]
    assert purity.wrong_share.tolist() == pytest.approx([np.mean(bag) for bag in wrong])
    assert 0.1 < purity.pure.mean() < 0.9


def test_empty_bags_and_bags_with_an_unknown_polyp_are_left_out() -> None:
    polyp = np.array(["a", "a", "", "b"], object)
    bags = np.array([[1, -1], [0, 2], [0, 1], [-1, -1]])
    purity = bag_purity(bags, polyp)
    assert purity.anchor.tolist() == [0]
    assert purity.members.tolist() == [1]
    assert purity.pure.tolist() == [True]


def test_bags_of_some_tracklets_are_refused() -> None:
    with pytest.raises(ValueError, match="2 bags of 3 tracklets"):
        same_polyp(np.array([[1], [0]]), np.array(["a", "a", "b"], object))
