import torch

from polyptrace.synthetic import Procedure
from polyptrace.synthetic.camera import camera_rays
from polyptrace.synthetic.tracing import FAR_MM, seat, trace_polyp, trace_wall, turn_rays


def frames(procedure: Procedure, count: int) -> torch.Tensor:
    return torch.linspace(0, len(procedure.paths.look) - 1, count).long()


def test_rays_end_where_small_steps_would_end_them(procedure: Procedure) -> None:
    scene = procedure.scene
    views = procedure.paths.views.take(frames(procedure, 12))
    rays = turn_rays(views, camera_rays(scene.camera, torch.device("cpu")))
    found = trace_wall(scene.lumen, scene.camera, views, rays)
    some = torch.arange(0, found.shape[1], 37)
    few = tuple(ray[:, some] for ray in rays)
    slow = torch.full_like(few[0], FAR_MM)
    for distance in torch.arange(0.1, FAR_MM, 0.1).tolist():
        x, y, z = (views.position[:, k : k + 1] + few[k] * distance for k in range(3))
        beyond = scene.lumen.clearance(x, y, z, views.state) < 0
        slow = torch.where(beyond & (slow == FAR_MM), distance, slow)
    error = (found[:, some] - slow).abs() / slow
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
