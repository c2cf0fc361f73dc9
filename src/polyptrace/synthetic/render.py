"""Frames of a procedure, from where the camera is and what lies in front of it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from polyptrace.synthetic.camera import Camera, border, camera_rays
from polyptrace.synthetic.colon import Colon
from polyptrace.synthetic.instruments import add_instruments
from polyptrace.synthetic.lumen import Lumen
from polyptrace.synthetic.optics import add_grain, expose, smear, vignette
from polyptrace.synthetic.polyps import Polyp
from polyptrace.synthetic.shading import Conditions, shade
from polyptrace.synthetic.tracing import Views, in_reach, trace_polyp, trace_wall, turn_rays


@dataclass(frozen=True)
class Scene:
    """What one procedure's pictures are made from."""

    colon: Colon
    lumen: Lumen
    polyps: tuple[Polyp, ...]
    camera: Camera
    grain: Tensor  # (3, 2 H, 2 W)

    def to(self, device: torch.device) -> "Scene":
        """The same scene on another device."""
        polyps = tuple(polyp.to(device) for polyp in self.polyps)
        return Scene(self.colon.to(device), self.lumen.to(device), polyps, self.camera, self.grain.to(device))


def render(scene: Scene, views: Views, conditions: Conditions, seeds: Tensor) -> tuple[Tensor, Tensor]:
    """Pictures (B, 3, H, W) uint8 and, for each pixel (B, H, W) int8, which polyp it shows (-1: none).

    `seeds` (B,) are numbers that choose the sensor's noise.
    """
    camera, device = scene.camera, views.position.device
    frames, height, width = len(views.position), camera.height, camera.width
    rays = turn_rays(views, camera_rays(camera, device))
    wall = trace_wall(scene.lumen, camera, views, rays)
    owner = torch.full(wall.shape, -1, dtype=torch.int8, device=device)
    nearest = wall
    found = []
    for index, polyp in enumerate(scene.polyps):
        if not in_reach(scene.lumen, polyp, views):
            continue
        hits = trace_polyp(scene.lumen, polyp, views, rays, nearest)
        if len(hits.frame):
            nearest = nearest.index_put((hits.frame, hits.pixel), hits.distance)
            owner[hits.frame, hits.pixel] = index
            found.append((polyp, hits))
    light = shade(scene.colon, scene.lumen, views, conditions, rays, wall, found)
    frame_mask = border(camera, device)
    light = add_instruments(light, conditions, camera, owner)
    picture = expose(light * vignette(camera, device), conditions, frame_mask.reshape(-1))
    picture = smear(picture.reshape(frames, 3, height, width), conditions)
    picture = add_grain(picture, conditions, scene.grain, seeds) * frame_mask
    return (picture.clamp_(0.0, 1.0) * 255.0).round_().to(torch.uint8), owner.reshape(frames, height, width)
