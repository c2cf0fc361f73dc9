"""Weighted AUROC and AUPR of a draw against scikit-learn with one weight per pair."""

from importlib import import_module

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from polyptrace.evaluate import reid, similarity
from polyptrace.evaluate.bootstrap import draw_counts

reid_bootstrap = import_module("polyptrace.evaluate.reid")  # the package has a function of this name


def case(count, polyps, seed=0, width=6):
    rng = np.random.default_rng(seed)
    polyp = np.unique(rng.integers(0, polyps, count), return_inverse=True)[1]
    vectors = 0.7 * rng.standard_normal((polyps, width))[polyp] + rng.standard_normal((count, width))
    return vectors, polyp


def one_by_one(vectors, polyp, cluster, counts):
    """(AUROC, AUPR) of each draw: c_u c_v between two clusters, c_u inside one."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    i, j = np.triu_indices(len(polyp), k=1)
    score, same = np.round((unit @ unit.T)[i, j], 12), polyp[i] == polyp[j]
    actual = []
    for taken in counts:
        weight = np.where(cluster[i] == cluster[j], taken[cluster[i]], taken[cluster[i]] * taken[cluster[j]])
        actual.append(
            (
                roc_auc_score(same, score, sample_weight=weight),
                average_precision_score(same, score, sample_weight=weight),
            )
        )
    return np.array(actual).T


@pytest.mark.parametrize("clusters", ["polyps", "videos of several polyps", "videos that share polyps"])
def test_every_pair_weighs_the_product_of_its_clusters_or_the_count_of_its_only_one(clusters):
    vectors, polyp = case(60, 12)
    cluster = {
        "polyps": polyp,
        "videos of several polyps": polyp // 3,
        "videos that share polyps": np.arange(60) % 6,
    }[clusters]
    counts = draw_counts(cluster.max() + 1, 10, seed=0)
    actual = reid(vectors, polyp).draws(cluster, counts)
    np.testing.assert_allclose(actual, one_by_one(vectors, polyp, cluster, counts), atol=1e-12)


def test_ties_weigh_as_they_should():
    rng = np.random.default_rng(1)
    vectors, polyp = rng.integers(-1, 2, (40, 3)) + 0.0, np.sort(rng.integers(0, 8, 40))
    vectors[(vectors == 0).all(axis=1)] = 1.0
    polyp = np.unique(polyp, return_inverse=True)[1]
    counts = draw_counts(polyp.max() + 1, 10, seed=0)
    actual = reid(vectors, polyp).draws(polyp, counts)
    np.testing.assert_allclose(actual, one_by_one(vectors, polyp, polyp, counts), atol=1e-12)


def test_taking_every_cluster_once_gives_the_figures_themselves():
    vectors, polyp = case(80, 9, seed=2)
    whole = reid(vectors, polyp)
    auroc, aupr = whole.draws(polyp, np.ones((1, polyp.max() + 1), dtype=np.int64))
    assert (auroc[0], aupr[0]) == pytest.approx((whole.auroc, whole.aupr))


def test_tracklets_without_polyp_have_no_part_in_a_draw():
    vectors, polyp = case(60, 10, seed=3)
    names = np.array([f"p{code:02d}" for code in polyp])
    names[polyp == polyp.max()] = ""
    known = names != ""
    counts = draw_counts(polyp.max(), 5, seed=0)
    cluster = np.where(known, polyp, -1)
    actual = reid(vectors, names).draws(cluster, counts)
    np.testing.assert_allclose(actual, one_by_one(vectors[known], polyp[known], polyp[known], counts), atol=1e-12)


def test_coarse_cells_and_the_coarse_grid_stay_close_to_every_pair_weighed(monkeypatch):
    vectors, polyp = case(150, 20, seed=4)
    counts = draw_counts(polyp.max() + 1, 20, seed=0)
    expected = one_by_one(vectors, polyp, polyp, counts)
    monkeypatch.setattr(similarity, "EXACT", 0)
    monkeypatch.setattr(reid_bootstrap, "THRESHOLDS", 100)
    whole = reid(vectors, polyp)
    assert (whole.counts.same > 0).sum() > 300
    actual = whole.draws(polyp, counts)
    np.testing.assert_allclose(actual, expected, atol=2e-3)


@pytest.mark.parametrize("by_video", [False, True])
def test_with_many_clusters_the_linear_weights_give_the_same_spread(monkeypatch, by_video):
    vectors, polyp = case(400, 100, seed=5)
    cluster = polyp // 2 if by_video else polyp
    counts = draw_counts(cluster.max() + 1, 300, seed=0)
    whole = reid(vectors, polyp)
    exact = np.array(whole.draws(cluster, counts))
    monkeypatch.setattr(reid_bootstrap, "ENTRIES", 2**17)  # too few for all pairs of clusters
    linear = np.array(whole.draws(cluster, counts))
    assert not np.array_equal(exact, linear)
    np.testing.assert_allclose(linear.std(axis=1), exact.std(axis=1), rtol=0.1)
    assert np.corrcoef(linear[0], exact[0])[0, 1] > 0.97
    np.testing.assert_allclose(linear.mean(axis=1), exact.mean(axis=1), atol=0.1 * exact.std(axis=1).max())
