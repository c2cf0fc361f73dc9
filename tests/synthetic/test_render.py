from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from polyptrace.synthetic.camera import border
from polyptrace.synthetic.conditions import Conditions
from polyptrace.synthetic.procedure import Procedure
from polyptrace.synthetic.render import on_device, render

FRAMES = 6


@pytest.fixture(scope="module")
def rows(procedure: Procedure) -> Tensor:
    """Some frames, spread over the procedure."""
    return torch.linspace(5, len(procedure.boxes) - 6, FRAMES).long()


@pytest.fixture(scope="module")
def plain(procedure: Procedure, rows: Tensor) -> Conditions:
    """Conditions of these frames without instrument, narrow-band light and fringes."""
    chosen = procedure.conditions.take(rows)
    none = torch.zeros(FRAMES, 1)
    return replace(chosen, instrument=none, narrow_band=none, fringe=torch.zeros(FRAMES, 2))


def shown(procedure: Procedure, rows: Tensor, conditions: Conditions) -> Tensor:
    picture, _ = render(procedure.scene, procedure.paths.views.take(rows), conditions, rows)
    return picture.float()


def test_the_border_is_black_and_the_middle_is_not(procedure: Procedure, rows: Tensor, plain: Conditions) -> None:
    picture = shown(procedure, rows, plain)
    inside = border(procedure.scene.camera, torch.device("cpu"))
    assert float(picture[:, :, inside == 0].max()) == 0
    assert float(picture[:, :, inside == 1].mean()) > 60


def test_a_frame_looks_the_same_alone_and_among_others(procedure: Procedure, rows: Tensor, plain: Conditions) -> None:
    together = shown(procedure, rows, plain)
    alone = shown(procedure, rows[3:4], plain.take(torch.tensor([3])))
    assert float((together[3] - alone[0]).abs().mean()) < 0.05


def test_exposure_brightens_and_blur_softens(procedure: Procedure, rows: Tensor, plain: Conditions) -> None:
    before = shown(procedure, rows, plain)
    brighter = shown(procedure, rows, replace(plain, exposure=plain.exposure + 1))
    assert (brighter.mean(dim=(1, 2, 3)) > before.mean(dim=(1, 2, 3)) + 10).all()
    wide = torch.full((FRAMES, 1), 0.01)
    calm = replace(plain, noise=torch.zeros(FRAMES, 1))
    sharp, soft = shown(procedure, rows, calm), shown(procedure, rows, replace(calm, blur_x=wide, blur_y=wide))
    middle = (slice(None), slice(None), slice(30, 66), slice(30, 82))
    for axis in (2, 3):
        assert (
            soft[middle].diff(dim=axis).abs().mean(dim=(1, 2, 3))
            < sharp[middle].diff(dim=axis).abs().mean(dim=(1, 2, 3))
        ).all()


def test_narrow_band_light_takes_the_red_away(procedure: Procedure, rows: Tensor, plain: Conditions) -> None:
    white = shown(procedure, rows, plain).mean(dim=(2, 3))
    narrow = shown(procedure, rows, replace(plain, narrow_band=torch.ones(FRAMES, 1))).mean(dim=(2, 3))
    assert (white[:, 0] > 1.15 * white[:, 2]).all()
    assert (narrow[:, 0] / narrow[:, 2] < 0.8 * white[:, 0] / white[:, 2]).all()


@pytest.mark.parametrize("kind", [1, 2])
def test_an_instrument_covers_a_strip_from_the_edge(
    procedure: Procedure, rows: Tensor, plain: Conditions, kind: int
) -> None:
    before = shown(procedure, rows, plain)
    tip, loop = torch.full((FRAMES, 2), 0.5), torch.full((FRAMES, 2), 0.1)
    changed = replace(plain, instrument=torch.full((FRAMES, 1), float(kind)), tip=tip, loop=loop)
    change = (shown(procedure, rows, changed) - before).abs().amax(dim=1) > 40
    share = change.float().mean(dim=(1, 2))
    assert ((share > 0.005) & (share < 0.3)).all()
    assert float(change[:, :30, :30].float().mean()) < 0.02


def test_more_residue_and_more_water_change_more_of_the_picture(
    procedure: Procedure, rows: Tensor, plain: Conditions
) -> None:
    clean = replace(plain, debris=plain.debris * 0 - 5, pool_level=plain.pool_level * 0 - 9)
    before = shown(procedure, rows, clean)
    for name, little, much in (("debris", 0.0, 2.0), ("pool_level", 8.0, 30.0)):
        changes = [
            (shown(procedure, rows, replace(clean, **{name: torch.full((FRAMES, 1), value)})) - before).abs().mean()
            for value in (little, much)
        ]
        assert changes[0] < changes[1]
        assert float(changes[1]) > 2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_shows_the_same_picture(procedure: Procedure, rows: Tensor, plain: Conditions) -> None:
    device = torch.device("cuda")
    views = on_device(procedure.paths.views.take(rows), device)
    picture, owner = render(on_device(procedure.scene, device), views, on_device(plain, device), rows)
    reference, owners = render(procedure.scene, procedure.paths.views.take(rows), plain, rows)
    assert float((picture.cpu().float() - reference.float()).abs().mean()) < 1
    assert float((owner.cpu() != owners).float().mean()) < 0.01


def test_colours_of_a_polyp_come_back_in_every_track(procedure: Procedure) -> None:
    """Under one light the polyp's own colour, against the wall's, hardly changes from look to look."""
    even = Conditions(
        **{
            name: torch.zeros_like(value)
            for name, value in vars(procedure.conditions).items()
            if name
            not in ("balance", "saturation", "blur_x", "blur_y", "vessel", "down", "loop", "pool_level", "debris")
        },
        balance=torch.ones_like(procedure.conditions.balance),
        saturation=torch.ones_like(procedure.conditions.saturation),
        blur_x=torch.full_like(procedure.conditions.blur_x, 1e-4),
        blur_y=torch.full_like(procedure.conditions.blur_y, 1e-4),
        vessel=torch.ones_like(procedure.conditions.vessel),
        down=procedure.conditions.down,
        loop=procedure.conditions.loop,
        pool_level=torch.full_like(procedure.conditions.pool_level, -9.0),
        debris=torch.full_like(procedure.conditions.debris, -5.0),
    )
    chroma: dict[int, list[float]] = {}
    rows = torch.linspace(0, len(procedure.boxes) - 1, 48).long()
    picture, owner = render(procedure.scene, procedure.paths.views.take(rows), even.take(rows), rows)
    for frame in range(len(rows)):
        for polyp in range(len(procedure.scene.polyps)):
            mine = owner[frame] == polyp
            if int(mine.sum()) > 60:
                red, green, _ = picture[frame, :, mine].float().mean(dim=1)
                chroma.setdefault(polyp, []).append(float(green / red))
    several = {polyp: values for polyp, values in chroma.items() if len(values) > 3}
    assert len(several) >= 2
    within = np.mean([np.std(values) for values in several.values()])
    assert within < 0.06
