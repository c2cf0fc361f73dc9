"""The benchmark of a detector: which boxes and tracks count as right."""

from pathlib import Path

import numpy as np

from benchmarks.detector import FOUND, TRUE, frame_matches, overlapped, page, summary
from polyptrace.data import Boxes

TRUTH = Boxes.of(
    video="v",
    frame_index=[3, 4, 4],
    xywh=np.array([[0.0, 0, 10, 10], [0, 0, 10, 10], [50, 50, 10, 10]]),
    polyp=["a", "a", "b"],
)


def track(frame: int, x: float, y: float) -> Boxes:
    return Boxes.of(video="v", frame_index=[frame], xywh=np.array([[x, y, 10.0, 10.0]]))


def test_a_track_shows_the_polyp_whose_box_it_overlaps_in_the_same_frame() -> None:
    assert overlapped(track(4, 51, 50), TRUTH) == {"b"}
    assert overlapped(track(3, 51, 50), TRUTH) == set()
    assert overlapped(track(4, 1, 1), TRUTH) == {"a"}
    assert overlapped(track(9, 1, 1), TRUTH) == set()


def test_only_rendered_frames_are_compared(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for frame in (3, 4):
        (tmp_path / f"images/v_{frame:06d}.jpg").touch()
    (tmp_path / "v").mkdir()  # the pictures of the MOT file
    lines = ["4,-1,1,1,10,10,0.9,-1,-1,-1", "5,-1,31,31,10,10,0.8,-1,-1,-1", "8,-1,1,1,10,10,0.7,-1,-1,-1"]
    (tmp_path / "v.txt").write_text("\n".join(lines) + "\n")
    assert frame_matches(tmp_path / "v.txt", TRUTH, tmp_path) == [(0.9, True), (0.8, False)]


def test_errors_are_averaged_over_procedures_and_the_rest_is_summed() -> None:
    right = {"lesions": 2, "tracks": 5, "false tracks": 0, "missed polyps": 0}
    wrong = {"lesions": 4, "tracks": 7, "false tracks": 3, "missed polyps": 1}
    procedures = [{"video": v, "polyps": 2, TRUE: right, FOUND: each} for v, each in (("v", right), ("w", wrong))]
    actual = summary(procedures, FOUND)
    assert actual == {"count error": 1.0, "lesions": 6, "tracks": 12, "false tracks": 3, "missed polyps": 1}
    content = {"procedures": procedures, "boxes": 1200, "encoder": "default", "ap50": 0.5}
    text = page(content | {"summary": {kind: summary(procedures, kind) for kind in (TRUE, FOUND)}})
    assert "2 generated procedures with 4 polyps, 1,200 true boxes; encoder default. AP50: 0.500." in text
    assert "| true boxes | 0.00 [0.00 to 0.00] | 4 | 10 | 0 | 0 |" in text
    assert "| detector | 1.00 [0.00 to 2.00] | 6 | 12 | 3 | 1 |" in text
    assert "minus that with true boxes: 1.00 [0.00 to 2.00]." in text
    assert "| w | 2 | 2 | 4 |" in text
