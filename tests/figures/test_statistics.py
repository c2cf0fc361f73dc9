"""Ranks, purity and shares against slow loops."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from polyptrace.config import Supervision
from polyptrace.data import Dataset
from polyptrace.figures.figure2 import (
    TrainingTracklets,
    bag_ranks,
    bags_at,
    curriculum_statistics,
    estimate_purity,
    gradient_shares,
    training_tracklets,
)


def procedure(videos: int = 3, polyps: int = 3, each: int = 10) -> TrainingTracklets:
    """Polyps one after the other in each video, tracklets 32 frames apart."""
    count = videos * polyps * each
    index = np.arange(count)
    video = np.array([f"v{n // (polyps * each)}" for n in index], object)
    polyp = np.array([f"v{n // (polyps * each)}-p{n // each % polyps}" for n in index], object)
    return TrainingTracklets(video, 32 * (index % (polyps * each)), polyp, index)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 6)), min_size=2, max_size=9), st.integers(0, 99))
def test_a_rank_counts_the_nearer_ones_and_a_tie_has_its_mean(tracks: list[tuple[str, int]], seed: int) -> None:
    video = np.array([v for v, _ in tracks], object)
    position = np.array([p for _, p in tracks], np.int64)
    tracklets = TrainingTracklets(video, position, np.full(len(tracks), "", object), np.arange(len(tracks)))
    bags, _ = bags_at(tracklets, Supervision(bag_size=2), 1.0, seed)
    ranks = bag_ranks(tracklets, bags)
    for i, members in enumerate(bags):
        others = [abs(position[j] - position[i]) for j in range(len(tracks)) if j != i and video[j] == video[i]]
        for k, member in enumerate(members):
            if member < 0:
                assert np.isnan(ranks[i, k])
                continue
            distance = abs(position[member] - position[i])
            nearer, as_near = sum(o < distance for o in others), sum(o <= distance for o in others)
            assert ranks[i, k] == (nearer + 1 + as_near) / 2


def test_purity_is_what_a_loop_counts() -> None:
    tracklets = procedure()
    bags, _ = bags_at(tracklets, Supervision(), 1.0, 0)
    judged = estimate_purity(tracklets, [bags])
    pure = [all(tracklets.polyp[m] == tracklets.polyp[i] for m in bag) for i, bag in enumerate(bags)]
    wrong = [np.mean([tracklets.polyp[m] != tracklets.polyp[i] for m in bag]) for i, bag in enumerate(bags)]
    assert judged.pure is not None
    assert judged.wrong is not None
    assert judged.pure[0] == pytest.approx(np.mean(pure))
    assert judged.wrong[0] == pytest.approx(np.mean(wrong))
    assert judged.pure[1] <= judged.pure[0] <= judged.pure[2]
    assert (judged.bags, judged.polyps) == (90, 9)


def test_a_bag_with_an_unknown_polyp_is_not_judged() -> None:
    tracklets = procedure()
    polyp = tracklets.polyp.copy()
    polyp[0] = ""
    unknown = replace(tracklets, polyp=polyp)
    bags, _ = bags_at(unknown, Supervision(), 1.0, 0)
    touched = [0 in bag or i == 0 for i, bag in enumerate(bags.tolist())]
    assert estimate_purity(unknown, [bags]).bags == 90 - sum(touched)


def test_shares_are_the_softmax_of_the_scaled_cosines() -> None:
    vectors = torch.randn(30, 8, generator=torch.Generator().manual_seed(0))
    bags = np.array([[1, 2, -1], [5, 6, 7]])
    actual = gradient_shares(vectors, np.array([0, 9]), bags, 0.2)
    for row, anchor in enumerate((0, 9)):
        real = [m for m in bags[row] if m >= 0]
        cosine = [float(torch.cosine_similarity(vectors[m], vectors[anchor], dim=0)) for m in real]
        weight = np.exp(np.array(cosine) / 0.2)
        np.testing.assert_allclose(actual[row, : len(real)], weight / weight.sum(), rtol=1e-4)
        assert not actual[row, len(real) :].any()


def test_through_the_curriculum_ranks_grow_and_bags_get_impure() -> None:
    curriculum = curriculum_statistics(procedure(), Supervision(), points=5)
    early, late = curriculum.purity[0].pure, curriculum.purity[-1].pure
    assert early is not None
    assert late is not None
    assert (np.diff(curriculum.rank[:, 0]) > 0).all()
    assert early[0] > late[0] + 0.3
    assert curriculum.tau[[0, -1]].tolist() == pytest.approx([0.3, 12.0])
    assert curriculum.anchors == 90


def test_vectors_of_polyps_take_the_gradient_from_wrong_members() -> None:
    tracklets = procedure()
    _, code = np.unique(tracklets.polyp.astype(str), return_inverse=True)
    known = replace(tracklets, vectors=torch.eye(9)[code])
    late = curriculum_statistics(known, Supervision(), points=2).purity[-1]
    assert late.wrong is not None
    assert late.wrong_gradient is not None
    assert late.wrong[0] > 0.2
    # a bag without any right member has to give its gradient to wrong ones, so the share is small, not zero
    assert late.wrong_gradient[0] < 0.5 * late.wrong[0]


def test_without_labels_there_are_ranks_and_no_purity() -> None:
    tracklets = procedure()
    unknown = replace(tracklets, polyp=np.full(90, "", object))
    curriculum = curriculum_statistics(unknown, Supervision(), points=3)
    assert all(purity.pure is None for purity in curriculum.purity)
    assert np.isfinite(curriculum.rank).all()


def test_nearest_bags_do_not_change_and_uniform_ones_reach_far() -> None:
    nearest = curriculum_statistics(procedure(), Supervision(sampling="nearest"), points=3)
    uniform = curriculum_statistics(procedure(), Supervision(sampling="uniform"), points=3)
    assert nearest.rank[0].tolist() == nearest.rank[-1].tolist()
    assert uniform.rank[0, 0] == pytest.approx(15, abs=1)  # of 29 others
    assert nearest.rank[0, 0] == pytest.approx(2.5, abs=0.1)


def test_the_same_seed_draws_the_same_bags_and_another_one_others() -> None:
    tracklets = procedure()
    first, again, other = (bags_at(tracklets, Supervision(), 0.8, seed)[0] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_videos_of_two_datasets_with_one_name_stay_apart(coloured: Dataset) -> None:
    tracklets = training_tracklets(coloured)
    assert set(tracklets.video) == {"test/v0", "test/v1", "test/v2"}
    assert len(tracklets.index) == len(tracklets.position) == 48
