"""The bootstrap: what a draw is, and coverage and type I error on simulated data."""

import numpy as np
import pytest
from scipy import stats

from polyptrace.evaluate import reid, retrieval
from polyptrace.evaluate.bootstrap import Estimate, draw_counts, holm, interval, mean_draws, nested_draws, paired


def test_a_draw_takes_as_many_clusters_as_there_are_and_each_equally_often():
    counts = draw_counts(20, 4000, seed=0)
    assert (counts.sum(axis=1) == 20).all()
    np.testing.assert_allclose(counts.mean(axis=0), 1.0, atol=0.06)
    np.testing.assert_allclose(counts.var(axis=0), 1 - 1 / 20, atol=0.1)


def test_the_same_seed_gives_the_same_draws_and_another_does_not():
    assert (draw_counts(9, 5, seed=3) == draw_counts(9, 5, seed=3)).all()
    assert (draw_counts(9, 5, seed=3) != draw_counts(9, 5, seed=4)).any()


def test_a_weighed_mean_is_the_mean_of_that_many_copies():
    rng = np.random.default_rng(0)
    values, cluster, counts = rng.random(30), rng.integers(0, 6, 30), draw_counts(6, 8, seed=1)
    for taken, actual in zip(counts, mean_draws(values, cluster, counts), strict=True):
        copies = np.concatenate([np.repeat(values[cluster == c], taken[c]) for c in range(6)])
        assert actual == pytest.approx(copies.mean())


def test_a_draw_without_any_of_the_values_is_undefined_and_left_out_of_the_interval():
    counts = np.array([[2, 0], [0, 2], [1, 1]])
    actual = mean_draws(np.array([0.5]), np.array([0]), counts)
    np.testing.assert_array_equal(actual, [0.5, np.nan, 0.5])
    assert interval(actual, clusters=2) == (0.5, 0.5)


def test_repeats_are_drawn_outside_and_clusters_inside():
    rng = np.random.default_rng(0)
    inside = 0.1 * rng.standard_normal(4000)
    repeats = np.array([-1.0, 0.0, 1.0])
    nested = nested_draws(repeats[:, None] + inside, seed=1)
    assert nested.mean() == pytest.approx(0.0, abs=0.03)
    assert nested.var() == pytest.approx(0.1**2 + repeats.var(ddof=1) / 3, rel=0.1)
    assert nested_draws(inside[None], seed=1) == pytest.approx(inside)


@pytest.mark.parametrize("repeats", [2, 3, 5, 10])
def test_drawn_means_vary_as_the_means_of_as_many_repeats_do(repeats: int):
    rng = np.random.default_rng(repeats)
    drawn = [nested_draws(np.tile(rng.standard_normal((repeats, 1)), 200), seed=each).var() for each in range(2000)]
    assert np.mean(drawn) == pytest.approx(1 / repeats, rel=0.06)


def test_clusters_and_repeats_are_drawn_independently():
    counts = draw_counts(3, 2000, seed=0)
    nested = nested_draws(np.repeat(np.arange(3.0)[:, None], 2000, axis=1), seed=0)
    assert abs(np.corrcoef(nested, counts @ np.arange(3))[0, 1]) < 0.1


def test_the_interval_of_many_clusters_is_between_the_usual_percentiles_and_of_few_wider():
    draws = np.random.default_rng(0).standard_normal(50_000)
    assert interval(draws, clusters=10**6) == pytest.approx((-1.96, 1.96), abs=0.05)
    reach = np.sqrt(10 / 9) * stats.t.ppf(0.975, 9)
    assert interval(draws, clusters=10) == pytest.approx((-reach, reach), abs=0.08)


def test_one_cluster_has_no_interval():
    assert np.isnan(interval(np.ones(10), clusters=1)).all()
    assert np.isnan(interval(np.full(10, np.nan), clusters=5)).all()


def test_holm_multiplies_by_what_is_left_and_never_falls():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def single(value, draws, clusters):
    """The estimate of one training seed."""
    return Estimate(np.array([value]), np.asarray(draws)[None], clusters)


def test_equal_draws_do_not_differ():
    estimate = single(0.5, np.random.default_rng(0).random(100), clusters=20)
    result = paired(estimate, estimate)
    assert (result.difference, result.p) == (0.0, 1.0)


def test_a_difference_that_is_the_same_on_every_draw_is_certain():
    one, other = (Estimate(np.array([value]), np.full((1, 50), value), 10) for value in (1.0, 0.0))
    assert paired(one, other).p == 0
    assert paired(one, one).p == 1
    single_draws = (Estimate(each.values, each.draws[:, :1], 10) for each in (one, other))
    assert paired(*single_draws).p == 1  # says nothing about the variance


def test_a_paired_test_detects_a_difference_that_separate_intervals_hide():
    rng = np.random.default_rng(0)
    shared = rng.standard_normal(1000)
    one, other = (
        single(0.3, 0.3 + shared, clusters=40),
        single(0.0, shared + 0.05 * rng.standard_normal(1000), clusters=40),
    )
    assert one.interval()[0] < other.interval()[1]
    result = paired(one, other)
    assert result.low > 0
    assert result.p < 1e-4


def test_the_interval_of_a_difference_excludes_0_exactly_when_p_is_below_5_per_cent():
    random = np.random.default_rng(0)
    significant = []
    for shift in np.linspace(0, 6, 40):  # skewed draws of few clusters, where percentiles and a t test would disagree
        draws = random.exponential(1.0, (1, 500))
        one, other = Estimate(np.array([shift]), draws, 5), Estimate(np.zeros(1), np.zeros((1, 500)), 5)
        result = paired(one, other)
        assert (result.p < 0.05) == (result.low > 0)
        significant.append(result.p < 0.05)
    assert 0 < sum(significant) < len(significant)


def test_one_seed_has_the_interval_of_its_clusters():
    draws = np.random.default_rng(0).gamma(2.0, size=1000)
    assert single(2.0, draws, clusters=19).interval() == interval(draws, clusters=19)
    assert single(2.0, draws, clusters=19).seed_part[0] == 0.0


def test_seeds_alone_give_the_t_interval_and_the_welch_test():
    rng = np.random.default_rng(3)
    values, others = rng.standard_normal(3), rng.standard_normal(5)
    constant = 1e-6 * rng.standard_normal(500)
    one, other = (Estimate(v, v[:, None] + constant, clusters=19) for v in (values, others))
    low, high = stats.t.interval(0.95, 2, values.mean(), stats.sem(values))
    assert one.interval() == pytest.approx((low, high), abs=1e-4)
    expected = stats.ttest_ind(values, others, equal_var=False)
    assert paired(one, other).p == pytest.approx(expected.pvalue, rel=1e-4)


def test_clusters_and_seeds_have_welch_satterthwaite_degrees_of_freedom():
    rng = np.random.default_rng(0)
    values, inside = np.array([-1.0, 0.0, 1.2]), rng.standard_normal(20_000)
    estimate = Estimate(values, values[:, None] + inside, clusters=19)
    of_clusters, of_seeds = inside.var() * 19 / 18, values.var(ddof=1) / 3
    assert estimate.seed_part == (pytest.approx(of_seeds), 2)
    total = of_clusters + of_seeds
    degrees = total**2 / (of_clusters**2 / 18 + of_seeds**2 / 2)
    expected = 2 * stats.t.sf(estimate.value / np.sqrt(total), degrees)
    zero = single(0.0, np.zeros(20_000), clusters=19)
    assert paired(estimate, zero).p == pytest.approx(expected, rel=1e-6)
    half = stats.t.ppf(0.975, degrees) * np.sqrt(total)
    assert estimate.interval() == pytest.approx((estimate.value - half, estimate.value + half), abs=0.1)


def test_the_interaction_of_seeds_and_clusters_is_not_counted_twice():
    rng = np.random.default_rng(0)
    clusters, seeds, totals = 19, 5, []
    counts = draw_counts(clusters, 400, seed=0)
    for _ in range(300):
        each = rng.standard_normal((seeds, clusters))  # nothing but interaction: var of the mean = 1 / (S C)
        draws = np.stack([mean_draws(row, np.arange(clusters), counts) for row in each])
        estimate = Estimate(each.mean(axis=1), draws, clusters)
        totals.append(estimate.mean_draws.var() * 19 / 18 + estimate.seed_part[0])
    assert 0.9 < np.mean(totals) * seeds * clusters < 1.4  # 2 without the subtraction


def procedure(seed, polyps=30, width=8):
    """Tracklets of polyps that are not equally hard to recognise, two to five of each."""
    rng = np.random.default_rng([seed, polyps])
    polyp = np.repeat(np.arange(polyps), rng.integers(2, 6, polyps))
    hard = rng.uniform(0.3, 1.5, polyps)[polyp, None]
    centre = rng.standard_normal((polyps, width))[polyp]

    def views():
        return centre + hard * rng.standard_normal((len(polyp), width))

    return views, polyp


def test_intervals_cover_the_expected_figure_about_as_often_as_they_say():
    values, bounds = [], []
    for seed in range(80):
        views, polyp = procedure(seed)
        vectors, counts = views(), draw_counts(30, 150, seed)
        actual, judged = retrieval(vectors, polyp), reid(vectors, polyp)
        draws = [
            mean_draws(actual.ap, polyp[actual.query], counts),
            mean_draws(actual.hit1, polyp[actual.query], counts),
            *judged.draws(polyp, counts),
        ]
        values.append([actual.map, actual.hr1, judged.auroc, judged.aupr])
        bounds.append([interval(each, clusters=30) for each in draws])
    truth, bounds = np.mean(values, axis=0), np.array(bounds)
    covered = ((bounds[..., 0] <= truth) & (truth <= bounds[..., 1])).mean(axis=0)
    assert (covered > 0.87).all(), covered
    assert (covered < 0.995).all(), covered


def test_two_embeddings_that_are_equally_good_differ_about_as_often_as_they_may():
    differ = []
    for seed in range(80):
        views, polyp = procedure(seed)
        counts = draw_counts(30, 150, seed)
        actual = [retrieval(views(), polyp) for _ in range(2)]
        draws = [mean_draws(one.ap, polyp[one.query], counts) for one in actual]
        one, other = (single(each.map, drawn, clusters=30) for each, drawn in zip(actual, draws, strict=True))
        differ.append(paired(one, other).p < 0.05)
    assert 0.0 < np.mean(differ) < 0.12, np.mean(differ)
