"""The paper's Figure 1 for an anchor of one's own."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from polyptrace.config import Supervision
from polyptrace.data import Dataset
from polyptrace.figures.figure1 import bag_at, bag_caption, bag_figure, illustrative_anchor
from polyptrace.figures.figure2 import training_tracklets

SETTINGS = Supervision()


def test_members_come_by_rank_with_time_share_and_truth(coloured: Dataset) -> None:
    tracklets = training_tracklets(coloured)
    vectors = torch.randn(48, 4, generator=torch.Generator().manual_seed(0))
    known = replace(tracklets, vectors=vectors)
    bag = bag_at(known, SETTINGS, 5, 1.0)
    assert len(bag.members) == 4
    assert 5 not in bag.members
    assert (np.diff(bag.rank) >= 0).all()
    assert set(known.video[bag.members]) == {known.video[5]}
    np.testing.assert_array_equal(bag.same, known.polyp[bag.members] == known.polyp[5])
    assert bag.share is not None
    assert bag.share.sum() == pytest.approx(1)
    weight = [float(torch.cosine_similarity(vectors[m], vectors[5], dim=0)) / 0.07 for m in bag.members]
    np.testing.assert_allclose(bag.share, torch.tensor(weight).softmax(0).numpy(), rtol=1e-3, atol=1e-6)


def test_the_anchor_that_is_shown_has_a_mixed_bag_at_the_end(coloured: Dataset) -> None:
    tracklets = training_tracklets(coloured)
    late = bag_at(tracklets, SETTINGS, illustrative_anchor(tracklets, SETTINGS), 1.0)
    assert {0.0, 1.0} == set(late.same.tolist())


def test_without_labels_any_anchor_is_shown_and_nothing_is_judged(coloured: Dataset) -> None:
    tracklets = training_tracklets(coloured)
    unknown = replace(tracklets, polyp=np.full(48, "", object))
    anchor = illustrative_anchor(unknown, SETTINGS)
    early, late = (bag_at(unknown, SETTINGS, anchor, c) for c in (0.0, 1.0))
    drawing = bag_figure(coloured, unknown, early, late)
    assert "polyps unknown" in bag_caption(coloured, unknown, early, late)
    assert "same polyp" not in drawing.svg
    assert "share" not in drawing.svg


def test_the_figure_has_a_strip_for_the_anchor_and_each_member_twice(coloured: Dataset) -> None:
    tracklets = training_tracklets(coloured)
    anchor = illustrative_anchor(tracklets, SETTINGS)
    early, late = (bag_at(tracklets, SETTINGS, anchor, c) for c in (0.0, 1.0))
    drawing = bag_figure(coloured, tracklets, early, late)
    assert drawing.svg.count("<image") == 10
    right = int(early.same.sum() + late.same.sum())
    assert drawing.svg.count("✓ same polyp") == right
    assert drawing.svg.count("✗ other polyp") == 8 - right
    assert "c = 0, τ = 0.3" in drawing.svg
    assert "c = 1, τ = 12" in drawing.svg
