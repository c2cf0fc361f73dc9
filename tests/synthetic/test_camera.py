import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from polyptrace.synthetic.camera import Camera, aim, border, camera_rays, draw_camera

CAMERA = Camera(200, 160, 95.0, "octagon", 0.2)
CPU = torch.device("cpu")


@given(st.floats(-99, 99), st.floats(-79, 79))
def test_a_pixel_projected_back_is_itself(u: float, v: float) -> None:
    right, down, forward = CAMERA.directions(torch.tensor([u]), torch.tensor([v])) * 17.0
    x, y = CAMERA.project(right, down, forward)
    assert float(x) == pytest.approx(u + 100, abs=1e-3)
    assert float(y) == pytest.approx(v + 80, abs=1e-3)


def test_a_small_object_on_the_axis_spans_focal_times_size_over_distance() -> None:
    size, distance = 2.0, 40.0
    ends = torch.tensor([-size / 2, size / 2])
    x, _ = CAMERA.project(ends, torch.zeros(2), torch.full((2,), distance))
    assert float(x[1] - x[0]) == pytest.approx(CAMERA.focal_px * size / distance, rel=1e-3)


@given(st.floats(-60, 60), st.floats(-60, 60), st.floats(-3, 3), st.integers(0, 1000))
def test_aiming_puts_the_target_on_the_wanted_pixel(u: float, v: float, roll: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    position, target = (torch.from_numpy(rng.normal(0, 10, (1, 3))) for _ in range(2))
    numbers = (torch.tensor([each], dtype=torch.float64) for each in (u, v, roll))
    rotation = aim(position, target, *numbers, CAMERA)
    assert torch.allclose(rotation[0].T @ rotation[0], torch.eye(3, dtype=torch.float64), atol=1e-9)
    assert float(torch.linalg.det(rotation[0])) == pytest.approx(1.0)
    x, y = CAMERA.project(*(rotation[0].T @ (target - position)[0]))
    assert (float(x) - 100, float(y) - 80) == pytest.approx((u, v), abs=1e-6)


def test_rays_are_unit_vectors_row_by_row_and_coarser_ones_lie_between() -> None:
    rays = camera_rays(CAMERA, CPU)
    assert rays.shape == (3, 200 * 160)
    assert torch.allclose(rays.norm(dim=0), torch.ones(200 * 160), atol=1e-5)
    assert rays[0, 199] > 0 > rays[0, 0]
    assert rays[1, 0] == rays[1, 199]
    coarse = camera_rays(CAMERA, CPU, 2).reshape(3, 80, 100)
    around = rays.reshape(3, 160, 200)[:, :2, :2].mean(dim=(1, 2))
    assert torch.allclose(coarse[:, 0, 0], around, atol=1e-3)


@pytest.mark.parametrize("mask", ["octagon", "round"])
def test_the_mask_takes_the_corners_and_leaves_the_middle(mask: str) -> None:
    camera = Camera(200, 160, 95.0, "octagon" if mask == "octagon" else "round", 0.2)
    inside = border(camera, CPU)
    assert inside[0, 0] == inside[-1, -1] == inside[0, -1] == 0
    assert inside[80, 100] == inside[80, 4] == 1
    assert 0.75 < float(inside.mean()) < 0.99


def test_endoscopes_differ() -> None:
    cameras = {draw_camera(np.random.default_rng(seed), 64, 56) for seed in range(8)}
    assert len({camera.focal_px for camera in cameras}) == 8
    assert {camera.mask for camera in cameras} == {"octagon", "round"}
