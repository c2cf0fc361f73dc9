import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from polyptrace.core.randomness import torch_generator
from polyptrace.supervision.composition import (
    Extents,
    deal_one_per_video,
    overlapping,
    part_overlaps,
    sharing_video,
)


def clash(extents: Extents, a: int, b: int) -> bool:
    same = extents.video[a] == extents.video[b]
    return bool(same and extents.first[a] <= extents.last[b] and extents.first[b] <= extents.last[a])


def late_comers(batches: np.ndarray, extents: Extents) -> int:
    """Bags that overlap with an earlier one of their batch, the slow way."""
    return sum(any(clash(extents, a, b) for b in batch[:i]) for batch in batches for i, a in enumerate(batch))


def made(bags: int, videos: int, length: int, reach: int, seed: int = 0) -> Extents:
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
def test_dealing_lets_as_few_bags_of_a_video_meet_as_possible(sizes: list[int], bags_per_batch: int, seed: int) -> None:
    video = np.repeat(np.arange(len(sizes)), sizes)
    video = np.random.default_rng(seed).permutation(video)[: len(video) // bags_per_batch * bags_per_batch]
    if len(video) == 0:
        return
    steps = len(video) // bags_per_batch
    batches = deal_one_per_video(video, steps, torch_generator(seed))
    assert sorted(batches.ravel()) == list(range(len(video)))
    assert batches.shape == (steps, bags_per_batch)
    met = sum(bags_per_batch - len(set(video[batch])) for batch in batches)
    unavoidable = sum(max(0, int(n) - steps) for n in np.bincount(video))
    assert met == unavoidable == sharing_video(batches, video)


def test_dealing_lets_videos_meet_many_others() -> None:
    """40 videos of 30 bags, 6 to a batch: each of a video's 30 batches has 5 others, drawn afresh."""
    video = np.repeat(np.arange(40), 30)
    batches = deal_one_per_video(video, 200, torch_generator(0))
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
def test_parting_exchanges_bags_and_never_makes_more_overlap(
    steps: int, bags_per_batch: int, videos: int, reach: int, seed: int
) -> None:
    extents = made(steps * bags_per_batch, videos, 100, reach, seed)
    before = np.arange(steps * bags_per_batch).reshape(steps, bags_per_batch)
    after = part_overlaps(before, extents, torch_generator(seed))
    assert sorted(after.ravel()) == list(range(steps * bags_per_batch))
    pairs = [sum(clash(extents, a, b) for batch in x for a in batch for b in batch if a < b) for x in (before, after)]
    assert pairs[1] <= pairs[0]
    assert overlapping(after, extents) == late_comers(after, extents)


def test_parting_ends_with_no_overlap_where_there_is_room() -> None:
    """As many videos as in the paper, bags that cover a fifth of theirs: most batches have an overlap at first."""
    extents = made(2400, 27, 200, 40)
    before = np.arange(2400).reshape(200, 12)
    assert late_comers(before, extents) > 150
    after = part_overlaps(before, extents, torch_generator(0))
    assert late_comers(after, extents) == 0
    assert (np.sort(extents.video[after], axis=1)[:, 1:] == np.sort(extents.video[after], axis=1)[:, :-1]).any()


def test_parting_gives_up_where_there_is_no_room() -> None:
    everywhere = Extents(np.zeros(60, dtype=int), np.zeros(60, dtype=int), np.full(60, 100))
    batches = part_overlaps(np.arange(60).reshape(10, 6), everywhere, torch_generator(0))
    assert overlapping(batches, everywhere) == 50
