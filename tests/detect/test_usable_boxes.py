"""What a detector returns is checked: the same errors in `detect` and in its preview."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from polyptrace.core.errors import PolyptraceWarning, UserError
from polyptrace.data.crops.videos import write_video
from polyptrace.detect import detect, load_detector
from polyptrace.detect.preview import preview_page
from polyptrace.detect.usable_boxes import usable_boxes
from tests.detect.conftest import pictures

FRAMES = [np.zeros((96, 144, 3), np.uint8)] * 2
BOX = [[10, 20, 30, 30, 0.9]]
EXPECTED = r" -> return a list with one array \(n, 5\) of x, y, width, height and score per frame"


class Returns:
    """Returns a value whatever the frames are."""

    fingerprint = "returns"

    def __init__(self, value: object) -> None:
        self.value = value

    def __call__(self, *_: object) -> object:
        return self.value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "returned None" + EXPECTED),
        ({"boxes": BOX}, "returned a dict" + EXPECTED),
        ([BOX], "returned 1 result for 2 frames" + EXPECTED),
        ([BOX, None], "returned None for a frame" + EXPECTED),
        ([BOX, np.ones((1, 4))], r"returned an array of shape \(1, 4\) for a frame" + EXPECTED),
        ([BOX, np.ones((5, 6))], r"returned an array of shape \(5, 6\) for a frame" + EXPECTED),
        ([BOX, {"boxes": BOX}], "returned a dict that is not an array of numbers"),
        ([BOX, torch.ones(1, 5, requires_grad=True)], r"a Tensor that is not an array of numbers \(Can't call numpy"),
        ([BOX, [[10, 20, 30, 30, 90.0]]], "scores must be from 0 to 1, found 90 -> divide per cent by 100"),
        ([BOX, [[10, 20, 30, 30, -2.5]]], "scores must be from 0 to 1, found -2.5 -> .* apply the sigmoid to logits"),
    ],
)
def test_what_cannot_be_used_is_an_error_that_says_what_to_return(value: object, message: str) -> None:
    with pytest.raises(UserError, match=f"^here: .*{message}"):
        usable_boxes(Returns(value), FRAMES, [0, 1], "here", 0.1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value", [[BOX, []], (BOX, np.empty((0, 4))), np.array([BOX, BOX]), (each for each in [BOX] * 2)]
)
def test_lists_arrays_and_generators_are_accepted(value: object) -> None:
    first, second = usable_boxes(Returns(value), FRAMES, [0, 1], "here", 0.1)  # type: ignore[arg-type]
    assert first.boxes.tolist() == BOX
    assert len(second.boxes) <= 1


def test_a_score_that_is_rounded_above_one_is_one() -> None:
    (actual,) = usable_boxes(Returns([[[10, 20, 30, 30, 1.0005]]]), FRAMES[:1], [0], "here", 0.1)  # type: ignore[arg-type]
    assert actual.boxes[0, 4] == 1


@pytest.fixture
def short(tmp_path: Path) -> Path:
    write_video(tmp_path / "v.mp4", pictures(12))
    return tmp_path / "v.mp4"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("    return {}[0]", r"the detector failed \(KeyError: 0, at .*mine\.py, line 4\)"),
        ("    json.loads('')", r"\(JSONDecodeError: Expecting value: .*, at .*mine\.py, line 4\)"),
        ("    sys.exit()", r"the detector failed \(SystemExit, at .*mine\.py, line 4\)"),
        ("    sys.exit('no GPU')", r"the detector failed \(SystemExit: no GPU, at .*mine\.py, line 4\)"),
        ("    yield 1 // 0", r"the detector failed \(ZeroDivisionError: .*, at .*mine\.py, line 4\)"),
        ("    return None", "the detector returned None"),
    ],
)
def test_a_failed_function_is_the_same_error_in_detect_and_its_preview(
    short: Path, tmp_path: Path, body: str, message: str
) -> None:
    (tmp_path / "mine.py").write_text(f"import json\nimport sys\ndef find(frames):\n{body}\n")
    detector = load_detector(f"{tmp_path}/mine.py:find")
    with pytest.raises(UserError, match=rf"v\.mp4: frames 0 to 7: .*{message}"):
        detect(short, detector, tmp_path / "out")
    with pytest.raises(UserError, match=rf"v\.mp4: the frame at 0:00: .*{message}"):
        preview_page([short], [detector], 0.1, "keep")


def test_a_file_that_exits_or_fails_when_it_is_imported_is_an_error_with_the_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import sys\nsys.exit(1)\n")
    with pytest.raises(UserError, match=r"cannot be imported \(SystemExit: 1, at .*mine\.py, line 2\)"):
        load_detector(f"{tmp_path}/mine.py:find")
    (tmp_path / "mine.py").write_text("import sys\nsys.exit(\n")
    with pytest.raises(UserError, match=r"cannot be imported \(SyntaxError: .*line 2"):
        load_detector(f"{tmp_path}/mine.py:find")


def test_a_function_that_returned_something_wrong_is_corrected_and_resumes(short: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"def find(frames):\n    return [{BOX}] * len(frames) if len(frames) == 8 else None\n")
    with pytest.raises(UserError, match="frames 8 to 11: the detector returned None"):
        detect(short, load_detector(f"{file}:find"), tmp_path / "out")
    file.write_text(f"def find(frames):\n    return [{BOX}] * len(frames)\n")
    with pytest.warns(PolyptraceWarning, match="corrected after it failed at frame 8"):
        assert detect(short, load_detector(f"{file}:find"), tmp_path / "out").boxes == 12


class FromFrame:
    """Returns a box that is not a number, and a good one, from a frame on; before, only the good one."""

    fingerprint = "from frame"

    def __init__(self, first: int) -> None:
        self.first = first

    def __call__(self, _: object, indices: list[int], /) -> list[object]:
        return [BOX + [[np.nan] * 5] * (index >= self.first) for index in indices]


def test_dropped_boxes_are_counted_with_their_first_frame(short: Path, tmp_path: Path) -> None:
    with pytest.warns(PolyptraceWarning, match=r"3 boxes dropped: not a number \(first in frame 9\)"):
        made = detect(short, FromFrame(9), tmp_path / "out")  # type: ignore[arg-type]
    summary = json.loads(made.path.with_suffix(".json").read_text())
    assert summary["dropped"] == {"not a number": {"boxes": 3, "first_frame": 9}}
    assert made.strong_boxes == 12
