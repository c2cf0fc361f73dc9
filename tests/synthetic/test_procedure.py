from dataclasses import replace

import numpy as np
import pytest
import torch

from polyptrace.synthetic import Preset, with_difficulty
from polyptrace.synthetic.polyps import seat
from polyptrace.synthetic.procedure import Procedure, draw_procedure


def test_polyps_keep_their_labels_and_their_position_through_all_tracks(procedure: Procedure) -> None:
    boxes = procedure.box_table()
    for polyp in procedure.scene.polyps:
        mine = boxes.polyp == polyp.name
        assert mine.sum() > 100
        assert set(boxes.size_mm[mine]) == {polyp.size_mm}
        assert set(boxes.histology[mine]) == {polyp.histology}
    state = torch.arange(len(procedure.looks), dtype=torch.float32)[:, None]
    for polyp in procedure.scene.polyps:
        anchor = seat(procedure.scene.lumen, polyp, state).anchor
        assert torch.allclose(torch.atan2(anchor[:, 1], anchor[:, 0]), torch.tensor(polyp.theta), atol=1e-5)
        assert (anchor[:, 2] == polyp.z).all()


def test_a_procedure_does_not_depend_on_the_other_procedures(preset: Preset) -> None:
    alone = draw_procedure(7, 2, "train", 2, preset)
    draw_procedure(7, 1, "train", 2, preset)
    again = draw_procedure(7, 2, "test", 2, preset)
    assert np.array_equal(alone.boxes, again.boxes, equal_nan=True)
    assert torch.equal(alone.scene.colon.detail, again.scene.colon.detail)
    other = draw_procedure(8, 2, "train", 2, preset)
    assert not torch.equal(alone.scene.colon.detail, other.scene.colon.detail)


def test_frames_are_in_time_order_and_the_camera_is_inside_the_lumen(procedure: Procedure) -> None:
    assert (np.diff(procedure.paths.frame_index) >= 1).all()
    position = procedure.paths.views.position
    x, y, z = (position[:, k : k + 1] for k in range(3))
    clearance = procedure.scene.lumen.clearance(x, y, z, procedure.paths.views.state)
    assert float((clearance > 1.0).float().mean()) > 0.99


def first_rows(procedure: Procedure, polyp: int = 0) -> list[int]:
    start = np.unique(procedure.paths.look, return_index=True)[1]
    return [int(row) for row in start if procedure.looks[procedure.paths.look[row]].polyp == polyp]


def test_views_of_one_polyp_differ_more_with_more_view_change(preset: Preset) -> None:
    def spread(change: float) -> float:
        changed = with_difficulty(preset, view_change=change, view_memory=0.0)
        procedure = draw_procedure(5, 1, "train", 2, changed)
        rows = first_rows(procedure)
        position = procedure.paths.views.position[rows].std(dim=0).mean() / 10
        return float(procedure.conditions.exposure[rows].std() + position)

    assert spread(1.0) > 1.5 * spread(0.0)


def test_neighbouring_tracks_look_more_alike_with_a_longer_memory(preset: Preset) -> None:
    def step(memory: float) -> float:
        changed = with_difficulty(preset, tracklets=30, view_change=1.0, view_memory=memory, resight=0.0)
        procedure = draw_procedure(5, 1, "train", 1, changed)
        exposure = [procedure.conditions.exposure[procedure.paths.look == look].mean() for look in range(12)]
        return float(np.abs(np.diff(exposure)).mean())

    assert step(10_000.0) < 0.5 * step(0.0)


@pytest.mark.parametrize("drift", [0.0, 1.0])
def test_colours_belong_to_the_procedure_unless_they_drift(preset: Preset, drift: float) -> None:
    changed = with_difficulty(preset, colour_drift=drift, view_memory=0.0)
    balance = draw_procedure(5, 1, "train", 2, changed).conditions.balance
    assert bool((balance == balance[0]).all()) == (drift == 0.0)


def test_the_camera_frames_one_polyp_at_a_time(preset: Preset) -> None:
    def together(separate: bool) -> float:
        changed = replace(with_difficulty(preset, polyps_per_site=3.0, interleave=0.5), separate=separate)
        boxes = np.concatenate([draw_procedure(seed, 1, "train", 3, changed).boxes[:, :, 0] for seed in range(3)])
        return float(((~np.isnan(boxes)).sum(axis=1) > 1).mean())

    assert together(True) < 0.05 < together(False)
