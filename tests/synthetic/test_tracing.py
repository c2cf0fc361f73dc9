import numpy as np
import pytest
import torch

from polyptrace.synthetic.camera import border, camera_rays
from polyptrace.synthetic.polyps import seat
from polyptrace.synthetic.procedure import Procedure
from polyptrace.synthetic.render import render
from polyptrace.synthetic.tracing import FAR_MM, simulated_boxes, trace_polyp, trace_wall, turn_rays

SOME = 60


def frames(procedure: Procedure, count: int) -> torch.Tensor:
    return torch.linspace(0, len(procedure.paths.look) - 1, count).long()


def test_rays_end_where_small_steps_would_end_them(procedure: Procedure) -> None:
    scene = procedure.scene
    views = procedure.paths.views.take(frames(procedure, 12))
    rays = turn_rays(views, camera_rays(scene.camera, torch.device("cpu")))
    traced = trace_wall(scene.lumen, scene.camera, views, rays)
    some = torch.arange(0, traced.shape[1], 37)
    few = tuple(ray[:, some] for ray in rays)
    slow = torch.full_like(few[0], FAR_MM)
    for distance in torch.arange(0.1, FAR_MM, 0.1).tolist():
        x, y, z = (views.position[:, k : k + 1] + few[k] * distance for k in range(3))
        beyond = scene.lumen.clearance(x, y, z, views.state) < 0
        slow = torch.where(beyond & (slow == FAR_MM), distance, slow)
    error = (traced[:, some] - slow).abs() / slow
    assert float((error < 0.03).float().mean()) > 0.97
    assert float(error.median()) < 0.005


def test_polyp_hits_lie_on_the_polyp_before_the_wall(procedure: Procedure) -> None:
    scene = procedure.scene
    views = procedure.paths.views.take(frames(procedure, 24))
    rays = turn_rays(views, camera_rays(scene.camera, torch.device("cpu")))
    wall = trace_wall(scene.lumen, scene.camera, views, rays)
    seen = 0
    for polyp in scene.polyps:
        hits = trace_polyp(scene.lumen, polyp, views, rays, wall)
        seen += len(hits.frame)
        assert (hits.distance <= wall[hits.frame, hits.pixel]).all()
        assert (polyp.distance(hits.u, hits.v, hits.h).abs() < 0.04 * polyp.size_mm).all()
        assert torch.allclose(hits.normal.norm(dim=0), torch.ones(len(hits.frame)), atol=1e-4)
        towards = -sum(rays[k][hits.frame, hits.pixel] * hits.normal[k] for k in range(3))
        assert len(hits.frame) == 0 or float((towards > -0.1).float().mean()) > 0.97
    assert seen > 1000


def test_a_seat_is_on_the_wall_with_axes_at_right_angles(procedure: Procedure) -> None:
    scene = procedure.scene
    state = torch.arange(len(procedure.looks), dtype=torch.float32)[:, None]
    for polyp in scene.polyps:
        site = seat(scene.lumen, polyp, state)
        x, y, z = (site.anchor[:, k : k + 1] for k in range(3))
        assert (scene.lumen.clearance(x, y, z, state).abs() < 1e-3).all()
        assert torch.allclose(site.axes @ site.axes.transpose(1, 2), torch.eye(3).expand(len(state), 3, 3), atol=1e-5)


@pytest.fixture(scope="module")
def owners(procedure: Procedure) -> tuple[np.ndarray, np.ndarray]:
    """Some frames, and for each of their pixels the polyp that the renderer shows in it."""
    rows = np.linspace(0, len(procedure.boxes) - 1, SOME).astype(int)
    index = torch.from_numpy(rows)
    _, owner = render(procedure.scene, procedure.paths.views.take(index), procedure.conditions.take(index), index)
    inside = border(procedure.scene.camera, torch.device("cpu")) > 0.5
    return rows, torch.where(inside, owner, -1).numpy()


def test_boxes_enclose_the_rendered_polyp_and_not_much_more(
    procedure: Procedure, owners: tuple[np.ndarray, np.ndarray]
) -> None:
    covered, snug = [], []
    for row, owner in zip(*owners, strict=True):
        for polyp in range(len(procedure.scene.polyps)):
            x0, y0, x1, y1 = procedure.boxes[row, polyp]
            y, x = np.nonzero(owner == polyp)
            if np.isnan(x0) or len(x) < 12:
                continue
            inside = (x + 0.5 > x0 - 1) & (x + 0.5 < x1 + 1) & (y + 0.5 > y0 - 1) & (y + 0.5 < y1 + 1)
            covered.append(inside.mean())
            tight = (np.ptp(x) + 1) * (np.ptp(y) + 1)
            snug.append(tight / ((x1 - x0) * (y1 - y0)))
    assert len(covered) > SOME / 2
    assert np.mean(covered) > 0.985
    assert np.quantile(covered, 0.05) > 0.9
    assert np.median(snug) > 0.8


def test_a_polyp_that_is_well_in_the_picture_has_a_box(
    procedure: Procedure, owners: tuple[np.ndarray, np.ndarray]
) -> None:
    """Only a polyp that is mostly hidden may be without one: far fewer pixels than its full view has."""
    with_box, without = [], []
    for row, owner in zip(*owners, strict=True):
        for polyp in range(len(procedure.scene.polyps)):
            pixels = int((owner == polyp).sum())
            (without if np.isnan(procedure.boxes[row, polyp, 0]) else with_box).append(pixels)
    assert np.median(with_box) > 40
    assert np.quantile(without, 0.95) < np.median(with_box) / 4


def test_jitter_moves_edges_by_its_share_of_the_box_and_0_by_nothing(procedure: Procedure) -> None:
    camera = procedure.scene.camera
    boxes = np.tile([30.0, 20.0, 70.0, 50.0], (4000, 1))
    rng = np.random.default_rng(0)
    assert np.array_equal(simulated_boxes(rng, boxes, camera, 0.0, 0.0), boxes)
    moved = simulated_boxes(rng, boxes, camera, 0.05, 0.0) - boxes
    assert moved.std(axis=0) == pytest.approx([2.0, 1.5, 2.0, 1.5], rel=0.06)
    assert abs(moved.mean()) < 0.05


def test_dropout_takes_its_share_of_the_boxes_whole(procedure: Procedure) -> None:
    boxes = np.tile([30.0, 20.0, 70.0, 50.0], (4000, 1))
    left = simulated_boxes(np.random.default_rng(0), boxes, procedure.scene.camera, 0.0, 0.2)
    gone = np.isnan(left)
    assert (gone.all(axis=1) == gone.any(axis=1)).all()
    assert gone[:, 0].mean() == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize("jitter", [0.1, 1.0])
def test_boxes_stay_inside_the_picture_and_keep_a_pixel(procedure: Procedure, jitter: float) -> None:
    camera = procedure.scene.camera
    boxes = np.tile([[0.0, 0.0, camera.width, camera.height], [50.0, 90.0, 53.0, 96.0]], (500, 1))
    moved = simulated_boxes(np.random.default_rng(0), boxes, camera, jitter, 0.0)
    assert moved.min() >= 0
    assert (moved[:, 2:] <= [camera.width, camera.height]).all()
    assert (moved[:, 2:] - moved[:, :2]).min() >= 1
