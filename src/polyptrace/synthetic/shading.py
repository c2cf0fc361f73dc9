"""How the scene looks: a light at the camera, wet mucosa, residue, water; linear colours (B, 3, P)."""

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from polyptrace.synthetic.colon import RADIUS_MM, Colon
from polyptrace.synthetic.lumen import Lumen
from polyptrace.synthetic.polyps import Polyp
from polyptrace.synthetic.tracing import PolypHits, Rays, Views


@dataclass(frozen=True)
class Conditions:
    """What differs from track to track although colon and polyp do not; each (B, 1) unless it says otherwise."""

    exposure: Tensor  # stops
    balance: Tensor  # (B, 3) gains of red, green, blue
    saturation: Tensor
    haze: Tensor  # veil of scattered light
    blur_x: Tensor  # deviation, as a share of the picture's width
    blur_y: Tensor
    fringe: Tensor  # (B, 2) shift between red and blue fields, share of the width
    gloss: Tensor  # strength of the highlights
    roughness: Tensor  # of the wet film
    vessel: Tensor  # how clearly vessels show
    debris: Tensor  # how much residue sticks, in deviations below the cut
    bubbles: Tensor
    pool_level: Tensor  # mm above the lowest wall
    down: Tensor  # (B, 2) which way is down in the colon's cross-section
    instrument: Tensor  # 0: none, 1: forceps, 2: snare
    tip: Tensor  # (B, 2) where in the picture the instrument points, as shares of the width
    loop: Tensor  # (B, 2) half axes of the snare's loop, as shares of the width
    narrow_band: Tensor  # 1: narrow-band imaging
    noise: Tensor

    def take(self, index: Tensor) -> "Conditions":
        """The conditions of some frames."""
        return Conditions(*(getattr(self, field.name)[index] for field in fields(self)))

    def to(self, device: torch.device) -> "Conditions":
        """The same conditions on another device."""
        return Conditions(*(getattr(self, field.name).to(device) for field in fields(self)))


def shade(
    colon: Colon,
    lumen: Lumen,
    views: Views,
    conditions: Conditions,
    rays: Rays,
    wall: Tensor,
    polyps: list[tuple[Polyp, PolypHits]],
) -> Tensor:
    """Linear light (B, 3, P) that reaches the camera, before exposure."""
    position = views.position
    x = torch.addcmul(position[:, 0:1], rays[0], wall)
    y = torch.addcmul(position[:, 1:2], rays[1], wall)
    z = torch.addcmul(position[:, 2:3], rays[2], wall)
    theta = torch.atan2(y, x)
    normal = list(lumen.inward_normal(x, y, z, views.state))
    (vessel, debris), (tone, pale, relief) = colon.skin_at(theta, z)  # each (B, P)
    fine = colon.fine_at(theta, z)  # (3, B, P)
    albedo = _mucosa(colon, vessel * conditions.vessel, tone, pale, fine[0])  # 3 x (B, P)
    distance = wall.clone()
    seam = 1.0 + 0.05 * relief + 0.05 * fine[1]
    for polyp, hits in polyps:
        _place_polyp(colon, polyp, hits, conditions, albedo, normal, distance, seam, fine[0])
    foam = colon.foam_at(theta, z) if bool((conditions.bubbles > 0).any()) else torch.zeros_like(tone)
    foam = foam * torch.sigmoid((tone - 1.6 + 2.4 * conditions.bubbles) * 4.0) * (conditions.bubbles > 0)
    depth = x * conditions.down[:, 0:1] + y * conditions.down[:, 1:2] - RADIUS_MM * lumen.inflation[views.state.long()]
    pool = torch.sigmoid((depth + conditions.pool_level) * 1.5)
    gloss = _stain(albedo, torch.sigmoid((debris - 2.6 + conditions.debris) * 5.0) * 0.85, pool, foam)
    facing = (normal[0] * rays[0] + normal[1] * rays[1] + normal[2] * rays[2]).neg_().clamp_(0.0, 1.0)
    outward = torch.rsqrt(x * x + y * y)
    cosine, sine = x * outward, y * outward
    slope = conditions.roughness * (0.7 + 0.3 * relief)
    off_z = rays[2] + facing * (normal[2] + slope * fine[1])
    off_a = rays[1] * cosine - rays[0] * sine + facing * (normal[1] * cosine - normal[0] * sine + slope * fine[2])
    shine = torch.exp((off_z * off_z + off_a * off_a) * -110.0) * (conditions.gloss * gloss)
    return _light(albedo, facing, distance, seam, shine)


def _mucosa(colon: Colon, vessel: Tensor, tone: Tensor, pale: Tensor, grain: Tensor) -> list[Tensor]:
    """Albedo of the wall: pale and reddish fields, vessels, grain."""
    red = colon.colour[0] * (1.0 + 0.03 * pale + 0.03 * grain)
    green = colon.colour[1] * (1.0 - 0.12 * tone + 0.11 * pale + 0.07 * grain)
    blue = colon.colour[2] * (1.0 - 0.10 * tone + 0.03 * pale + 0.07 * grain)
    return [red * (1.0 - 0.22 * vessel), green * (1.0 - 0.62 * vessel), blue * (1.0 - 0.50 * vessel)]


def _place_polyp(
    colon: Colon,
    polyp: Polyp,
    hits: PolypHits,
    conditions: Conditions,
    albedo: list[Tensor],
    normal: list[Tensor],
    distance: Tensor,
    seam: Tensor,
    grain: Tensor,
) -> None:
    """Writes the polyp's colour, normal and distance over the wall's, blending where it grows out of it."""
    at = hits.frame, hits.pixel
    map_u, map_v, _, _ = polyp.direction(hits.u, hits.v, hits.h)
    _, tone, pit, vessel = polyp.sample(map_u, map_v, channels=4)
    mix = (0.5 + 0.5 * tone).clamp(0, 1)
    vessel = vessel * polyp.vessel_depth * (0.5 + 0.5 * conditions.vessel[hits.frame, 0])
    height = hits.h / (polyp.lift + polyp.radii[2])  # 0 at the wall, 1 at the top
    share = smoothstep(height * 5.0)
    rounding = smoothstep(height * 2.2)
    grains = grain[at]
    for channel, (dark, bright) in enumerate(((0.25, 0.08), (0.62, 0.22), (0.55, 0.20))):
        base = colon.colour[channel] * polyp.colour[channel]
        value = base * (1.0 - mix * (1.0 - polyp.tint[channel]))
        value = value * (1.0 + bright * polyp.pit_depth * pit + 0.03 * grains) * (1.0 - dark * vessel)
        albedo[channel][at] = albedo[channel][at] * (1.0 - share) + value * share
        normal[channel][at] = normal[channel][at] * (1.0 - rounding) + hits.normal[channel] * rounding
    scale = torch.rsqrt(sum((normal[k][at] ** 2 for k in range(3)), torch.tensor(1e-9, device=distance.device)))
    for channel in range(3):
        normal[channel][at] = normal[channel][at] * scale
    distance[at] = hits.distance
    seam[at] = 0.9 + 0.1 * share


def smoothstep(share: Tensor) -> Tensor:
    """0 below 0, 1 above 1, without a corner in between."""
    share = share.clamp(0.0, 1.0)
    return share * share * (3.0 - 2.0 * share)


def _stain(albedo: list[Tensor], residue: Tensor, pool: Tensor, foam: Tensor) -> Tensor:
    """Residue, standing water and bubbles change the colour; what comes back multiplies the highlights."""
    for channel, (dirt, water) in enumerate(((0.62, 0.50), (0.42, 0.33), (0.10, 0.09))):
        albedo[channel] += (dirt - albedo[channel]) * residue
        albedo[channel] += (water - albedo[channel]) * (pool * 0.6)
        albedo[channel] += (0.75 - albedo[channel]) * (foam * 0.45)
    return (1.0 + 2.5 * foam + 0.8 * residue) * (1.0 - 0.5 * pool)


def _light(albedo: list[Tensor], facing: Tensor, distance: Tensor, seam: Tensor, shine: Tensor) -> Tensor:
    """Light at the camera with inverse-square fall-off, softened by the tissue, bounced about the colon; highlights."""
    squared = distance * distance
    power = 400.0 / (squared + 16.0)
    direct = power * (0.16 + facing * (0.34 + 0.5 * facing)) * seam
    bounce = (0.4 + 0.6 * facing) * seam * 55.0 / (squared + 500.0)
    shine = shine * (power + 0.3)
    colours = [each * (direct + bounce * glow) + shine for each, glow in zip(albedo, (1.0, 0.62, 0.5), strict=True)]
    return torch.stack(colours, dim=1)


def narrow_band(light: Tensor, share: Tensor) -> Tensor:
    """Narrow-band imaging: blue and green light only, shown as cyan and brown."""
    grey_blue, green = light[:, 2:3] * 1.5, light[:, 1:2] * 1.25
    shown = torch.cat([green * 0.75, grey_blue * 1.05, grey_blue], dim=1)
    return light + (shown - light) * share[:, :, None]
