"""The shape of the lumen: the colon's radius over angle and depth, as it lies with more or less air in it.

Radius at (theta, z) = inflation * base - fold_gain * fold. Each pair (inflation, fold_gain) is a state; the maps of all
states stand below each other in one tall picture, so that any number of points in any states is one lookup.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import grid_sample

LENGTH_MM = 384.0  # the colon repeats after this depth


@dataclass(frozen=True)
class Lumen:
    """The lumen in S states; a point's state is a float, for it enters the arithmetic of the lookup."""

    height: Tensor  # (1, 1, S * (Z + 1), A + 1) radius, mm
    slope: Tensor  # (1, 2, S * (Z + 1), A + 1) its derivatives along z and theta
    inflation: Tensor  # (S,)

    def to(self, device: torch.device) -> "Lumen":
        """The same lumen on another device."""
        return Lumen(self.height.to(device), self.slope.to(device), self.inflation.to(device))

    def radius(self, theta: Tensor, z: Tensor, state: Tensor) -> Tensor:
        """Radius in mm at angles and depths; all of one shape, or such that they broadcast to it."""
        return self._look_up(self.height, theta, z, state)[0]

    def clearance(self, x: Tensor, y: Tensor, z: Tensor, state: Tensor) -> Tensor:
        """Millimetres from a point inside to the wall, measured away from the axis; negative beyond it."""
        return self.radius(torch.atan2(y, x), z, state) - torch.sqrt(x * x + y * y)

    def inward_normal(self, x: Tensor, y: Tensor, z: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Unit normal of the wall at points on it, pointing into the lumen, as three components."""
        along_z, along_a = self._look_up(self.slope, torch.atan2(y, x), z, state)
        outward = torch.rsqrt(x * x + y * y)
        cosine, sine, along_a = x * outward, y * outward, along_a * outward
        nx = -cosine - along_a * sine
        ny = -sine + along_a * cosine
        scale = torch.rsqrt(nx * nx + ny * ny + along_z * along_z)
        return nx * scale, ny * scale, along_z * scale

    def _look_up(self, maps: Tensor, theta: Tensor, z: Tensor, state: Tensor) -> Tensor:
        """Values (C, n) or (C, B, P) of tall maps at points (n,) or (B, P)."""
        states = len(self.inflation)
        tall = maps.shape[2]
        rows = tall // states
        points = theta[None] if theta.ndim == 1 else theta
        grid = torch.empty(1, *points.shape, 2, device=theta.device)
        torch.mul(points, 1.0 / np.pi, out=grid[0, :, :, 0])
        depth = z * (1.0 / LENGTH_MM)
        depth = depth - torch.floor(depth)
        depth = depth * (2.0 * (rows - 1) / (tall - 1)) + (state * (2.0 * rows / (tall - 1)) - 1.0)
        grid[0, :, :, 1] = depth
        found = grid_sample(maps, grid, mode="bilinear", padding_mode="border", align_corners=True)[0]
        return found.reshape(maps.shape[1], *theta.shape)


def inflate(base_and_fold: Tensor, slopes: Tensor, inflation: Tensor, fold_gain: Tensor) -> Lumen:
    """The lumen in the states (S,), from maps (2, Z + 1, A + 1) and their slopes (4, ...) along z, then along theta."""
    stretch, gain = inflation[:, None, None], fold_gain[:, None, None]
    height = stretch * base_and_fold[0] - gain * base_and_fold[1]  # (S, Z + 1, A + 1)
    along_z = stretch * slopes[0] - gain * slopes[1]
    along_a = stretch * slopes[2] - gain * slopes[3]
    tall = (1, -1, len(inflation) * height.shape[1], height.shape[2])
    return Lumen(height.reshape(tall), torch.stack([along_z, along_a]).reshape(tall), inflation)
