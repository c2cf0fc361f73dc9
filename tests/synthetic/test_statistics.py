from pathlib import Path

import numpy as np
import pytest

from polyptrace.data import Boxes, read_coco
from polyptrace.synthetic import box_figures, colour_grid_map
from polyptrace.synthetic.statistics import mean_average_precision


def test_average_precision_agrees_with_a_slow_loop() -> None:
    rng = np.random.default_rng(0)
    vectors, label = rng.normal(size=(30, 4)), rng.integers(0, 6, 30).astype(str).astype(object)
    total = []
    for query in range(30):
        scores = []
        for other in range(30):
            if other != query:
                a, b = vectors[query], vectors[other]
                scores.append((a @ b / np.sqrt((a @ a) * (b @ b)), label[other] == label[query]))
        scores.sort(key=lambda pair: -pair[0])
        hits, precision = 0, []
        for rank, (_, match) in enumerate(scores, start=1):
            if match:
                hits += 1
                precision.append(hits / rank)
        if precision:
            total.append(sum(precision) / len(precision))
    assert mean_average_precision(vectors, label) == pytest.approx(np.mean(total))


def test_figures_of_a_table_made_by_hand() -> None:
    frames = [*range(40), *range(50, 60), *range(55, 60)]
    xywh = [[10, 10, 20, 20]] * 50 + [[60, 0, 10, 10]] * 5
    boxes = Boxes.of(
        video="v",
        frame_index=frames,
        xywh=xywh,
        file=[str(frame) for frame in frames],
        polyp=["a"] * 50 + ["b"] * 5,
        image_width=100,
        image_height=100,
    )
    ours = {figure.name: figure.ours for figure in box_figures(boxes)}
    assert ours["videos, polyps"] == "1, 2"
    assert ours["whole tracks (>= 30 frames) per polyp"] == "0.5"
    assert ours["gap between tracks, frames"] == "10 / 10 / 10"
    assert ours["frames with two polyps"] == "10.0 %"
    assert ours["boxes at the picture's edge"] == "9 %"
    assert ours["IoU of neighbouring boxes, median"] == "1.00"


def test_colour_does_not_solve_retrieval_in_generated_pictures(tiny: Path) -> None:
    """With three polyps chance is about 0.4; docs/synthetic.md has the values of the larger presets."""
    assert 0.2 < colour_grid_map(read_coco(tiny, split="test"), tiny) < 0.95
