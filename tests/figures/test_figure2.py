"""The paper's Figure 2, and what goes with it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from polyptrace.config import Supervision
from polyptrace.core.errors import UserError
from polyptrace.data import Dataset
from polyptrace.encoders import TrackletEncoder
from polyptrace.encoders.encoder import TrainingRecord
from polyptrace.figures.figure1 import bag_at
from polyptrace.figures.figure2 import (
    TrainingTracklets,
    add_vectors,
    curriculum_caption,
    curriculum_figures,
    curriculum_statistics,
    training_tracklets,
)


def test_labels_give_both_sides_of_figure_2_and_vectors_a_third(coloured: Dataset) -> None:
    tracklets = training_tracklets(coloured)
    vectors = torch.randn(48, 4, generator=torch.Generator().manual_seed(0))
    known = replace(tracklets, vectors=vectors)
    unknown = replace(tracklets, polyp=np.full(48, "", object))
    names = {
        what: [d.name for d in curriculum_figures(curriculum_statistics(data, Supervision(), points=3))]
        for what, data in (("vectors", known), ("labels", tracklets), ("nothing", unknown))
    }
    assert names["nothing"] == ["curriculum_rank"]
    assert names["labels"] == ["curriculum_rank", "curriculum_pure"]
    assert names["vectors"] == ["curriculum_rank", "curriculum_pure", "curriculum_gradient"]


def test_vectors_are_those_after_the_projector(coloured: Dataset) -> None:
    torch.manual_seed(0)
    encoder = TrackletEncoder(
        "test_resnet", "none", width=16, layers=1, heads=2, feed_forward=16, projection=8, size=32
    ).eval()
    tracklets, rows = training_tracklets(coloured), np.array([3, 11])
    vectors = add_vectors(tracklets, coloured, encoder, rows).vectors
    assert vectors is not None
    with torch.no_grad():
        expected = encoder.projector(encoder(*coloured.gather(tracklets.index[rows])))
    torch.testing.assert_close(vectors[rows], expected)


def test_shares_of_the_gradient_are_at_the_temperature_of_the_training(coloured: Dataset) -> None:
    encoder = TrackletEncoder(
        "test_resnet", "none", width=16, layers=1, heads=2, feed_forward=16, projection=8, size=32
    ).eval()
    shares = {}
    for temperature in (0.07, 100.0):
        encoder.record = TrainingRecord(settings={"loss": {"temperature": temperature}})
        tracklets = add_vectors(training_tracklets(coloured), coloured, encoder)
        bag = bag_at(tracklets, Supervision(), anchor=5, c=1.0)
        shares[temperature] = bag.share
    assert shares[100.0] == pytest.approx(np.full(4, 0.25), abs=0.01)
    assert np.ptp(shares[0.07]) > 0.05


def test_the_caption_counts_anchors_bags_and_polyps(coloured: Dataset) -> None:
    tracklets = training_tracklets(coloured)
    text = curriculum_caption(curriculum_statistics(tracklets, Supervision(), points=3), "some data")
    assert "some data: 20 bags of 4 for each of 48 anchors at 3 points" in text
    assert "960 bags of 6 polyps" in text


def test_data_without_tracklets_of_a_fixed_length_are_refused(
    make_dataset: Callable[..., Path], tmp_path: Path
) -> None:
    short = Dataset.open(make_dataset(tmp_path / "short", [[4, 3], [5, 4]], frames=6))
    with pytest.raises(UserError, match=r"short: .* lower --tracks.length or --tracks.stride"):
        training_tracklets(short)


def test_a_video_with_too_few_tracklets_draws_what_it_can() -> None:
    video, polyp = np.array(["v", "v", "w"], object), np.array(["a", "a", "b"], object)
    tracklets = TrainingTracklets(video, np.array([0, 32, 0]), polyp, np.arange(3))
    kept = curriculum_statistics(tracklets, Supervision(), points=2)
    left_out = curriculum_statistics(tracklets, Supervision(small_videos="leave-out"), points=2)
    assert (kept.anchors, left_out.anchors) == (2, 0)
    assert left_out.purity[-1].pure is None
