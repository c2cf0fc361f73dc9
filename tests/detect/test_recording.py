"""A detector over a video: exact frames, resumption, skipped frames and bad detectors."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from polyptrace.core.errors import PolyptraceWarning, UserError
from polyptrace.data import read_mot
from polyptrace.data.crops.videos import all_frames, write_video
from polyptrace.detect import Detections, detect, load_detector, unfinished
from tests.detect.conftest import HEIGHT, WIDTH, Frozen, Numbered, frames_in, numbered, pictures, without_frame_rate

Make = Callable[..., Numbered]


FAILS_AT_FRAME_32 = (
    "calls = 0\ndef find(frames):\n    global calls; calls += 1; 1 // (calls < 5)\n"
    "    return [[[10, 10, 20, 20, 0.9]] for _ in frames]\n"
)


def frames_of(made: Detections) -> list[int]:
    boxes = read_mot(made.path).in_order()
    assert (boxes.xywh[:, 0] == boxes.frame_index % 100).all()
    return boxes.frame_index.tolist()


def test_boxes_are_written_as_mot_beside_a_link_to_the_video(video: Path, detector: Make, tmp_path: Path) -> None:
    made = detect(video, detector(), tmp_path / "out")
    assert (made.frames, made.boxes, made.skipped) == (300, 300, [])
    assert frames_of(made) == list(range(300))
    boxes = read_mot(tmp_path / "out")
    assert set(boxes.file) == {"procedure.mp4"}
    assert boxes.xywh[7].tolist() == [7, 10, 20, 20]
    assert boxes.score.min() == boxes.score.max() == 0.9


def test_finished_detections_are_kept_and_other_settings_are_refused(
    video: Path, detector: Make, tmp_path: Path
) -> None:
    made = detect(video, detector(), tmp_path / "out")
    assert detect(video, detector(fail=0), tmp_path / "out") == made
    with pytest.raises(
        UserError,
        match=r"procedure\.txt: already exists, made with .* requested:\n  min_score: 0\.1",
    ):
        detect(video, detector(), tmp_path / "out", min_score=0.3)


def test_a_run_that_was_killed_after_its_last_step_leaves_nothing(video: Path, detector: Make, tmp_path: Path) -> None:
    made = detect(video, detector(), tmp_path / "out")
    partial = made.path.with_suffix(".partial")
    partial.touch()
    assert detect(video, detector(fail=0), tmp_path / "out") == made
    assert not partial.exists()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("[]", "is not an object"),
        ('{"video": "v"}', "settings: is missing"),
        (None, r"skipped: \[1, 'x', 2\] is not \[first frame, last frame, reason\]"),
    ],
)
def test_a_damaged_summary_is_refused(
    video: Path, detector: Make, tmp_path: Path, content: str | None, problem: str
) -> None:
    summary = detect(video, detector(), tmp_path / "out").path.with_suffix(".json")
    summary.write_text(content or json.dumps(json.loads(summary.read_text()) | {"skipped": [[1, "x", 2]]}))
    with pytest.raises(UserError, match=rf"procedure\.json: .*{problem}"):
        detect(video, detector(), tmp_path / "out")


def test_a_damaged_unfinished_file_is_refused(video: Path, detector: Make, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/procedure.partial").write_text('# {"settings": 5}\n')
    with pytest.raises(UserError, match=r"procedure\.partial: settings: 5 is not an object"):
        detect(video, detector(), tmp_path / "out")


@pytest.mark.parametrize("ending", ["mp4", "mkv", "avi"])
def test_a_run_that_failed_resumes_with_the_same_bytes(
    tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unfinished, "FRAMES_PER_STATE", 50)
    video = tmp_path / f"procedure.{ending}"
    write_video(video, (numbered(min(i, 150) if i < 200 else i) for i in range(300)))  # frozen from 150 to 199
    whole = detect(video, Frozen(), tmp_path / "whole")
    with pytest.raises(UserError, match=r"frames 1\d\d to 1\d\d: the detector failed \(ValueError: no memory, at "):
        detect(video, Frozen(fail=155), tmp_path / "out")
    second = Frozen()
    resumed = detect(video, second, tmp_path / "out")
    assert second.seen[0] == 152  # the batch that failed
    assert resumed.path.read_bytes() == whole.path.read_bytes()
    assert resumed.skipped == whole.skipped == [[160, 199, "frozen"]]


def test_a_disk_that_is_full_when_the_boxes_are_written_costs_no_box(
    video: Path, detector: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = detect(video, detector(), tmp_path / "whole")

    def full(self: unfinished.UnfinishedDetections) -> Iterator[bytes]:
        yield next(lines(self))
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        lines = unfinished.UnfinishedDetections.lines
        patched.setattr(unfinished.UnfinishedDetections, "lines", full)
        with pytest.raises(OSError, match="No space left"):
            detect(video, detector(), tmp_path / "out")
    resumed = detect(video, detector(fail=0), tmp_path / "out")
    assert resumed.path.read_bytes() == whole.path.read_bytes()


def test_a_python_function_that_failed_is_corrected_and_resumes(video: Path, tmp_path: Path) -> None:
    """The boxes before the failure are kept, and the summary says which version of the file found them."""
    file = tmp_path / "mine.py"
    file.write_text(FAILS_AT_FRAME_32)
    wrong = load_detector(f"{file}:find")
    with pytest.raises(UserError, match="frames 32 to 39: the detector failed"):
        detect(video, wrong, tmp_path / "out")
    correct = "def find(frames):\n    return [[[50, 50, 20, 20, 0.9]] for _ in frames]\n"
    file.write_text(correct)
    with pytest.warns(
        PolyptraceWarning, match="corrected after it failed at frame 32 -> the boxes of the frames before"
    ):
        made = detect(video, load_detector(f"{file}:find"), tmp_path / "out")
    lefts = [line.split(",")[2] for line in made.path.read_text().splitlines()]
    assert lefts == ["11.00"] * 32 + ["51.00"] * 268
    summary = json.loads(made.path.with_suffix(".json").read_text())
    assert summary["earlier_detectors"] == [[32, wrong.fingerprint]]
    assert detect(video, load_detector(f"{file}:find"), tmp_path / "out") == made
    file.write_text(correct.replace("50, 50", "10, 10"))  # edited after the end
    with pytest.raises(UserError, match="already exists, made with other settings, existing -> requested:\n  detector"):
        detect(video, load_detector(f"{file}:find"), tmp_path / "out")


def test_a_python_function_that_failed_and_was_not_changed_resumes_without_a_warning(
    video: Path, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    (tmp_path / "mine.py").write_text(FAILS_AT_FRAME_32)
    with pytest.raises(UserError, match="frames 32 to 39: the detector failed"):
        detect(video, load_detector(f"{tmp_path}/mine.py:find"), tmp_path / "out")
    with pytest.raises(UserError, match="frames 60 to 67: the detector failed"):
        detect(video, load_detector(f"{tmp_path}/mine.py:find"), tmp_path / "out")
    assert not recwarn.list


def test_a_detector_that_failed_in_the_first_frames_may_be_replaced(
    video: Path, detector: Make, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text("def find(frames):\n    raise ValueError\n")
    with pytest.raises(UserError, match="frames 0 to 7: the detector failed"):
        detect(video, load_detector(f"{tmp_path}/mine.py:find"), tmp_path / "out")
    made = detect(video, detector(), tmp_path / "out")
    assert frames_of(made) == list(range(300))
    assert json.loads(made.path.with_suffix(".json").read_text())["earlier_detectors"] == []


def test_another_function_does_not_resume_a_failed_one(video: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"{FAILS_AT_FRAME_32}def other(frames):\n    return [[] for _ in frames]\n")
    with pytest.raises(UserError, match="frames 32 to 39: the detector failed"):
        detect(video, load_detector(f"{file}:find"), tmp_path / "out")
    with pytest.raises(UserError, match=r"was begun with .* requested:\n  detector: .mine\.py:find "):
        detect(video, load_detector(f"{file}:other"), tmp_path / "out")


def test_a_killed_process_repeats_only_what_followed_its_last_state(video: Path, tmp_path: Path) -> None:
    program = tmp_path / "slow.py"
    program.write_text(
        "import time\nimport numpy as np\n"
        "def find(frames):\n    time.sleep(0.05)\n    return [np.array([[5, 5, 20, 20, 0.8]]) for _ in frames]\n"
    )
    words = [video, "--detector", f"{program}:find", "--out", tmp_path / "out"]
    code = (
        "import sys; from polyptrace.detect import unfinished; unfinished.FRAMES_PER_STATE = 40\n"
        "from polyptrace.cli import main; main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", code, "detect", *map(str, words)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    partial = tmp_path / "out/procedure.partial"
    while process.poll() is None and (not partial.exists() or partial.read_bytes().count(b"# ") < 3):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = json.loads([line for line in partial.read_text().splitlines() if line[0] == "#"][-1][2:])["frames"]
    assert 80 <= done < 300
    end = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "300 boxes (300 with a score of 0.5 or more) in 300 frames" in end.stdout
    assert frames_in(tmp_path / "out/procedure.txt") == list(range(1, 301))


def test_a_killed_process_does_not_search_the_field_again(video: Path, tmp_path: Path) -> None:
    """Nor does `prepare`, which reads the same video."""
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from polyptrace.config import Tracks; from polyptrace.data import prepare\n"
        "from polyptrace.data.crops import field\n"
        "from polyptrace.detect import detect; from tests.detect.conftest import Numbered\n"
        "class Killed(Numbered):\n    def __call__(self, frames, indices):\n"
        "        if 'kill' in sys.argv and 40 in indices: os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return super().__call__(frames, indices)\n"
        "sampled = field.sample_frames\n"
        "def search(*words):\n    print('searched', flush=True)\n    return sampled(*words)\n"
        "field.sample_frames = search\n"
        "detect(Path(sys.argv[1]), Killed(), Path(sys.argv[2]))\n"
        "prepare('mot', Path(sys.argv[2]), Path(sys.argv[3]), Tracks(link='video', max_gap=5, min_track=2, stride=1))\n"
    )
    command = [sys.executable, "-c", code, str(video), str(tmp_path / "out"), str(tmp_path / "data")]
    killed = subprocess.run([*command, "kill"], capture_output=True, text=True)
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, "searched\n")
    resumed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert resumed.stdout == ""
    assert {file.name for file in (tmp_path / "out").iterdir()} == {
        "procedure.mp4",
        "procedure.txt",
        "procedure.json",
        "procedure.field.png",
    }


def variable_rate(path: Path, options: dict[str, str]) -> None:
    """Frames with irregular times, some far apart as after dropped frames, and B-frames."""
    times = np.cumsum(np.random.default_rng(0).choice([20, 40, 40, 41, 400], 200)).tolist()
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt, stream.options = WIDTH, HEIGHT, "yuv420p", options
        stream.codec_context.time_base = Fraction(1, 1000)
        for picture, time_ms in zip(pictures(200), times, strict=True):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = time_ms, Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


@pytest.mark.parametrize("options", [{"bf": "3", "g": "30"}, {"bf": "2", "g": "25", "x264-params": "open-gop=1"}])
def test_frame_numbers_are_exact_with_b_frames_and_a_variable_rate(
    tmp_path: Path, detector: Make, options: dict[str, str]
) -> None:
    video = tmp_path / "v.mkv"
    variable_rate(video, options)
    made = detect(video, detector(), tmp_path / "out")
    assert frames_of(made) == list(range(200))
    positions = [position for position, _ in all_frames(video)]
    whole = [picture for _, picture in all_frames(video)]
    for start in (1, 31, 77, 180, 199):
        rest = list(all_frames(video, positions[start]))
        assert [position for position, _ in rest] == positions[start:]
        assert all(np.array_equal(one, other) for (_, one), other in zip(rest, whole[start:], strict=True))


def test_a_rotated_video_is_detected_as_it_is_displayed(tmp_path: Path, detector: Make) -> None:
    video = tmp_path / "v.mp4"
    write_video(video, (np.ascontiguousarray(np.rot90(numbered(index), 1)) for index in range(60)))
    content = bytearray(video.read_bytes())
    at = content.index(b"tkhd") + 44
    matrix = (0, 65536, 0, -65536, 0, 0, 0, 0, 1 << 30)
    content[at : at + 36] = b"".join((value & 0xFFFFFFFF).to_bytes(4, "big") for value in matrix)
    video.write_bytes(content)
    made = detect(video, detector(), tmp_path / "out")
    assert frames_of(made) == list(range(60))
    assert read_mot(made.path).image_width[0] == WIDTH


class Returning:
    """Returns the same for every frame."""

    fingerprint = "returning"

    def __init__(self, boxes: object) -> None:
        self.boxes = boxes

    def __call__(self, frames: list[np.ndarray], _: list[int], /) -> list[object]:
        return [self.boxes for _ in frames]


@pytest.mark.parametrize(
    ("boxes", "left", "message"),
    [
        ([[np.nan, 1, 20, 20, 0.9], [5, 5, 20, 20, 0.9]], 1, r"12 boxes dropped: not a number \(first in frame 0\)"),
        ([[500, 5, 20, 20, 0.9], [5, 5, 20, 20, 0.9]], 1, "12 boxes .* outside the picture or empty"),
        ([[5, 5, 0, 20, 0.9]], 0, "12 boxes .* outside the picture or empty"),
        ([[0, 0, 0, 0, 0.9]], 0, "12 boxes .* outside the picture or empty"),
        ([[0.1, 0, 0.3, 1, 0.9]], 0, "12 boxes dropped: between 0 and 1, but pixels are expected"),
        (
            np.tile([5.0, 5, 20, 20, 0.9], (1000, 1)),
            100,
            "10,800 boxes .* more than 100 in .* the best are kept; .* --min-score",
        ),
        ([[5, 5, 20, 20, 0.05]], 0, r"12 boxes .* no score reaches --min-score 0\.1 -> lower it"),
    ],
)
def test_unusable_boxes_are_dropped_with_a_warning(tmp_path: Path, boxes: object, left: int, message: str) -> None:
    video = tmp_path / "v.mp4"
    write_video(video, pictures(12))
    with pytest.warns(PolyptraceWarning, match=message):
        made = detect(video, Returning(boxes), tmp_path / "out")
    assert made.boxes == 12 * left


def test_boxes_that_reach_past_the_edge_are_clipped(tmp_path: Path) -> None:
    video = tmp_path / "v.mp4"
    write_video(video, pictures(3))
    made = detect(video, Returning([[-10, 5, 30, 200, 0.9]]), tmp_path / "out")
    assert read_mot(made.path).xywh[0].tolist() == [0, 5, 20, HEIGHT - 5]


@pytest.mark.parametrize("boxes", [np.ones((2, 4)), np.ones(5), np.ones((1, 6))])
def test_a_wrong_shape_is_an_error_that_names_the_frame(tmp_path: Path, boxes: object) -> None:
    video = tmp_path / "v.mp4"
    write_video(video, pictures(3))
    with pytest.raises(UserError, match=r"v\.mp4: frames 0 to 2: the detector returned an array of shape"):
        detect(video, Returning(boxes), tmp_path / "out")


def test_no_detection_at_all_is_an_empty_table(tmp_path: Path) -> None:
    video = tmp_path / "v.mp4"
    write_video(video, pictures(3))
    made = detect(video, Returning([]), tmp_path / "out")
    assert (made.boxes, made.path.read_bytes()) == (0, b"")


def test_a_truncated_video_is_used_up_to_its_end(tmp_path: Path, detector: Make) -> None:
    video = tmp_path / "v.mkv"
    write_video(video, pictures(200))
    content = video.read_bytes()
    video.write_bytes(content[: len(content) * 2 // 3])
    with pytest.warns(PolyptraceWarning, match=r"v\.mkv: the stream ends early or is damaged, at 0:0\d of 0:08"):
        made = detect(video, detector(), tmp_path / "out", border="keep")  # in every 4th frame, two columns are equal
    assert 60 < made.frames < 200
    assert frames_of(made) == list(range(made.frames))


def test_audio_only_and_other_files_are_refused(tmp_path: Path, detector: Make) -> None:
    sound = tmp_path / "sound.mp4"
    with av.open(str(sound), "w") as container:
        stream = container.add_stream("aac", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.rate = 8000
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    with pytest.raises(UserError, match=r"sound\.mp4: has no video stream"):
        detect(sound, detector(), tmp_path / "out")
    text = tmp_path / "notes.mp4"
    text.write_text("not a video")
    with pytest.raises(UserError, match=r"notes\.mp4: cannot be opened as a video"):
        detect(text, detector(), tmp_path / "out")


def test_ten_bits_and_4_2_2_are_decoded(tmp_path: Path, detector: Make) -> None:
    video = tmp_path / "v.mov"
    with av.open(str(video), "w") as container:
        stream = container.add_stream("prores_ks", rate=25)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv422p10le"
        for picture in pictures(20):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(format="yuv422p10le")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    assert frames_of(detect(video, detector(), tmp_path / "out")) == list(range(20))


def test_a_video_without_frame_rate_is_read_by_frame_numbers_and_resumed(tmp_path: Path, detector: Make) -> None:
    video = without_frame_rate(tmp_path / "v.mkv", pictures(60))
    with pytest.raises(UserError, match="the detector failed"):
        detect(video, detector(fail=35), tmp_path / "out")
    made = detect(video, detector(), tmp_path / "out")
    assert frames_of(made) == list(range(60))
    assert json.loads(made.path.with_suffix(".json").read_text())["fps"] is None
    assert np.isnan(read_mot(tmp_path / "out").fps).all()


def test_memory_does_not_grow_with_the_length_of_the_video(tmp_path: Path) -> None:
    """A child process: the limit is on its whole memory, with torch loaded. The frames alone would take 1.0 GB."""
    video = tmp_path / "v.mp4"
    row = np.linspace(60, 240, 1920)[:, None] * (1, 0.5, 0.4)
    write_video(video, (np.tile(np.roll(row, 16 * i, 0).astype(np.uint8), (1080, 1, 1)) for i in range(160)))
    code = (
        "import sys; from pathlib import Path; import numpy as np\n"
        "from polyptrace.detect import detect\n"
        "class Nothing:\n    fingerprint = 'nothing'\n    def __call__(self, frames, indices):\n"
        "        return [np.array([[5, 5, 20, 20, 0.8]])] * len(frames)\n"
        "detect(Path(sys.argv[1]), Nothing(), Path(sys.argv[2]))\n"
        # not ru_maxrss, which includes the memory of the process that started this one
        "print(*[line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')])\n"
    )
    command = [sys.executable, "-c", code, str(video), str(tmp_path / "out")]
    end = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    peak = int(end.stdout.split()[-1])
    assert peak < 1.5e6, peak  # kilobytes
    assert len(frames_in(tmp_path / "out/v.txt")) == 160
