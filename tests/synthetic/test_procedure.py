import numpy as np
import torch

from polyptrace.synthetic import Preset, Procedure, draw_procedure, with_difficulty
from polyptrace.synthetic.selection import box_table
from polyptrace.synthetic.tracing import seat


def test_identities_keep_their_labels_and_their_place_through_all_tracks(procedure: Procedure) -> None:
    boxes = box_table(procedure)
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


def test_a_procedure_is_the_same_whatever_else_is_drawn(preset: Preset) -> None:
    alone = draw_procedure(7, 2, "train", 2, preset)
    draw_procedure(7, 1, "train", 2, preset)
    again = draw_procedure(7, 2, "test", 2, preset)
    assert np.array_equal(alone.boxes, again.boxes, equal_nan=True)
    assert torch.equal(alone.scene.colon.skin, again.scene.colon.skin)
    other = draw_procedure(8, 2, "train", 2, preset)
    assert not torch.equal(alone.scene.colon.skin, other.scene.colon.skin)


def test_frames_are_in_time_order_and_the_camera_is_inside_the_lumen(procedure: Procedure) -> None:
    assert (np.diff(procedure.paths.frame_index) >= 1).all()
    position = procedure.paths.views.position
    x, y, z = (position[:, k : k + 1] for k in range(3))
    clearance = procedure.scene.lumen.clearance(x, y, z, procedure.paths.views.state)
    assert float((clearance > 1.0).float().mean()) > 0.99


def test_views_of_one_polyp_differ_more_with_more_view_change(preset: Preset) -> None:
    def spread(change: float) -> float:
        procedure = draw_procedure(5, 1, "train", 2, with_difficulty(preset, view_change=change))
        start = np.unique(procedure.paths.look, return_index=True)[1]
        mine = [row for row in start if procedure.looks[procedure.paths.look[row]].polyp == 0]
        gains = torch.log(procedure.conditions.balance[mine]).std() + procedure.conditions.exposure[mine].std()
        return float(gains + procedure.paths.views.position[mine].std(dim=0).mean() / 10)

    assert spread(1.0) > 1.5 * spread(0.0)
