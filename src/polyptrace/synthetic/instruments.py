"""Forceps and snares: a rod that comes in from the edge of the picture, and what it does at the polyp."""

import numpy as np
import torch
from torch import Tensor

from polyptrace.synthetic.camera import Camera
from polyptrace.synthetic.shading import Conditions, smoothstep

FORCEPS, SNARE = 1, 2
CHANNEL_ANGLE = np.deg2rad(52.0)  # where the working channel opens: at about five o'clock


def add_instruments(light: Tensor, conditions: Conditions, camera: Camera, owner: Tensor) -> Tensor:
    """Linear light (B, 3, P) with an instrument in the frames that have one; `owner` (B, P) is -1 off the polyps."""
    chosen = torch.nonzero(conditions.instrument[:, 0] > 0)[:, 0]
    if not len(chosen):
        return light
    width, device = camera.width, light.device
    rows = torch.arange(camera.height, device=device) + 0.5
    columns = torch.arange(width, device=device) + 0.5
    y, x = (each.reshape(1, -1) / width for each in torch.meshgrid(rows, columns, indexing="ij"))
    tip = conditions.tip[chosen]  # (b, 2) shares of the width, from the corner
    level = light[chosen].mean(dim=(1, 2))[:, None]  # (b, 1)
    snare = conditions.instrument[chosen] == SNARE
    reach = torch.where(snare, 0.80, 0.97)  # the sheath of a snare ends before the polyp
    across, along, size = _rod(x, y, tip, reach, camera)
    inside = smoothstep((1.0 - across.abs()) * size * width) * (along < 1.0)
    round_light = torch.sqrt((1.0 - across * across).clamp_min(0.0))
    stripe = torch.exp(-((across - 0.25) ** 2) * 60.0)
    bright = level * (2.6 - 1.5 * along) * (0.25 + 0.75 * round_light) + level * stripe * 1.5
    sheath = torch.tensor([[0.55, 0.85, 0.95], [1.0, 1.0, 0.98]], device=device)  # plastic, metal
    colour = torch.where(snare, sheath[0], sheath[1])[:, :, None]  # (b, 3, 1)
    wire, wire_light = _wire(x, y, conditions.loop[chosen], tip, width)
    wire = wire * snare * (owner[chosen] < 0)
    few = light[chosen]
    few = few + (bright[:, None] * colour - few) * inside[:, None]
    few = few + ((level * 2.2 * wire_light)[:, None] - few) * wire[:, None]
    return light.index_copy(0, chosen, few)


def _rod(x: Tensor, y: Tensor, tip: Tensor, reach: Tensor, camera: Camera) -> tuple[Tensor, Tensor, Tensor]:
    """Of each pixel its place across the rod (-1 to 1 inside), along it (0 outside, 1 at the end), half the width."""
    start_x = 0.5 + 0.68 * float(np.cos(CHANNEL_ANGLE))
    start_y = camera.height / camera.width / 2 + 0.68 * float(np.sin(CHANNEL_ANGLE))
    way_x, way_y = (tip[:, 0:1] - start_x) * reach, (tip[:, 1:2] - start_y) * reach
    length = torch.sqrt(way_x**2 + way_y**2).clamp_min(1e-3)
    along = ((x - start_x) * way_x + (y - start_y) * way_y) / (length * length)
    across = ((x - start_x) * way_y - (y - start_y) * way_x) / length
    size = 0.045 - 0.022 * along.clamp(0.0, 1.0)
    return (across / size).clamp(-3.0, 3.0), along, size


def _wire(x: Tensor, y: Tensor, loop: Tensor, tip: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """How much of each pixel the snare's loop covers, and how it shines: an ellipse about the polyp."""
    u, v = (x - tip[:, 0:1]) / loop[:, 0:1], (y - tip[:, 1:2]) / loop[:, 1:2]
    radius = torch.sqrt(u * u + v * v).clamp_min(1e-3)
    away = (radius - 1.0).abs() * loop.mean(dim=1, keepdim=True)
    cover = smoothstep(1.0 - (away - 0.004) * width * 0.7) * (away < 0.03)
    return cover, 0.6 + 0.4 * torch.cos(6.0 * u / radius)
