import numpy as np
import pytest

from polyptrace.config import Supervision
from polyptrace.core.randomness import torch_generator
from polyptrace.supervision import sample_bags
from polyptrace.supervision.curriculum import bursts, fitted_temperature


def visits(sizes: list[list[int]], seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Video, position and polyp of tracklets: visits of the given sizes, minutes apart, with short breaks inside."""
    random = np.random.default_rng(seed)
    video, position, polyp = [], [], []
    for v, of_video in enumerate(sizes):
        now = 0
        for p, size in enumerate(of_video):
            now += int(random.uniform(3_000, 20_000))
            for _ in range(size):
                video.append(v)
                position.append(now)
                polyp.append(10 * v + p)
                now += 32 + (int(random.uniform(10, 120)) if random.random() < 0.2 else 0)
    order = random.permutation(len(video))
    return np.array(video)[order], np.array(position)[order], np.array(polyp)[order]


def test_long_breaks_part_bursts() -> None:
    video, position, polyp = visits([[20, 7, 40], [15, 30], [60]])
    burst = bursts(video, position)
    assert len(np.unique(burst)) == 6
    assert all(len(np.unique(burst[polyp == p])) == 1 for p in np.unique(polyp))


def test_breaks_that_are_all_alike_part_nothing() -> None:
    video, position, _ = visits([[80], [50]])
    assert len(np.unique(bursts(video, position))) == 2


@pytest.mark.parametrize("position", [[0, 32, 64, 96], [5, 5, 5, 5], [0, 1_000_000, 0, 1_000_000]])
def test_even_spacing_parts_nothing(position: list[int]) -> None:
    assert len(np.unique(bursts([0, 0, 1, 1], position))) == 2


def test_one_tracklet_is_a_burst() -> None:
    assert bursts(["only"], [12]).tolist() == [0]


def test_a_share_is_that_of_the_videos_tracklets_and_not_below_the_low_temperature() -> None:
    high = fitted_temperature([0] * 200 + [1] * 2, np.arange(202) * 32, Supervision(tau_fit="share"))
    assert high[:200].tolist() == pytest.approx([12.0] * 200)
    assert high[200:].tolist() == pytest.approx([0.3, 0.3])


def test_bursts_of_sixty_get_the_papers_temperature() -> None:
    video, position, _ = visits([[60, 60], [60, 60, 60]])
    assert np.unique(fitted_temperature(video, position, Supervision(tau_fit="gaps"))).tolist() == pytest.approx([12.0])


def test_no_fit_is_the_high_temperature_itself() -> None:
    assert fitted_temperature([0, 0], [0, 32], Supervision(tau_max=7.0)).tolist() == [7.0, 7.0]


def test_on_short_visits_a_fitted_temperature_keeps_bags_pure_where_the_papers_does_not() -> None:
    video, position, polyp = visits([[12, 8, 15, 10]] * 10)
    right = {}
    for fit in ("none", "share", "gaps"):
        tau = fitted_temperature(video, position, Supervision(tau_fit=fit))
        bags = sample_bags(video, position, 4, tau, torch_generator(0)).numpy()
        right[fit] = (polyp[bags] == polyp[:, None]).mean()
    assert right["none"] < 0.75
    assert right["share"] > 0.9
    assert right["gaps"] > 0.95
