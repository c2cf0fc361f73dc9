"""Splits by group."""

import numpy as np
import pytest

from polyptrace.data import REAL_COLON, split_by


def test_no_group_stands_on_both_sides() -> None:
    group = np.random.default_rng(0).integers(0, 40, 500)
    test = split_by(group, seed=3)
    assert not set(group[test]) & set(group[~test])


def test_the_share_is_kept_in_every_stratum() -> None:
    group = np.arange(100)
    label = np.repeat([0, 1], [70, 30])
    test = split_by(group, strata=[label], test_share=0.3, seed=1)
    assert [int(test[label == value].sum()) for value in (0, 1)] == [21, 9]


@pytest.mark.parametrize("seed", range(5))
def test_small_strata_together_still_give_the_share(seed: int) -> None:
    group = np.arange(20)
    assert split_by(group, strata=[group % 10], test_share=0.3, seed=seed).sum() == 6


def test_the_seed_decides() -> None:
    group = np.arange(50)
    np.testing.assert_array_equal(split_by(group, seed=5), split_by(group, seed=5))
    assert (split_by(group, seed=5) != split_by(group, seed=6)).any()


def test_the_papers_split_of_real_colon_has_its_27_and_19_videos() -> None:
    train, evaluation = REAL_COLON["paper-train"], REAL_COLON["paper-eval"]
    assert (len(train), len(evaluation)) == (27, 19)
    assert not set(train) & set(evaluation)
    assert all(int(video[-3:]) <= 8 for video in train)
    assert all(int(video[-3:]) >= 9 for video in evaluation)
