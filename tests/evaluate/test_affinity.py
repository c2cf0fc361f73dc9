"""Affinity propagation of many matrices at once against scikit-learn, one by one."""

import warnings

import numpy as np
import pytest
from sklearn.cluster import AffinityPropagation
from sklearn.metrics import adjusted_rand_score

from polyptrace.evaluate import affinity
from polyptrace.evaluate.affinity import affinity_propagation


def theirs(similarity, preference):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = AffinityPropagation(
            affinity="precomputed",
            damping=0.9,
            max_iter=500,
            convergence_iter=50,
            preference=preference,
            random_state=0,
        ).fit(similarity)
    labels = found.labels_
    return np.arange(len(labels)) if (labels < 0).all() else labels


def tracks(count, seed):
    """Cosines of a few groups, not quite symmetric, so that no tie is left to chance."""
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((4, 16))[rng.integers(0, 4, count)] + 0.5 * rng.standard_normal((count, 16))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors @ vectors.T + 1e-3 * rng.standard_normal((count, count))


@pytest.mark.parametrize("count", [2, 3, 5, 12, 30])
def test_clusters_are_scikit_learns(count):
    preferences = np.linspace(-5, 5, 11)
    for seed in range(3):
        similarity = tracks(count, [seed, count])
        found = affinity_propagation(np.repeat(similarity[None], 11, axis=0), preferences)
        for labels, preference in zip(found, preferences, strict=True):
            assert adjusted_rand_score(labels, theirs(similarity, preference)) == 1.0


def test_matrices_do_not_disturb_each_other(monkeypatch):
    similarity = np.stack([tracks(10, seed) for seed in range(4)])
    preference = np.array([-3.0, 0.0, 0.3, 1.0])
    together = affinity_propagation(similarity, preference)
    monkeypatch.setattr(affinity, "ENTRIES", 100)
    np.testing.assert_array_equal(together, affinity_propagation(similarity, preference))


def test_tracks_that_nothing_tells_apart_are_one_cluster_unless_each_prefers_itself():
    equal = np.full((2, 3, 3), 0.4)
    assert affinity_propagation(equal, np.array([0.4, 0.5])).tolist() == [[0, 0, 0], [0, 1, 2]]


def test_a_single_track_is_a_cluster():
    assert affinity_propagation(np.ones((2, 1, 1)), np.array([-1.0, 1.0])).tolist() == [[0], [0]]


def test_two_equal_pairs_settle():
    similarity = np.array([[1, 0.9, 0, 0], [0.9, 1, 0, 0], [0, 0, 1, 0.9], [0, 0, 0.9, 1]])
    assert affinity_propagation(similarity[None], np.array([0.5])).tolist() == [[0, 0, 1, 1]]
