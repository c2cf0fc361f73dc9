import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from polyptrace.core.errors import UserError
from polyptrace.core.randomness import torch_generator
from polyptrace.supervision import nearest_bags, sample_bags
from polyptrace.supervision.bags import draw_ranks, neighbours, ranks_of, tie_at, timeline

#: Few videos and few positions, so that ties, runs and videos of one tracklet abound.
tracklets = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6).map(lambda n: 32 * n)), min_size=1, max_size=24)


def others_in_order(table: list[tuple[int, int]], anchor: int) -> list[int]:
    """The other tracklets of the anchor's video by (distance, index), as a slow loop."""
    video, position = table[anchor]
    others = [j for j, (v, _) in enumerate(table) if v == video and j != anchor]
    return sorted(others, key=lambda j: (abs(table[j][1] - position), j))


@settings(deadline=None, max_examples=150)
@given(table=tracklets)
def test_all_neighbours_come_in_order_of_distance_and_index(table: list[tuple[int, int]]) -> None:
    video, position = zip(*table, strict=True)
    everyone = neighbours(timeline(video, position), np.arange(len(table)), len(table))
    for anchor, row in enumerate(everyone):
        want = others_in_order(table, anchor)
        assert row.tolist() == want + [-1] * (len(table) - len(want))


@settings(deadline=None, max_examples=150)
@given(table=tracklets)
def test_a_tie_holds_all_tracklets_at_the_distance_of_a_rank_and_no_other(table: list[tuple[int, int]]) -> None:
    video, position = zip(*table, strict=True)
    line = timeline(video, position)
    for anchor in range(len(table)):
        others = others_in_order(table, anchor)
        for rank, other in enumerate(others, start=1):
            distance = abs(position[other] - position[anchor])
            tie = tie_at(line, line.slot[[anchor]], np.array([rank]))
            indices = [*range(tie.before_begin[0], tie.before_end[0]), *range(tie.after_begin[0], tie.after_end[0])]
            want = {j for j in others if abs(position[j] - position[anchor]) == distance}
            assert len(indices) == len(want)
            assert set(line.index[indices]) == want
            assert tie.distance[0] == distance


@settings(deadline=None, max_examples=100)
@given(table=tracklets)
def test_tied_members_share_the_mean_of_their_ranks(table: list[tuple[int, int]]) -> None:
    video, position = zip(*table, strict=True)
    bags = nearest_bags(video, position, 5)
    got = ranks_of(video, position, np.arange(len(table)), bags)
    for anchor in range(len(table)):
        distances = [abs(position[j] - position[anchor]) for j in others_in_order(table, anchor)]
        for k in range(5):
            if bags[anchor, k] < 0:
                assert np.isnan(got[anchor, k])
            else:
                same = [r for r, d in enumerate(distances, start=1) if d == distances[k]]
                assert got[anchor, k] == np.mean(same)


def test_videos_can_be_names_numbers_or_tensors() -> None:
    position = [0, 10, 25, 0, 40]
    names = np.array(["a", "a", "b", "b", "a"], dtype=object)
    want = [[1, 4], [0, 4], [3, -1], [2, -1], [1, 0]]
    assert nearest_bags(names, position, 2).tolist() == want
    assert nearest_bags(names.astype(str), np.array(position), 2).tolist() == want
    assert nearest_bags(torch.tensor([7, 7, -3, -3, 7]), torch.tensor(position), 2).tolist() == want


def test_positions_can_be_seconds() -> None:
    assert nearest_bags([0, 0, 0], [0.0, 0.5, 0.75], 1).tolist() == [[1], [2], [1]]


def test_no_tracklets_have_no_neighbours() -> None:
    assert nearest_bags([], [], 4).shape == (0, 4)


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="one length"):
        nearest_bags([0, 0, 1], [5, 6], 2)


TEMPERATURES = [0.3, 1.0, 4.0, 12.0, math.inf]


def probability(ranks: tuple[int, ...], others: int, temperature: float) -> float:
    """Of drawing these ranks in this order, without replacement, from P(r) ∝ exp(-r/τ)."""
    weight = {r: math.exp(-(r - 1) / temperature) for r in range(1, others + 1)}
    chance = 1.0
    for rank in ranks:
        chance *= weight[rank] / sum(weight.values())
        del weight[rank]
    return chance


def goodness(counts: dict[tuple[int, ...], int], chances: dict[tuple[int, ...], float]) -> float:
    """The p-value of the chi-square test, outcomes that are expected less than five times taken together."""
    draws = sum(counts.values())
    assert set(counts) <= set(chances)
    often = [outcome for outcome, chance in chances.items() if chance * draws >= 5]
    rare = draws - sum(counts.get(outcome, 0) for outcome in often)
    rare_expected = draws - sum(chances[outcome] * draws for outcome in often)
    observed, expected = [counts.get(o, 0) for o in often], [chances[o] * draws for o in often]
    if rare_expected >= 5:
        observed, expected = [*observed, rare], [*expected, rare_expected]
    else:
        assert rare <= 30
        observed[0], expected[0] = observed[0] + rare, expected[0] + rare_expected
    return float(chisquare(observed, expected).pvalue) if len(observed) > 1 else 1.0


def count(rows: np.ndarray) -> dict[tuple[int, ...], int]:
    outcomes, times = np.unique(rows, axis=0, return_counts=True)
    return {tuple(map(int, outcome)): int(n) for outcome, n in zip(outcomes, times, strict=True)}


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_successive_draws_have_their_exact_probabilities(temperature: float) -> None:
    """Many copies of a video of six tracklets: the first one's rank r is tracklet r, without ties."""
    copies, position = 30_000, [0, 1, 3, 7, 15, 31]
    video = np.repeat(np.arange(copies), 6)
    bags = sample_bags(video, np.tile(position, copies), 3, temperature, torch_generator(1)).numpy()
    drawn = bags[::6] - 6 * np.arange(copies)[:, None]
    chances = {order: probability(order, 5, temperature) for order in itertools.permutations(range(1, 6), 3)}
    assert sum(chances.values()) == pytest.approx(1)
    assert goodness(count(drawn), chances) > 1e-3


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("bag_size", [1, 2, 4])
def test_drawn_subsets_have_their_exact_probabilities(temperature: float, bag_size: int) -> None:
    """An anchor in the middle of its video, where the two sides take turns: ranks 1..6 are 3, 1, 4, 5, 0, 6."""
    copies, position, rank_of = 12_000, [0, 80, 100, 110, 125, 190, 280], {3: 1, 1: 2, 4: 3, 5: 4, 0: 5, 6: 6}
    video = np.repeat(np.arange(copies), 7)
    bags = sample_bags(video, np.tile(position, copies), bag_size, temperature, torch_generator(2)).numpy()
    drawn = bags[2::7] - 7 * np.arange(copies)[:, None]
    drawn = np.sort(np.vectorize(rank_of.__getitem__)(drawn), axis=1)
    chances = {
        subset: sum(probability(order, 6, temperature) for order in itertools.permutations(subset))
        for subset in itertools.combinations(range(1, 7), bag_size)
    }
    assert goodness(count(drawn), chances) > 1e-3


@pytest.mark.parametrize(("others", "temperature"), [(3, 0.3), (40, 0.3), (40, 7.0), (700, 12.0), (700, 1e6)])
def test_the_first_rank_inverts_the_exact_distribution(others: int, temperature: float) -> None:
    """Uniform numbers on a fine grid, not random ones: each rank's share is then right to the step of the grid."""
    steps = 1_000_000
    grid = (np.arange(steps) + 0.5)[None] / steps
    ranks = draw_ranks(np.full(steps, others), np.full(steps, 1 / temperature), np.zeros_like(grid), grid)
    share = np.bincount(ranks[0], minlength=others + 1)[1:] / steps
    weight = np.exp(-np.arange(others) / temperature)
    np.testing.assert_allclose(share, weight / weight.sum(), atol=2 / steps)


@pytest.mark.parametrize(("others", "temperature"), [(5, 0.3), (300, 12.0), (5000, 12.0), (5000, 1e7)])
def test_no_probability_is_off_by_a_billionth(others: int, temperature: float) -> None:
    """The uniform number at which one rank gives way to the next, in closed form, to 1e-10 on either side."""
    border = np.expm1(-np.arange(1, others) / temperature) / np.expm1(-others / temperature)
    rank = np.arange(1, others)[np.diff(border, prepend=0) > 1e-9]
    border = border[rank - 1]
    for shift, want in ((-1e-10, rank), (1e-10, rank + 1)):
        inside = (border + shift)[None]
        drawn = draw_ranks(
            np.full(len(rank), others), np.full(len(rank), 1 / temperature), np.zeros_like(inside), inside
        )
        assert len(rank) > 3
        assert (drawn[0] == want).mean() == 1


@pytest.mark.parametrize("temperature", [0.3, 5.0, 1e9])
def test_the_second_rank_inverts_the_exact_distribution_given_the_first(temperature: float) -> None:
    """The gap is chosen at its exact share of what is left: just below and just above the border between two gaps."""
    others, first = 9, 4
    weight = np.exp(-(np.arange(1, others + 1)) / temperature)
    reach = np.cumsum(weight) / weight.sum()
    inside_first = np.array([(reach[first - 2] + reach[first - 1]) / 2] * 2)  # draws rank 4
    border = weight[: first - 1].sum() / (weight.sum() - weight[first - 1])
    gap = np.stack([np.zeros(2), border * (1 + np.array([-1e-12, 1e-12]))])
    inside = np.stack([inside_first, np.full(2, 0.999999)])
    ranks = draw_ranks(np.full(2, others), np.full(2, 1 / temperature), gap, inside)
    assert ranks[0].tolist() == [first, first]
    assert ranks[1, 0] < first < ranks[1, 1]


def test_the_neighbours_before_and_after_are_drawn_equally_often() -> None:
    copies = 20_000
    video, position = np.repeat(np.arange(copies), 3), np.tile([0, 32, 64], copies)
    first = sample_bags(video, position, 2, 0.01, torch_generator(3))[1::3, 0].numpy() - 3 * np.arange(copies)
    assert set(first) == {0, 2}
    assert chisquare(np.bincount(first)[[0, 2]]).pvalue > 1e-3


def test_all_orders_of_a_tie_are_equally_likely() -> None:
    """Two tracklets start 32 frames before the anchor and three after it: ranks 1..5 are any order of them."""
    copies = 24_000
    video, position = np.repeat(np.arange(copies), 6), np.tile([0, 64, 32, 0, 64, 64], copies)
    bags = sample_bags(video, position, 3, 0.05, torch_generator(4)).numpy()
    drawn = bags[2::6] - 6 * np.arange(copies)[:, None]
    orders = list(itertools.permutations([0, 1, 3, 4, 5], 3))
    assert goodness(count(drawn), dict.fromkeys(orders, 1 / len(orders))) > 1e-3


@settings(deadline=None, max_examples=150)
@given(
    table=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9).map(lambda n: 32 * n)), min_size=1, max_size=30),
    bag_size=st.integers(1, 6),
    temperature=st.sampled_from([1e-3, 0.3, 2.0, 12.0, 1e9, math.inf]),
    seed=st.integers(0, 99),
)
def test_a_bag_holds_distinct_others_of_the_anchors_video_and_is_full_when_it_can_be(
    table: list[tuple[int, int]], bag_size: int, temperature: float, seed: int
) -> None:
    video, position = (np.array(column) for column in zip(*table, strict=True))
    bags = sample_bags(video, position, bag_size, temperature, torch_generator(seed))
    assert bags.dtype == torch.int64
    for anchor, bag in enumerate(bags.tolist()):
        others = set(np.flatnonzero(video == video[anchor]).tolist()) - {anchor}
        size = min(bag_size, len(others))
        assert bag[size:] == [-1] * (bag_size - size)
        assert len(set(bag[:size])) == size
        assert set(bag[:size]) <= others


@settings(deadline=None, max_examples=50)
@given(
    positions=st.lists(st.integers(0, 9).map(lambda n: 32 * n), min_size=1, max_size=20),
    seed=st.integers(0, 99),
)
def test_at_a_very_low_temperature_the_nearest_come_first(positions: list[int], seed: int) -> None:
    position = np.array(positions)
    video = np.zeros_like(position)
    cold, nearest = sample_bags(video, position, 4, 1e-3, torch_generator(seed)), nearest_bags(video, position, 4)
    for anchor in range(len(position)):
        real = nearest[anchor] >= 0
        distance = [np.abs(position[bag[anchor][real].numpy()] - position[anchor]) for bag in (cold, nearest)]
        assert distance[0].tolist() == distance[1].tolist()


def test_each_tracklet_can_have_its_own_temperature() -> None:
    copies = 2_000
    position = np.tile(np.arange(50) ** 2, copies // 50)
    video = np.repeat(np.arange(copies // 50), 50)
    tau = torch.full((copies,), 1e-3)
    tau[1::2] = math.inf
    bags = sample_bags(video, position, 4, tau, torch_generator(5)).numpy()
    distance = np.abs(position[bags] - position[:, None])
    nearest = np.abs(position[nearest_bags(video, position, 4).numpy()] - position[:, None])
    np.testing.assert_array_equal(distance[::2], nearest[::2])
    assert distance[1::2].mean() > 10 * nearest[1::2].mean()


def test_uniform_bags_draw_every_other_tracklet_equally_often() -> None:
    copies = 10_000
    video, position = np.repeat(np.arange(copies), 6), np.tile([0, 1, 2, 3, 4, 5], copies)
    drawn = sample_bags(video, position, 2, math.inf, torch_generator(6))[::6].numpy() - 6 * np.arange(copies)[:, None]
    pairs = list(itertools.permutations(range(1, 6), 2))
    assert goodness(count(drawn), dict.fromkeys(pairs, 1 / len(pairs))) > 1e-3


def test_the_same_generator_gives_the_same_bags_and_another_gives_others() -> None:
    video, position = np.zeros(500, dtype=int), np.arange(500) * 32
    first, again, other = (sample_bags(video, position, 4, 12.0, torch_generator(seed)) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_rows_in_any_order_give_bags_of_the_same_spread() -> None:
    """A shuffled table must be understood: its bags are as near in time as those of the table in order."""
    position = np.tile(np.arange(200) * 32, 20)
    video = np.repeat(np.arange(20), 200)
    order = np.random.default_rng(0).permutation(len(video))
    ordered = sample_bags(video, position, 4, 3.0, torch_generator(7)).numpy()
    shuffled = sample_bags(video[order], position[order], 4, 3.0, torch_generator(7)).numpy()
    distance = np.abs(position[ordered] - position[:, None]).mean()
    moved = np.abs(position[order][shuffled] - position[order][:, None]).mean()
    assert moved == pytest.approx(distance, rel=0.05)
    assert (video[order][shuffled] == video[order][:, None]).all()


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan])
def test_a_temperature_that_is_not_above_zero_is_refused(temperature: float) -> None:
    with pytest.raises(UserError, match="tau_min"):
        sample_bags([0, 0], [0, 1], 1, temperature, torch_generator(0))


def test_temperatures_for_another_number_of_tracklets_are_refused() -> None:
    with pytest.raises(ValueError, match="must be one number"):
        sample_bags([0, 0], [0, 1], 1, torch.ones(3), torch_generator(0))
