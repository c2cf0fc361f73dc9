from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyptrace.config import Supervision
from polyptrace.core.errors import UserError
from polyptrace.core.randomness import torch_generator
from polyptrace.supervision.bags import ranks_of
from polyptrace.supervision.batches import (
    BagBatches,
    Extents,
    anchor_count,
    epoch_batches,
    overlapping,
    separate_overlaps,
    sharing_video,
    spread_videos,
)

COMPOSITIONS = ["any", "no-overlap", "one-per-video"]


def made(sizes: list[int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Shuffled tracklets of videos of the given sizes, most of them 32 frames after each other."""
    random = np.random.default_rng(seed)
    video = np.repeat(np.arange(len(sizes)), sizes)
    step = np.where(random.random(len(video)) < 0.8, 32, random.integers(40, 3000, len(video)))
    position = np.concatenate([np.cumsum(step[video == v]) for v in range(len(sizes))])
    order = random.permutation(len(video))
    return np.array([f"video {v}" for v in video])[order], position[order]


TABLE = made([40, 31, 25, 17, 50, 33, 21, 12])  # 229 tracklets


def epoch_of(table: tuple[np.ndarray, np.ndarray], epoch: int, **settings) -> BagBatches:
    seed, tau = settings.pop("seed", 0), settings.pop("temperature", 3.0)
    return epoch_batches(
        *table,
        Supervision(**{"bags_per_batch": 6, **settings}),
        seed=seed,
        epoch=epoch,
        temperature=tau if callable(tau) else lambda *_: tau,
    )


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_over_epochs_every_tracklet_is_an_anchor_once_an_epoch_and_leftovers_open_the_next(composition: str) -> None:
    """229 = 38 x 6 + 1: one more is left over after each epoch, and after six there is none."""
    times: Counter[int] = Counter()
    left: set[int] = set()
    for epoch in range(6):
        batches = epoch_of(TABLE, epoch, composition=composition)
        anchors = batches.anchors.flatten().tolist()
        opening = set(batches.anchors[: max(len(left), 1)].flatten().tolist())
        assert left <= opening
        times.update(anchors)
        behind = {i for i in range(229) if times[i] == epoch}
        assert set(times.values()) <= {epoch, epoch + 1}
        assert len(behind) == (epoch + 1) * 229 % 6
        left = behind
    assert not left


def test_in_any_composition_what_was_left_over_is_the_first_to_come() -> None:
    first, second = epoch_of(TABLE, 0), epoch_of(TABLE, 1)
    (left,) = set(range(229)) - set(first.anchors.flatten().tolist())
    assert second.anchors[0, 0] == left


def test_an_anchor_does_not_meet_itself_where_two_epochs_join() -> None:
    table = made([7, 7])  # 14 = 2 x 6 + 2
    for seed in range(30):
        for epoch in range(3):
            for batch in epoch_of(table, epoch, seed=seed).anchors.tolist():
                assert len(set(batch)) == 6


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("sampling", ["exponential", "nearest", "uniform"])
def test_a_bag_belongs_to_its_anchor(composition: str, sampling: str) -> None:
    video, _ = TABLE
    batches = epoch_of(TABLE, 1, composition=composition, sampling=sampling)
    anchors, bags = batches.anchors, batches.bags
    assert bags.shape == (*anchors.shape, 4)
    assert (video[bags] == video[anchors][..., None]).all()
    assert (bags != anchors[..., None]).all()
    assert all(len(set(bag)) == 4 for bag in bags.reshape(-1, 4).tolist())


def test_sampling_decides_how_far_bags_reach() -> None:
    mean_rank = {}
    for sampling in ("nearest", "exponential", "uniform"):
        batches = epoch_of(TABLE, 0, sampling=sampling, temperature=6.0)
        mean_rank[sampling] = ranks_of(*TABLE, batches.anchors.flatten(), np.concatenate(batches.bags)).mean()
    assert mean_rank["nearest"] < 3 < mean_rank["exponential"] < 8 < mean_rank["uniform"]


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_the_same_seed_and_epoch_give_the_same_batches_and_others_do_not(composition: str) -> None:
    table = made([20, 16, 12])  # 48 = 8 x 6: nothing is left over
    numbers = [(seed, epoch) for seed in range(3) for epoch in range(3)]
    for what in ("anchors", "bags"):
        first, again = (
            [getattr(epoch_of(table, epoch, seed=seed, composition=composition), what) for seed, epoch in numbers]
            for _ in range(2)
        )
        assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
        assert len({tuple(a.flatten().tolist()) for a in first}) == len(numbers)


def collisions(batches: BagBatches, table: tuple[np.ndarray, np.ndarray], by_video: bool) -> int:
    """Bags that share their video, or time in it, with an earlier one of their batch, as a slow loop."""
    video, position = table
    actual = 0
    for anchors, bags in zip(batches.anchors.tolist(), batches.bags.tolist(), strict=True):
        earlier: list[tuple[str, int, int]] = []
        for anchor, bag in zip(anchors, bags, strict=True):
            when = [position[j] for j in [anchor, *bag] if j >= 0]
            v, first, last = video[anchor], min(when), max(when)
            actual += any(v == w and (by_video or (first <= b and a <= last)) for w, a, b in earlier)
            earlier.append((v, first, last))
    return actual


@pytest.mark.parametrize("temperature", [0.3, 4.0, 12.0])
def test_bags_that_overlap_in_time_never_meet_under_no_overlap(temperature: float) -> None:
    table = made([60, 45, 80, 52, 71, 64, 38, 90, 55, 66, 47, 73])
    free, parted = (
        epoch_of(table, 1, temperature=temperature, composition=composition, bags_per_batch=8)
        for composition in ("any", "no-overlap")
    )
    assert collisions(free, table, by_video=False) > 20
    assert collisions(parted, table, by_video=False) == parted.collisions == 0
    assert collisions(parted, table, by_video=True) > 20  # bags of one video still meet


def test_collisions_that_cannot_be_avoided_are_counted() -> None:
    table = made([60, 10, 10])  # 80 = 16 x 5
    by_video = epoch_of(table, 0, composition="one-per-video", bags_per_batch=5)
    assert by_video.collisions == collisions(by_video, table, by_video=True) == 60 - 16
    by_time = epoch_of(table, 0, composition="no-overlap", bags_per_batch=5, temperature=12.0)
    assert by_time.collisions == collisions(by_time, table, by_video=False) > 0


def test_one_per_video_holds_where_the_videos_allow_it() -> None:
    batches = epoch_of(TABLE, 0, composition="one-per-video", bags_per_batch=4)
    assert batches.collisions == collisions(batches, TABLE, by_video=True) == 0


def test_small_videos_have_smaller_bags_or_are_left_out() -> None:
    table = made([20, 3, 1, 5, 1])
    size = {v: (table[0] == v).sum() for v in np.unique(table[0])}
    kept = [epoch_of(table, e) for e in range(6)]
    left_out = [epoch_of(table, e, small_videos="leave-out") for e in range(6)]
    sizes = [{size[table[0][i]] for e in epochs for i in e.anchors.flatten()} for epochs in (kept, left_out)]
    assert sizes == [{20, 5, 3}, {20, 5}]
    padded = [bag for e in kept for bag in np.concatenate(e.bags) if (bag < 0).any()]
    assert padded
    assert all((bag[:2] >= 0).all() and (bag[2:] == -1).all() for bag in padded)
    assert not any((e.bags < 0).any() for e in left_out)


def test_fewer_anchors_than_bags_in_a_batch_are_refused() -> None:
    with pytest.raises(UserError, match="at most 5 bags"):
        anchor_count(np.array([3, 2, 1]), Supervision())


@pytest.mark.parametrize("small_videos", ["keep", "leave-out"])
def test_the_steps_of_an_epoch_are_known_beforehand(small_videos: str) -> None:
    sizes = [20, 3, 1, 9, 4, 30]
    table, anchors = made(sizes), anchor_count(np.array(sizes), Supervision(small_videos=small_videos))
    steps = [len(epoch_of(table, e, small_videos=small_videos).anchors) for e in range(7)]
    assert [e * anchors // 6 for e in range(8)] == [sum(steps[:e]) for e in range(8)]


def test_the_temperature_can_be_each_anchors_own() -> None:
    tau = np.where(TABLE[0] == "video 0", 1e-3, np.inf)
    batches = epoch_of(TABLE, 0, temperature=lambda anchors, _: tau[anchors])
    ranks = ranks_of(*TABLE, batches.anchors.flatten(), np.concatenate(batches.bags))
    cold = TABLE[0][batches.anchors.flatten()] == "video 0"
    assert ranks[cold].mean() < 3 < ranks[~cold].mean()


def test_the_temperature_can_change_from_batch_to_batch() -> None:
    batches = epoch_of(TABLE, 0, temperature=lambda _, batch: np.where(batch < 19, 1e-3, np.inf))
    ranks = ranks_of(*TABLE, batches.anchors.flatten(), np.concatenate(batches.bags)).reshape(38, 6, 4)
    assert ranks[:19].max() <= 4
    assert ranks[19:].mean() > 6


def clash(extents: Extents, a: int, b: int) -> bool:
    same = extents.video[a] == extents.video[b]
    return bool(same and extents.first[a] <= extents.last[b] and extents.first[b] <= extents.last[a])


def slow_overlapping(batches: np.ndarray, extents: Extents) -> int:
    """Bags that overlap with an earlier one of their batch, as a slow loop."""
    return sum(any(clash(extents, a, b) for b in batch[:i]) for batch in batches for i, a in enumerate(batch))


def made_extents(bags: int, videos: int, length: int, reach: int, seed: int = 0) -> Extents:
    """Bags in videos of the given length that reach so far on either side of their anchors."""
    random = np.random.default_rng(seed)
    anchor = random.integers(0, length, bags)
    spread = random.integers(0, reach + 1, (2, bags))
    return Extents(random.integers(0, videos, bags), anchor - spread[0], anchor + spread[1])


@settings(deadline=None, max_examples=200)
@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=8),
    bags_per_batch=st.integers(1, 6),
    seed=st.integers(0, 99),
)
def test_spreading_lets_as_few_bags_of_a_video_meet_as_possible(
    sizes: list[int], bags_per_batch: int, seed: int
) -> None:
    video = np.repeat(np.arange(len(sizes)), sizes)
    video = np.random.default_rng(seed).permutation(video)[: len(video) // bags_per_batch * bags_per_batch]
    if len(video) == 0:
        return
    steps = len(video) // bags_per_batch
    batches = spread_videos(video, steps, torch_generator(seed))
    assert sorted(batches.ravel()) == list(range(len(video)))
    assert batches.shape == (steps, bags_per_batch)
    met = sum(bags_per_batch - len(set(video[batch])) for batch in batches)
    unavoidable = sum(max(0, int(n) - steps) for n in np.bincount(video))
    assert met == unavoidable == sharing_video(batches, video)


def test_spreading_lets_videos_meet_many_others() -> None:
    """40 videos of 30 bags, 6 to a batch: each of a video's 30 batches has 5 others, drawn afresh."""
    video = np.repeat(np.arange(40), 30)
    batches = spread_videos(video, 200, torch_generator(0))
    met = [len(set(video[batches[(video[batches] == v).any(1)]].ravel())) - 1 for v in range(40)]
    assert min(met) > 30


@settings(deadline=None, max_examples=60)
@given(
    steps=st.integers(1, 12),
    bags_per_batch=st.integers(1, 6),
    videos=st.integers(1, 8),
    reach=st.integers(0, 40),
    seed=st.integers(0, 99),
)
def test_separation_exchanges_bags_and_never_adds_overlaps(
    steps: int, bags_per_batch: int, videos: int, reach: int, seed: int
) -> None:
    extents = made_extents(steps * bags_per_batch, videos, 100, reach, seed)
    before = np.arange(steps * bags_per_batch).reshape(steps, bags_per_batch)
    after = separate_overlaps(before, extents, torch_generator(seed))
    assert sorted(after.ravel()) == list(range(steps * bags_per_batch))
    pairs = [sum(clash(extents, a, b) for batch in x for a in batch for b in batch if a < b) for x in (before, after)]
    assert pairs[1] <= pairs[0]
    assert overlapping(after, extents) == slow_overlapping(after, extents)


def test_separation_removes_all_overlaps_if_possible() -> None:
    """As many videos as in the paper, bags that cover a fifth of theirs: most batches have an overlap at first."""
    extents = made_extents(2400, 27, 200, 40)
    before = np.arange(2400).reshape(200, 12)
    assert slow_overlapping(before, extents) > 150
    after = separate_overlaps(before, extents, torch_generator(0))
    assert slow_overlapping(after, extents) == 0
    assert (np.sort(extents.video[after], axis=1)[:, 1:] == np.sort(extents.video[after], axis=1)[:, :-1]).any()


def test_separation_stops_if_overlaps_cannot_be_avoided() -> None:
    everywhere = Extents(np.zeros(60, dtype=int), np.zeros(60, dtype=int), np.full(60, 100))
    batches = separate_overlaps(np.arange(60).reshape(10, 6), everywhere, torch_generator(0))
    assert overlapping(batches, everywhere) == 50
