"""Which frames and tracklets are computed together."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from polyptrace.data.tracklets import LabelFreeTracklets
from polyptrace.embed.plan import batches_by_length, blocks, make_plan, padded_rows


def of_rows(rows: list[np.ndarray]) -> LabelFreeTracklets:
    """Tracklets that have rows alone."""
    count = len(rows)
    names, numbers = np.full(count, "", object), np.zeros(count, np.int64)
    offset = np.cumsum([0, *map(len, rows)])
    return LabelFreeTracklets(
        unit=names,
        dataset=names,
        video=names,
        track=numbers,
        position=numbers,
        last=numbers,
        fps=np.zeros(count),
        row_index=np.concatenate(rows),
        offset=offset,
    )


@pytest.fixture(scope="module")
def case() -> SimpleNamespace:
    random = np.random.default_rng(0)
    rows = [np.arange(a, a + random.integers(1, 30)) for a in random.integers(0, 3000, 200)]
    return SimpleNamespace(tracklets=of_rows(rows), rows=rows, chosen=random.permutation(200)[:150])


def test_blocks_hold_every_tracklet_once_and_share_no_frame(case: SimpleNamespace) -> None:
    actual = list(blocks(case.tracklets, case.chosen, 50))
    assert sorted(np.concatenate(actual).tolist()) == sorted(case.chosen.tolist())
    frames = [set(np.concatenate([case.rows[i] for i in block]).tolist()) for block in actual]
    assert len(actual) > 5
    assert sum(map(len, frames)) == len(set.union(*frames))


def test_blocks_end_at_the_first_place_after_their_size_where_nothing_is_shared(case: SimpleNamespace) -> None:
    actual = list(blocks(case.tracklets, case.chosen, 50))
    for block, following in itertools.pairwise(actual):
        begin = min(int(case.rows[i][0]) for i in block)
        after = sorted(i for i in block if case.rows[i][0] >= begin + 50)
        assert min(int(case.rows[i][0]) for i in following) >= begin + 50
        for i in after:  # such a tracklet is here only because it shares a frame with one that began earlier
            earlier = [case.rows[j] for j in block if case.rows[j][0] < case.rows[i][0]]
            assert max(int(r[-1]) for r in earlier) >= case.rows[i][0]


def test_a_plan_gives_the_position_of_each_blocks_frames_among_all(case: SimpleNamespace) -> None:
    plan = make_plan(case.tracklets, case.chosen, 50)
    assert (np.diff(plan.frames) > 0).all()
    for block in plan.blocks:
        own = np.unique(np.concatenate([case.rows[i] for i in block.tracklets]))
        assert plan.frames[block.begin : block.end].tolist() == own.tolist()


def test_batches_by_length_never_hold_more_frames_than_allowed_unless_one_tracklet_does() -> None:
    length = np.random.default_rng(1).integers(1, 60, 300)
    chosen = np.arange(0, 300, 2)
    actual = list(batches_by_length(length, chosen, 40))
    assert sorted(np.concatenate(actual).tolist()) == chosen.tolist()
    assert all(len(batch) == 1 or len(batch) * length[batch].max() <= 40 for batch in actual)


def test_padded_rows_are_the_tracklets_own_and_then_the_first_again(case: SimpleNamespace) -> None:
    table, mask = padded_rows(case.tracklets, case.chosen[:9])
    for i, rows, real in zip(case.chosen, table, mask, strict=False):
        assert rows[real].tolist() == case.rows[i].tolist()
        assert (rows[~real] == case.rows[i][0]).all()
        assert (np.diff(real.astype(int)) <= 0).all()
