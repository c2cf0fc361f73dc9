"""Retrieval against a slow loop over every order of ties, scikit-learn and torchmetrics."""

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score
from torchmetrics.retrieval import RetrievalHitRate, RetrievalMAP

from polyptrace.core.errors import UserError
from polyptrace.evaluate import retrieval, similarity
from polyptrace.evaluate import retrieval as search


def cosine(a, b):
    lengths = np.sqrt((a * a).sum()) * np.sqrt((b * b).sum())
    return 0.0 if lengths == 0 else round(float((a * b).sum() / lengths), 11)


def average_precision(relevant):
    actual, total = 0, 0.0
    for position, good in enumerate(relevant, start=1):
        if good:
            actual += 1
            total += actual / position
    return total / actual


def rankings(scores):
    """Every ranking, best first, that the scores allow."""
    actual = [[]]
    for score in sorted(set(scores), reverse=True):
        tied = [item for item, s in enumerate(scores) if s == score]
        actual = [head + list(tail) for head in actual for tail in permutations(tied)]
    return actual


def one_query(scores, relevant, release):
    aps, firsts = [], []
    for ranking in rankings(scores):
        good = [relevant[item] for item in ranking]
        firsts.append(good.index(True) + 1)
        if release:
            good = [relevant[item] and scores[item] > 0 for item in ranking]
        aps.append(average_precision(good) if any(good) else 0.0)
    return np.mean(aps), np.mean(np.array(firsts) <= 1), np.mean(np.array(firsts) <= 5)


def slow_retrieval(vectors, polyp, release=False, in_gallery=lambda _query, _item: True):
    """{query: (AP, hit at 1, hit at 5)}, means over every order of tied scores."""
    figures = {}
    for i in range(len(vectors)):
        items = [j for j in range(len(vectors)) if j != i and in_gallery(i, j)]
        relevant = [polyp[j] == polyp[i] for j in items]
        if any(relevant):
            figures[i] = one_query([cosine(vectors[i], vectors[j]) for j in items], relevant, release)
    return figures


def assert_same(actual, expected):
    assert actual.query.tolist() == sorted(expected)
    values = np.array([expected[i] for i in actual.query]).reshape(-1, 3)
    np.testing.assert_allclose(np.stack([actual.ap, actual.hit1, actual.hit5], axis=1), values, atol=1e-12)


#: Vectors on a small grid: zero vectors, copies, opposite ones and ties come of themselves.
small_vectors = st.integers(2, 8).flatmap(
    lambda n: st.tuples(
        st.lists(st.tuples(st.integers(-1, 1), st.integers(-1, 1)), min_size=n, max_size=n),
        st.lists(st.integers(0, 2), min_size=n, max_size=n),
    )
)


@settings(deadline=None, max_examples=60)
@given(small_vectors, st.booleans())
def test_average_precision_and_hits_are_means_over_every_order_of_ties(drawn, release):
    vectors, polyp = np.array(drawn[0], dtype=float), np.array(drawn[1])
    actual = search(vectors, polyp, "release" if release else "standard")
    expected = slow_retrieval(vectors, polyp, release)
    assert_same(actual, expected)
    assert actual.without_positive == len(vectors) - len(expected)


def blobs(count, polyps, seed=0, width=16, noise=1.0):
    rng = np.random.default_rng(seed)
    polyp = rng.integers(0, polyps, count)
    return rng.standard_normal((polyps, width))[polyp] + noise * rng.standard_normal((count, width)), polyp


@pytest.mark.parametrize("exact", [4096, 0])
def test_without_ties_it_agrees_with_scikit_learn(monkeypatch, exact):
    monkeypatch.setattr(similarity, "EXACT", exact)
    vectors, polyp = blobs(150, 12, noise=2.0)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    scores = unit @ unit.T
    assert (scores[polyp[:, None] == polyp] < 0).mean() > 0.05  # positives below 0 count too
    actual = search(vectors, polyp)
    for i, ap, hit1, hit5 in zip(actual.query, actual.ap, actual.hit1, actual.hit5, strict=True):
        others = np.arange(len(polyp)) != i
        same = polyp[others] == polyp[i]
        assert ap == pytest.approx(average_precision_score(same, scores[i][others]), abs=1e-6)
        best = same[np.argsort(-scores[i][others])]
        assert (hit1, hit5) == (best[0], best[:5].any())
    assert actual.map == pytest.approx(actual.ap.mean())
    assert actual.hr1 == pytest.approx(actual.hit1.mean())
    assert actual.hr5 == pytest.approx(actual.hit5.mean())


def test_the_release_convention_is_what_torchmetrics_gives_on_raw_cosines():
    vectors, polyp = blobs(120, 10, seed=1, noise=3.0)
    unit = torch.nn.functional.normalize(torch.as_tensor(vectors), dim=1)
    scores = unit @ unit.T
    off = ~torch.eye(len(polyp), dtype=torch.bool)
    same = torch.as_tensor(polyp[:, None] == polyp)[off]
    query = torch.arange(len(polyp))[:, None].expand_as(off)[off]
    released = search(vectors, polyp, "release")
    assert released.map == pytest.approx(RetrievalMAP()(scores[off], same, indexes=query).item(), abs=1e-6)
    for k, value in ((1, released.hr1), (5, released.hr5)):
        assert value == pytest.approx(RetrievalHitRate(top_k=k)(scores[off], same, indexes=query).item(), abs=1e-6)
    assert released.map > search(vectors, polyp).map + 0.005  # dropping hard positives inflates mAP


def test_a_query_that_loses_all_its_positives_to_the_release_convention_has_average_precision_zero():
    vectors = np.array([[1.0, 0.0], [-1.0, 0.1], [0.9, 0.1], [-0.9, 0.3]])
    actual = search(vectors, [0, 0, 1, 1], "release")
    assert actual.ap.tolist() == [0.0] * 4
    assert (search(vectors, [0, 0, 1, 1]).ap > 0).all()


@pytest.mark.parametrize("scope", ["within", "across", "between"])
def test_the_scope_limits_the_gallery(scope):
    vectors, polyp = blobs(40, 6, seed=2)
    video = np.random.default_rng(3).integers(0, 4, 40)
    allowed = {
        "within": lambda i, j: video[i] == video[j],
        "across": lambda i, j: video[i] != video[j],
        "between": lambda i, j: polyp[i] == polyp[j] or video[i] != video[j],
    }[scope]
    actual = search(vectors, polyp, scope=scope, video=video)
    assert_same(actual, slow_retrieval(vectors, polyp, in_gallery=allowed))
    assert actual.queries + actual.without_positive == 40


def test_neighbours_closer_than_apart_are_excluded_in_their_video_only():
    vectors, polyp = blobs(40, 5, seed=4)
    rng = np.random.default_rng(5)
    video, start = rng.integers(0, 3, 40), rng.uniform(0, 60, 40)
    end = start + rng.uniform(0, 5, 40)

    def allowed(i, j):
        gap = max(0.0, start[j] - end[i], start[i] - end[j])
        return video[i] != video[j] or gap >= 10.0

    actual = search(vectors, polyp, video=video, start=start, end=end, apart=10.0)
    expected = slow_retrieval(vectors, polyp, in_gallery=allowed)
    assert_same(actual, expected)
    assert expected != slow_retrieval(vectors, polyp)


def test_blocks_of_any_height_give_the_same(monkeypatch):
    vectors, polyp = blobs(60, 7, seed=6)
    whole = search(vectors, polyp, top=3)
    monkeypatch.setitem(similarity.BLOCK, "cpu", 7 * 60)  # seven rows
    parts = search(vectors, polyp, top=3)
    for name in ("query", "ap", "hit1", "hit5", "top", "top_score"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))


def test_the_order_of_the_rows_and_the_length_of_the_vectors_do_not_matter():
    vectors, polyp = blobs(50, 6, seed=7)
    rng = np.random.default_rng(8)
    order = rng.permutation(50)
    once, again = search(vectors, polyp), search(vectors[order] * rng.uniform(0.1, 9, (50, 1)), polyp[order])
    np.testing.assert_allclose(once.ap[order], again.ap, atol=1e-12)


def test_the_nearest_rows_are_named_without_the_query():
    vectors = np.array([[1.0, 0.0], [1.0, 0.1], [1.0, 0.3], [0.0, 1.0]])
    actual = search(vectors, ["a", "a", "b", "b"], top=5)
    assert actual.top.tolist() == [[1, 2, 3, -1, -1], [0, 2, 3, -1, -1], [1, 0, 3, -1, -1], [2, 1, 0, -1, -1]]
    assert actual.top_score[0, 0] == pytest.approx(cosine(vectors[0], vectors[1]), abs=1e-6)


def test_a_single_polyp_has_average_precision_one():
    actual = search(np.random.default_rng(0).standard_normal((6, 3)), ["a"] * 6)
    assert (actual.map, actual.hr1, actual.hr5) == (1.0, 1.0, 1.0)


def test_polyps_with_one_tracklet_give_no_query_and_nan():
    actual = search(np.eye(3), ["a", "b", "c"])
    assert (actual.queries, actual.without_positive) == (0, 3)
    assert np.isnan([actual.map, actual.hr1, actual.hr5]).all()


@pytest.mark.parametrize("scope", ["all", "within"])
def test_without_labels_there_is_no_query(scope):
    actual = search(np.eye(3), ["", "", ""], scope=scope, video=["v", "v", "w"])
    assert (actual.queries, actual.without_positive, actual.unlabelled) == (0, 0, 3)


def test_tracklets_without_polyp_are_neither_query_nor_gallery():
    vectors, polyp = blobs(30, 4, seed=9)
    names = np.array([f"p{code}" for code in polyp])
    names[::3] = ""
    actual, alone = search(vectors, names, top=2), search(vectors[names != ""], names[names != ""])
    np.testing.assert_array_equal(actual.ap, alone.ap)
    assert actual.unlabelled == 10
    assert (names[actual.top] != "").all()


def test_a_zero_vector_has_cosine_zero_and_ranks_between_positive_and_negative_scores():
    vectors = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 0.2], [-1.0, 0.2]])
    actual = search(vectors, ["a", "a", "b", "b"])
    assert actual.zero_vectors == 1
    assert actual.ap[0] == pytest.approx(1 / 2)
    assert actual.ap[1] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)  # a tie of three, one of them positive


def test_wrong_arguments_are_errors():
    with pytest.raises(UserError, match="convention"):
        search(np.eye(2), [0, 0], "new")
    with pytest.raises(UserError, match="scope"):
        search(np.eye(2), [0, 0], scope="near")
    with pytest.raises(UserError, match="video"):
        search(np.eye(2), [0, 0], scope="within")
    with pytest.raises(UserError, match="start and end"):
        search(np.eye(2), [0, 0], apart=1.0, video=[0, 0])
    with pytest.raises(UserError, match="seconds"):
        search(np.eye(2), [0, 0], apart=1.0, video=[0, 0], start=[0.0, np.nan], end=[1.0, 1.0])


def test_the_public_name_is_the_function():
    assert retrieval(np.eye(2), [0, 0]).map == 1.0
