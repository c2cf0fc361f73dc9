from dataclasses import replace

import numpy as np
import pytest
import torch

from polyptrace.synthetic.camera import Camera, CameraViews, aim, camera_rays
from polyptrace.synthetic.colon import LENGTH_MM, Lumen, inflate
from polyptrace.synthetic.polyps import Polyp, draw_polyp, seat
from polyptrace.synthetic.tracing import trace_polyp, trace_wall, turn_rays


def draw(seed: int, size_mm: float, histology: str = "AD", alike: float = 0.0) -> Polyp:
    return draw_polyp(np.random.default_rng(seed), "p", size_mm, histology, alike, np.random.default_rng(99))


def wide_tube() -> Lumen:
    """A tube so wide that the camera has room."""
    shape = torch.zeros(2, 9, 9)
    shape[0] = 400.0
    return inflate(shape, torch.zeros(4, 9, 9), torch.ones(1), torch.ones(1))


def measured_mm(polyp: Polyp, distance: float) -> float:
    """The widest diameter of the rendered polyp seen from above, from pixels: span * distance / focal length."""
    camera = Camera(480, 480, 480 * distance / (2.4 * polyp.size_mm), "octagon", 0.2)
    lumen, state = wide_tube(), torch.zeros(1, 1)
    polyp = replace(polyp, theta=0.0, z=LENGTH_MM / 2, lean=(0.0, 0.0))
    site = seat(lumen, polyp, state)
    widest_at = max(polyp.lift, 0.0)
    middle = site.anchor + widest_at * site.axes[:, 2]
    position = middle + distance * site.axes[:, 2]
    zero = torch.zeros(1)
    views = CameraViews(position, aim(position, middle, zero, zero, zero, camera), state)
    rays = turn_rays(views, camera_rays(camera, torch.device("cpu")))
    wall = trace_wall(lumen, camera, views, rays)
    pixel = trace_polyp(lumen, polyp, views, rays, wall).pixel
    x, y = (pixel % 480).double(), (pixel // 480).double()
    angle = torch.linspace(0, np.pi, 90, dtype=torch.float64)[:, None]
    along = torch.cos(angle) * x + torch.sin(angle) * y
    span = (along.amax(dim=1) - along.amin(dim=1)).max() + 1
    return float(span) * distance / camera.focal_px


@pytest.mark.parametrize("size_mm", [2.0, 5.0, 9.0, 20.0])
@pytest.mark.parametrize("morphology", ["flat", "sessile", "pedunculated"])
def test_a_polyp_is_as_wide_in_the_picture_as_its_size_in_mm_says(size_mm: float, morphology: str) -> None:
    polyp = next(p for p in (draw(seed, size_mm) for seed in range(500)) if p.morphology == morphology)
    assert measured_mm(polyp, distance=6 * size_mm) == pytest.approx(size_mm, rel=0.02)


def test_polyps_differ_and_the_same_seed_gives_the_same_polyp() -> None:
    one, again, other = draw(1, 6.0), draw(1, 6.0), draw(2, 6.0)
    assert torch.equal(one.surface, again.surface)
    assert one.colour == again.colour
    assert not torch.equal(one.surface, other.surface)
    assert one.colour != other.colour


def test_alike_polyps_share_their_traits_but_not_their_pattern() -> None:
    one, other = draw(1, 6.0, alike=1.0), draw(2, 6.0, alike=1.0)
    assert one.colour == other.colour
    assert one.relief == other.relief
    assert not torch.equal(one.surface, other.surface)


def test_histology_shifts_the_colour_but_does_not_separate_it() -> None:
    redness = {name: np.array([draw(seed, 6.0, name).colour[1] for seed in range(24)]) for name in ("AD", "HP")}
    assert redness["AD"].mean() < redness["HP"].mean()
    cuts = np.linspace(0.5, 1.5, 201)
    best = max(((redness["AD"] < cut).mean() + (redness["HP"] >= cut).mean()) / 2 for cut in cuts)
    assert 0.6 < best < 0.92


def test_the_ball_holds_every_point_of_the_outline() -> None:
    for seed in range(12):
        polyp = draw(seed, 8.0)
        middle, radius = polyp.ball
        away = polyp.outline(400) - torch.tensor(middle)[:, None]
        assert float(away.norm(dim=0).max()) <= radius


def test_points_of_the_outline_have_no_distance_to_the_surface() -> None:
    for seed in range(12):
        polyp = replace(draw(seed, 8.0), stalk=0.0)
        u, v, h = polyp.outline(400)
        inner = h > 0.05
        assert float(polyp.distance(u, v, h)[inner].abs().max()) < 0.05
