"""What is wrong with boxes, row by row."""

from dataclasses import replace

import numpy as np
import pytest

from polyptrace.data import Boxes
from polyptrace.data.boxes import NO_FRAME
from polyptrace.data.checks import check_boxes, summary, suspected_corners

GOOD = Boxes.of(
    video="v",
    frame_index=np.arange(4),
    xywh=np.tile([10.0, 10, 20, 20], (4, 1)),
    image_width=100,
    image_height=80,
    track="t",
    polyp="p",
    source="gt.txt",
    line=np.arange(4) + 1,
)


def with_box(row: int, box: list[float]) -> Boxes:
    xywh = GOOD.xywh.copy()
    xywh[row] = box
    return replace(GOOD, xywh=xywh)


def test_good_boxes_have_no_findings() -> None:
    assert check_boxes(GOOD) == []


@pytest.mark.parametrize(
    ("boxes", "kind", "fatal"),
    [
        (with_box(2, [np.nan, 10, 20, 20]), "not a number", True),
        (with_box(2, [10, 10, np.inf, 20]), "not a number", True),
        (with_box(2, [10, 10, 0, 20]), "empty box", True),
        (with_box(2, [10, 10, 20, -5]), "empty box", True),
        (with_box(2, [100, 10, 20, 20]), "outside", True),
        (with_box(2, [10, -20, 20, 20]), "outside", True),
        (with_box(2, [90, 10, 20, 20]), "past the edge", False),
        (replace(GOOD, frame_index=np.array([0, 1, -2, 3])), "negative frame", True),
        (replace(GOOD, frame_index=np.array([0, 1, NO_FRAME, 3])), "no frame", True),
        (replace(GOOD, video=np.array(["v", "v", "", "v"], object)), "no video", True),
        (replace(GOOD, image_width=np.array([100, 100, -1, 100])), "image size", True),
        *((replace(GOOD, fps=np.array([25, np.nan, rate, 25])), "frame rate", True) for rate in (0.0, -25.0, np.inf)),
        (replace(GOOD, frame_index=np.array([0, 1, 1, 3])), "duplicate", True),
        (
            replace(GOOD, frame_index=np.array([0, 1, 1, 3]), track=np.array(["", "", "", ""], object)),
            "polyp twice",
            False,
        ),
    ],
)
def test_every_problem_is_reported_with_file_and_line(boxes: Boxes, kind: str, fatal: bool) -> None:
    findings = check_boxes(boxes)
    assert [(f.kind, f.fatal, f.where) for f in findings] == [(kind, fatal, "gt.txt:3")]
    assert " -> " in findings[0].message


def test_a_good_box_next_to_an_excluded_one_is_no_duplicate() -> None:
    boxes = replace(with_box(1, [-500, 10, 20, 20]), frame_index=np.array([0, 1, 1, 3]))
    assert [(f.kind, f.row) for f in check_boxes(boxes)] == [("outside", 1)]


def test_a_box_may_reach_anywhere_in_an_image_of_unknown_size() -> None:
    boxes = replace(with_box(2, [5000, 10, 20, 20]), image_width=np.zeros(4, int), image_height=np.zeros(4, int))
    assert check_boxes(boxes) == []


def test_boxes_without_track_and_polyp_are_never_duplicates() -> None:
    empty = np.full(4, "", object)
    assert check_boxes(replace(GOOD, frame_index=np.zeros(4, int), track=empty, polyp=empty)) == []


def test_the_summary_counts_by_kind_and_shows_the_first_few() -> None:
    boxes = replace(GOOD, xywh=np.tile([10.0, 10, 0, 20], (4, 1)))
    text = summary(check_boxes(boxes), limit=1)
    assert text.startswith("fatal: empty box: 4\n  gt.txt:1: box has no width")
    assert text.endswith("... and 3 more")


def test_corners_given_for_width_and_height_are_suspected_and_good_boxes_are_not() -> None:
    rng = np.random.default_rng(0)
    good = np.concatenate([rng.uniform(10, 150, (200, 2)), rng.uniform(20, 40, (200, 2))], axis=1)
    corners = np.concatenate([good[:, :2], good[:, :2] + good[:, 2:]], axis=1)
    picture = {"video": "v", "frame_index": np.arange(200), "image_width": 200, "image_height": 200}
    assert suspected_corners(Boxes.of(**picture, xywh=good)) == ""
    assert "corners (x1, y1, x2, y2)" in suspected_corners(Boxes.of(**picture, xywh=corners))
    assert suspected_corners(Boxes.of(**(picture | {"image_width": 0, "image_height": 0}), xywh=corners)) == ""
