import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from polyptrace.supervision import nearest_bags
from polyptrace.supervision.ranks import neighbours, ranks_of, tie_at, timeline

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
            places = [*range(tie.before_begin[0], tie.before_end[0]), *range(tie.after_begin[0], tie.after_end[0])]
            want = {j for j in others if abs(position[j] - position[anchor]) == distance}
            assert len(places) == len(want)
            assert set(line.index[places]) == want
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
