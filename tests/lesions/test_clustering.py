"""From pairwise log-odds to lesions."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from polyptrace.core.errors import UserError
from polyptrace.embed import Embeddings
from polyptrace.lesions import PairScores, clustering, fit_same, lesions, partition, weakest_link


def scores_of(count: int, seed: int, spread: float = 2.0) -> PairScores:
    """Random scores, too uncertain for groups of more than one track."""
    random = np.random.default_rng(seed)
    prior, ratio = (np.triu(random.normal(-0.5, spread / 2, (count, count)), 1) for _ in range(2))
    prior, ratio = np.minimum(prior + prior.T, 0.7), np.minimum(ratio + ratio.T, 0.7)
    apart, seconds = np.zeros((count, count), bool), random.uniform(1.0, 20.0, count)
    return PairScores(prior.astype(np.float32), ratio.astype(np.float32), apart, seconds)


def partitions(items: list[int]) -> Iterator[list[list[int]]]:
    """All partitions of a list, by recursion."""
    if not items:
        yield []
        return
    for rest in partitions(items[1:]):
        yield [[items[0]], *rest]
        for number, block in enumerate(rest):
            yield [*rest[:number], [items[0], *block], *rest[number + 1 :]]


def prior_of(scores: PairScores, one: int, other: int) -> float:
    """The prior of two tracks; that of a return grows with the ratio of their lengths."""
    prior, seconds = float(scores.prior[one, other]), scores.seconds[[one, other]]
    return prior if prior >= 0 else prior + min(math.log(2), 0.3 * math.log(seconds.max() / seconds.min() / 2))


def log_weight(scores: PairScores, block: list[int]) -> float:
    """The formula of the module, in a loop."""
    total, ordered = 0.0, sorted(block)
    for number in range(1, len(ordered)):
        track, earlier = ordered[number], ordered[:number]
        total += max(prior_of(scores, track, each) for each in earlier)
        total += float(np.mean([scores.ratio[track, each] for each in earlier]))
    return total


@pytest.mark.parametrize("seed", range(4))
def test_the_posterior_is_that_of_all_partitions(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering, "LINK", -np.inf)  # one component
    scores = scores_of(6, seed)
    every = list(partitions(list(range(6))))
    weight = np.exp([sum(log_weight(scores, block) for block in each) for each in every])
    weight /= weight.sum()
    solved = partition(scores)
    distribution = np.bincount([len(each) for each in every], weight, 7)
    np.testing.assert_allclose(solved.distribution, distribution, atol=1e-6)
    together = np.zeros((6, 6))
    for each, probability in zip(every, weight, strict=True):
        for block in each:
            together[np.ix_(block, block)] += probability
    np.testing.assert_allclose(solved.together, together, atol=1e-6)
    number = int(np.searchsorted(np.cumsum(distribution), 0.5))
    agreement = [
        sum(together[a, b] - 0.5 for block in each for a in block for b in block if a < b)
        for each in every
        if len(each) == number
    ]
    own = sum(together[a, b] - 0.5 for a in range(6) for b in range(a + 1, 6) if solved.lesion[a] == solved.lesion[b])
    assert solved.count == number
    assert own == pytest.approx(max(agreement))


def test_the_confidence_of_a_lesion_is_the_probability_of_exactly_its_tracks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering, "LINK", -np.inf)
    scores = scores_of(5, 7)
    every = list(partitions(list(range(5))))
    weight = np.exp([sum(log_weight(scores, block) for block in each) for each in every])
    solved = partition(scores)
    for lesion in range(solved.count):
        block = np.flatnonzero(solved.lesion == lesion).tolist()
        exact = sum(w for each, w in zip(every, weight, strict=True) if block in [sorted(b) for b in each])
        assert solved.confidence[lesion] == pytest.approx(exact / weight.sum(), rel=1e-4)


@pytest.mark.parametrize("count", [8, 40])
def test_simultaneous_tracks_are_never_one_lesion(count: int) -> None:
    scores = scores_of(count, 3)
    apart = np.zeros((count, count), bool)
    apart[::2, 1::2] = apart[1::2, ::2] = True
    certain = PairScores(np.full_like(scores.prior, 5.0), np.full_like(scores.ratio, 5.0), apart, scores.seconds)
    solved = partition(certain)
    assert solved.count == 2
    np.testing.assert_array_equal(solved.lesion, np.arange(count) % 2)
    solved = partition(replace(scores, simultaneous=apart))
    for lesion in range(solved.count):
        members = np.flatnonzero(solved.lesion == lesion)
        assert not apart[np.ix_(members, members)].any()


def test_one_track_is_one_lesion() -> None:
    solved = partition(PairScores(*np.zeros((2, 1, 1), np.float32), np.zeros((1, 1), bool), np.ones(1)))
    assert (solved.count, solved.interval) == (1, (1, 1))
    assert solved.confidence.tolist() == [1.0]


def test_large_components_get_an_interval() -> None:
    solved = partition(scores_of(40, 5))
    assert solved.interval[0] < solved.interval[1]
    assert solved.interval[0] <= solved.count <= solved.interval[1]
    assert solved.distribution.sum() == pytest.approx(1.0)
    assert len(solved.distribution) == 41
    exact = scores_of(6, 1)
    approximate = partition(exact, max_groups=0).distribution @ np.arange(7)  # where the exact solution is known
    assert approximate == pytest.approx(partition(exact).distribution @ np.arange(7), abs=0.8)


def test_one_unlike_view_does_not_end_a_visit(tracks: Embeddings) -> None:
    model, some = fit_same(tracks), tracks.rows(tracks.video == "v01")
    position = 60 * np.arange(len(some))
    near = replace(some, position=position, last=position + 40, vectors=np.repeat(some.vectors[:1], len(some), axis=0))
    near.vectors[3] = -near.vectors[0]
    assert lesions(near, same=model)[0].count == 1


def test_a_short_visit_is_more_often_a_return_than_a_long_one() -> None:
    visits, ratio, apart = np.full((3, 3), -0.3, np.float32), np.zeros((3, 3), np.float32), np.zeros((3, 3), bool)
    short, long = (partition(PairScores(visits, ratio, apart, np.array([50.0, 50.0, s]))) for s in (2.0, 50.0))
    assert short.distribution @ np.arange(4) < long.distribution @ np.arange(4)


def test_the_scores_of_some_tracks_are_those_of_their_pairs() -> None:
    scores, some = scores_of(6, 2), np.array([1, 4, 5])
    chosen = scores.select(some)
    assert chosen.prior[0, 2] == scores.prior[1, 5]
    assert chosen.ratio[1, 2] == scores.ratio[4, 5]
    np.testing.assert_array_equal(chosen.seconds, scores.seconds[some])


def test_the_weakest_link_is_the_bottleneck_of_the_strongest_links() -> None:
    log_odds = np.full((4, 4), -5.0)
    for a, b, value in ((0, 1, 4.0), (1, 2, 0.5), (2, 3, 3.0), (0, 3, -1.0)):
        log_odds[a, b] = log_odds[b, a] = value
    assert weakest_link(log_odds, np.arange(4)) == (1, 2, 0.5)
    assert weakest_link(log_odds, np.array([0])) is None


def test_lesions_are_counted_and_the_interval_contains_the_truth(simulate: Callable[..., Embeddings]) -> None:
    tracks = simulate(20, seed=3, noise=0.5)
    actual = lesions(tracks)
    truth = np.array([len(set(tracks.polyp[each.rows])) for each in actual])
    count = np.array([each.count for each in actual])
    assert np.abs(count - truth).mean() < 0.5
    assert np.mean([low <= n <= high for n, (low, high) in zip(truth, (f.interval for f in actual), strict=True)]) > 0.8
    assert lesions(tracks)[0].confidence.tolist() == actual[0].confidence.tolist()


def test_the_order_of_the_rows_does_not_change_the_lesions(tracks: Embeddings) -> None:
    order = np.random.default_rng(0).permutation(len(tracks))
    model = fit_same(tracks)
    for one, other in zip(lesions(tracks, same=model), lesions(tracks.rows(order), same=model), strict=True):
        np.testing.assert_array_equal(one.lesion, other.lesion)
        np.testing.assert_array_equal(one.rows, order[other.rows])


def test_all_tracks_at_once_are_as_many_lesions(tracks: Embeddings) -> None:
    some = tracks.rows(tracks.video == "v01")
    every = replace(some, position=np.zeros(len(some), np.int64), last=np.full(len(some), 99))
    actual = lesions(every)[0]
    assert actual.count == len(some)
    assert actual.interval == (len(some), len(some))
    assert actual.uncertain == ()


def test_a_single_track_needs_no_pairs(tracks: Embeddings) -> None:
    actual = lesions(tracks.rows(np.array([0])))[0]
    assert actual.count_text == "1 lesion"
    assert actual.weakest == (None,)


def test_uncertain_pairs_are_between_the_bounds_and_most_uncertain_first(simulate: Callable[..., Embeddings]) -> None:
    links = [link for each in lesions(simulate(10, seed=5)) for link in each.uncertain]
    assert links
    assert all(0.1 < link.probability < 0.9 for link in links)
    for each in lesions(simulate(10, seed=5)):
        distance = [abs(link.probability - 0.5) for link in each.uncertain]
        assert distance == sorted(distance)


def test_a_pair_has_one_probability(simulate: Callable[..., Embeddings]) -> None:
    compared = 0
    for each in lesions(simulate(10, seed=5)):
        uncertain = {(link.first, link.second): link.probability for link in each.uncertain}
        for link in each.weakest:
            pair = None if link is None else (min(link.first, link.second), max(link.first, link.second))
            if link is not None and pair in uncertain:
                compared += 1
                assert link.probability == uncertain[pair]
    assert compared > 2


def test_tracklets_alone_are_refused(tracks: Embeddings) -> None:
    with pytest.raises(UserError, match="no vectors of whole tracks"):
        lesions(replace(tracks, unit=np.full(len(tracks), "tracklet", object)))
