from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from polyptrace.data import Boxes, cut_tracklets
from polyptrace.synthetic import Preset
from polyptrace.synthetic.workflow import Look, plan_looks, renewal_after, tracklets_in


def plan(preset: Preset, sites: list[list[int]], seed: int = 0, **difficulty: float) -> list[Look]:
    changed = replace(preset, difficulty=replace(preset.difficulty, **difficulty))
    return plan_looks(np.random.default_rng(seed), changed, sites)


def turns(looks: list[Look]) -> int:
    return sum(a.polyp != b.polyp for a, b in pairwise(looks))


@pytest.mark.parametrize("frames", [1, 29, 30, 32, 33, 61, 62, 64, 100])
def test_tracklets_in_a_track_are_those_that_are_cut_from_it(frames: int) -> None:
    boxes = Boxes.of(video="v", frame_index=np.arange(frames), xywh=np.tile([0, 0, 9, 9], (frames, 1)))
    assert tracklets_in(frames) == len(cut_tracklets(boxes, np.zeros(frames, np.int64)))


def test_looks_follow_each_other_with_gaps_and_withdrawal_goes_from_site_to_site(preset: Preset) -> None:
    looks = plan(preset, [[0], [1, 2], [3]], resight=0.0)
    gaps = [b.start - a.start - a.frames for a, b in pairwise(looks)]
    assert min(gaps) >= 1
    order = [look.polyp for look in looks]
    assert order.index(3) > max(index for index, polyp in enumerate(order) if polyp in (1, 2))
    assert max(index for index, polyp in enumerate(order) if polyp == 0) < min(order.index(1), order.index(2))


def test_every_polyp_gets_the_tracklets_that_are_wanted(preset: Preset) -> None:
    looks = plan(preset, [[0, 1], [2]])
    for polyp in range(3):
        wanted = sum(tracklets_in(look.frames) for look in looks if look.polyp == polyp)
        assert wanted >= preset.fewest_tracklets


def test_interleaving_turns_the_camera_from_polyp_to_polyp(preset: Preset) -> None:
    calm = [turns(plan(preset, [[0, 1, 2]], seed, interleave=0.0, resight=0.0)) for seed in range(10)]
    restless = [turns(plan(preset, [[0, 1, 2]], seed, interleave=1.0, resight=0.0)) for seed in range(10)]
    assert set(calm) == {2}
    assert np.mean(restless) > 6


def test_the_view_changes_more_the_longer_the_gap(preset: Preset) -> None:
    looks = plan(replace(preset, tracklets=60), [[0]], view_memory=150.0)
    for before, look in pairwise(looks):
        gap = look.start - before.start - before.frames
        assert look.renewal == look.view_renewal == pytest.approx(1 - np.exp(-gap / 150))
    assert renewal_after(3, 150.0) < 0.03
    assert renewal_after(600, 150.0) > 0.95


def test_a_view_depends_on_when_its_polyp_was_last_seen(preset: Preset) -> None:
    looks = plan(preset, [[0, 1]], interleave=1.0, resight=0.0)
    turned = [b for a, b in pairwise(looks) if a.polyp != b.polyp and b.start - a.start - a.frames < 20][2:]
    assert turned
    assert all(look.view_renewal > look.renewal for look in turned)


def test_every_view_is_new_without_a_memory(preset: Preset) -> None:
    assert {look.renewal for look in plan(preset, [[0], [1]], view_memory=0.0)} == {1.0}


def test_narrow_band_imaging_is_a_switch_during_inspection(preset: Preset) -> None:
    always = plan(replace(preset, tracklets=60), [[0]], narrow_band=1.0)
    assert all(look.narrow_band == (look.phase == "inspect") for look in always)
    assert not any(look.narrow_band for look in plan(replace(preset, tracklets=60), [[0]], narrow_band=0.0))


def test_some_polyps_are_seen_again_after_all_the_others(preset: Preset) -> None:
    never = plan(preset, [[0], [1]], resight=0.0)
    always = plan(preset, [[0], [1]], resight=1.0)
    assert [look.polyp for look in never] == sorted(look.polyp for look in never)
    last_first = [look.polyp for look in always].index(1)
    assert any(look.polyp == 0 for look in always[last_first:])


def test_a_polyp_is_found_before_it_is_removed(preset: Preset) -> None:
    plans = [plan(replace(preset, tracklets=40), [[0]], seed, resight=0.0) for seed in range(20)]
    position: dict[str, list[float]] = {}
    for looks in plans:
        for number, look in enumerate(looks):
            position.setdefault(look.phase, []).append(number / len(looks))
    assert set(position) == {"survey", "approach", "inspect", "wash", "remove"}
    assert min(position["remove"]) > 0.5
    assert np.mean(position["survey"]) < np.mean(position["remove"])
