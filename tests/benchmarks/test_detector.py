"""The benchmark of a detector: which boxes and tracks count as right."""

import time
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.detector import FOUND, TRUE, frame_matches, in_parallel, limited, overlapped, page, summary, train
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
    found = summary(procedures, FOUND)
    assert found == {"count error": 1.0, "lesions": 6, "tracks": 12, "false tracks": 3, "missed polyps": 1}
    content = {"procedures": procedures, "boxes": 1200, "encoder": "default", "ap50": 0.5, "training": {}}
    content["folders"] = {"finished": 1, "all": 1}
    text = page(content | {"summary": {kind: summary(procedures, kind) for kind in (TRUE, FOUND)}})
    assert "2 generated procedures with 4 polyps, 1,200 true boxes; encoder default. AP50: 0.500." in text
    assert "| detector | 1.00 | 6 | 12 | 3 | 1 |" in text
    assert "| w | 2 | 2 | 4 |" in text


def test_a_benchmark_that_runs_out_of_time_reports_the_training() -> None:
    content = {"procedures": [], "folders": {"finished": 0, "all": 2}}
    text = page(content | {"training": {"steps": 1300, "test images": 2000, "AP50": 0.25}})
    assert "trained for 1,300 steps; AP50 on 2,000 images of other procedures: 0.250" in text
    assert "0 of 2 folders of videos were counted before the time was over" in text
    assert "40 steps; stopped before" in page(content | {"training": {"steps": 40}})


def test_a_command_that_takes_too_long_is_stopped_and_the_others_count() -> None:
    run = limited(time.monotonic() + 1.5)
    jobs = [partial(run, "-c", "pass"), partial(run, "-c", "import time; time.sleep(60)")]
    assert in_parallel(jobs) == [True, False]


def test_a_stopped_training_is_described_by_its_last_checkpoint(tmp_path: Path) -> None:
    def run(*_: object) -> bool:
        (tmp_path / "light").mkdir()
        (tmp_path / "light/training.json").write_text('{"steps": 40}')
        return False

    assert train(run, [tmp_path], tmp_path / "light", 100.0, 64) == {"steps": 40}
    assert train(lambda *_: False, [], tmp_path / "none", 100.0, 64) == {"steps": 0}
