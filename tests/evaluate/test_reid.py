"""Re-identification against scikit-learn, on random and on adversarial vectors."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from polyptrace.core.errors import UserError
from polyptrace.evaluate import reid, similarity
from polyptrace.evaluate.reid import PairCounts
from polyptrace.evaluate.similarity import COARSE


def pairs(vectors, polyp):
    """(scores, same polyp?) of every unordered pair, one by one."""
    scores, same = [], []
    for i in range(len(vectors)):
        for j in range(i):
            lengths = np.linalg.norm(vectors[i]) * np.linalg.norm(vectors[j])
            scores.append(0.0 if lengths == 0 else round(float(vectors[i] @ vectors[j] / lengths), 11))
            same.append(polyp[i] == polyp[j])
    return np.array(scores), np.array(same)


def blobs(count, polyps, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    polyp = rng.integers(0, polyps, count)
    return rng.standard_normal((polyps, 12))[polyp] + noise * rng.standard_normal((count, 12)), polyp


small_vectors = st.integers(3, 25).flatmap(
    lambda n: st.tuples(
        st.lists(st.tuples(*[st.integers(-1, 1)] * 3), min_size=n, max_size=n),
        st.lists(st.integers(0, 3), min_size=n, max_size=n),
    )
)


@settings(deadline=None, max_examples=60)
@given(small_vectors)
def test_ties_zero_vectors_and_opposites_give_what_scikit_learn_gives(drawn):
    vectors, polyp = np.array(drawn[0], dtype=float), np.array(drawn[1])
    scores, same = pairs(vectors, polyp)
    actual = reid(vectors, polyp)
    assert (actual.same_pairs, actual.different_pairs) == (same.sum(), (~same).sum())
    if 0 < same.sum() < len(same):
        assert actual.auroc == pytest.approx(roc_auc_score(same, scores))
        assert actual.aupr == pytest.approx(average_precision_score(same, scores))


@pytest.mark.parametrize("exact", [4096, 0])
def test_random_vectors_give_what_scikit_learn_gives_on_either_grid(monkeypatch, exact):
    monkeypatch.setattr(similarity, "EXACT", exact)
    vectors, polyp = blobs(200, 15)
    scores, same = pairs(vectors, polyp)
    actual = reid(vectors, polyp)
    assert actual.auroc == pytest.approx(roc_auc_score(same, scores), abs=1e-6)
    assert actual.aupr == pytest.approx(average_precision_score(same, scores), abs=1e-6)


def test_blocks_of_any_height_give_the_same(monkeypatch):
    vectors, polyp = blobs(70, 9, seed=1)
    whole = reid(vectors, polyp)
    monkeypatch.setitem(similarity.BLOCK, "cpu", 5 * 70)  # five rows
    for exact in (4096, 0):
        monkeypatch.setattr(similarity, "EXACT", exact)
        parts = reid(vectors, polyp)
        assert (parts.same_pairs, parts.different_pairs) == (whole.same_pairs, whole.different_pairs)
        assert parts.auroc == pytest.approx(whole.auroc, abs=1e-6)
        assert parts.aupr == pytest.approx(whole.aupr, abs=1e-6)


def test_curves_are_scikit_learns_and_enclose_the_area():
    vectors, polyp = blobs(60, 6, seed=2)
    scores, same = pairs(vectors, polyp)
    actual = reid(vectors, polyp)
    false, true = actual.roc(points=10_000)
    expected_false, expected_true, _ = roc_curve(same, scores, drop_intermediate=False)
    np.testing.assert_allclose(false, expected_false)
    np.testing.assert_allclose(true, expected_true)
    recall, precision = actual.precision_recall(points=10_000)
    steps = np.diff(np.concatenate([[0.0], recall]))
    assert (steps * precision).sum() == pytest.approx(actual.aupr)


def test_thinned_curves_stay_close_and_keep_their_ends():
    vectors, polyp = blobs(300, 6, seed=3)
    actual = reid(vectors, polyp)
    false, true = actual.roc(points=200)
    assert len(false) <= 200
    assert (false[0], true[0], false[-1], true[-1]) == (0.0, 0.0, 1.0, 1.0)
    assert np.trapezoid(true, false) == pytest.approx(actual.auroc, abs=1e-3)
    recall, precision = actual.precision_recall(points=200)
    assert len(recall) <= 200
    assert recall[-1] == 1.0
    assert (np.diff(recall) >= 0).all()
    assert np.interp(0.5, recall, precision) == pytest.approx(
        np.interp(0.5, *actual.precision_recall(points=10**6)), abs=0.01
    )


def test_histograms_count_every_pair_in_its_bin():
    vectors, polyp = blobs(40, 5, seed=4)
    scores, same = pairs(vectors, polyp)
    found_same, found_different = reid(vectors, polyp).histograms()
    edges = np.linspace(-1, 1, 101)
    np.testing.assert_array_equal(found_same, np.histogram(scores[same], edges)[0])
    np.testing.assert_array_equal(found_different, np.histogram(scores[~same], edges)[0])


def test_histograms_count_pairs_whose_score_was_rounded_to_more_than_one():
    step = 1 / COARSE
    counts = PairCounts(np.array([1 + step, 0.5, -1 - step]), np.array([3, 2, 1]), np.array([4, 5, 6]))
    same, different = replace(reid(np.eye(2), ["a", "a"]), counts=counts).histograms()
    assert (same[-1], same[0], same.sum()) == (3, 1, 6)
    assert (different[-1], different[0], different.sum()) == (4, 6, 15)


def test_a_single_polyp_has_no_pair_to_tell_apart():
    actual = reid(np.random.default_rng(0).standard_normal((5, 3)), ["a"] * 5)
    assert np.isnan(actual.auroc)
    assert actual.aupr == 1.0


@pytest.mark.parametrize("polyp", [["a", "b", "c"], ["", "", ""]])
def test_without_a_same_polyp_pair_both_figures_are_undefined(polyp):
    actual = reid(np.eye(3), polyp)
    assert np.isnan([actual.auroc, actual.aupr]).all()


def test_tracklets_without_polyp_are_left_out_and_counted():
    vectors, polyp = blobs(30, 4, seed=5)
    names = np.array([f"p{code}" for code in polyp])
    names[::3] = ""
    actual, alone = reid(vectors, names), reid(vectors[names != ""], names[names != ""])
    assert (actual.auroc, actual.aupr, actual.unlabelled) == (alone.auroc, alone.aupr, 10)


def test_zero_vectors_are_counted_and_tie_with_each_other():
    actual = reid(np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]]), ["a", "a", "b"])
    assert actual.zero_vectors == 2
    assert actual.auroc == 0.5


def test_a_vector_with_nan_is_an_error_that_names_its_row():
    with pytest.raises(UserError, match="row 1 "):
        reid(np.array([[1.0], [np.nan]]), ["a", "b"])
