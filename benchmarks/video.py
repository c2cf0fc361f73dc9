"""python -m benchmarks video

From a 1080p recording to vectors: `detect`, `prepare` and `embed`, as `polyptrace run` calls them, with an RT-DETRv2 of
18 layers at 320 pixels and the default encoder. The recording is a noisy texture that moves in an octagonal field. The
detector's weights are random, so each of its results is replaced by a box in the middle of the frame.

- Overhead, on a CPU: the processor time of `detect` above that of decoding alone and of the detector alone; and with a
  detector that does nothing, above that of decoding alone.
- Memory, on a CPU: the peak of a process that runs the stages one after the other, in each. It does not depend on the
  length of the recording (`tests/detect/test_recording.py`).
- Speed, on a GPU: frames of the recording per second of `detect`, beside the slower of decoding alone and the detector
  alone; and of all stages, beside the slowest part alone.

Each part is printed as soon as it is measured.

The time for finding the endoscope's field, once per recording, is reported separately.
"""

import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, redirect_stderr
from functools import partial
from io import StringIO
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from transformers import RTDetrImageProcessor, RTDetrV2Config, RTDetrV2ForObjectDetection

from benchmarks.result import Cells, Result, Row, number_text
from benchmarks.timing import apart, report_work
from polyptrace.cli.detect import BATCH as BATCHES
from polyptrace.cli.detect import LINKING
from polyptrace.config import Crops, Embed
from polyptrace.core.arrays import Pixels
from polyptrace.core.device import choose_device, torch_threads
from polyptrace.data import prepare
from polyptrace.data.crops.field import field_mask
from polyptrace.data.crops.videos import all_frames, write_video
from polyptrace.detect import detect
from polyptrace.detect.detector import Frame, ScoredBoxes
from polyptrace.detect.transformers_folder import TransformersFolder
from polyptrace.embed import embed_files

WIDTH, HEIGHT, SIDE = 1920, 1080, 320
DEVICE = choose_device("auto", "")[0]
BATCH = BATCHES[DEVICE.type]
STAGES = ("detect", "prepare", "embed")
ALONE = ("decoding alone", "the detector alone")
WITHOUT = "detect, without a detector"
DIFFERENT = 64  # frames, which a longer recording repeats
BOX = (910.0, 490.0, 100.0, 100.0, 0.9)


class MiddleBox:
    """A detector that computes, and then returns a box in the middle."""

    fingerprint = "box in the middle"

    def __init__(self, folder: Path) -> None:
        self._detector = TransformersFolder(folder, DEVICE)

    def __call__(self, frames: Sequence[Frame], indices: Sequence[int], /) -> list[ScoredBoxes]:
        self._detector(frames, indices)
        return [np.array([BOX])] * len(frames)


class Nothing:
    """A detector that finds nothing at once."""

    fingerprint = "nothing"

    def __call__(self, frames: Sequence[Frame], _: Sequence[int], /) -> list[ScoredBoxes]:
        return [np.empty((0, 5))] * len(frames)


def rt_detr() -> RTDetrV2ForObjectDetection:
    """An RT-DETRv2 of 18 layers with random weights."""
    hidden, stages = [64, 128, 256, 512], ["stage2", "stage3", "stage4"]
    backbone = {"model_type": "rt_detr_resnet", "layer_type": "basic", "depths": [2, 2, 2, 2]}
    backbone |= {"hidden_sizes": hidden, "embedding_size": hidden[0], "out_features": stages}
    config = RTDetrV2Config(
        backbone_config=backbone, encoder_in_channels=hidden[1:], decoder_layers=3, num_queries=100, num_labels=1
    )
    return RTDetrV2ForObjectDetection(config)


def recording() -> Iterator[Pixels]:
    """Frames (H, W, 3) of a moving texture with the noise of a sensor, in an octagon."""
    rng = np.random.default_rng(0)
    coarse = rng.uniform(40, 220, (2, 45, 60)).repeat(48, 1).repeat(48, 2)
    texture = np.stack([coarse[0], 0.5 * coarse[1], 0.4 * coarse[0]], 2).astype(np.uint8)
    noise = rng.integers(0, 12, (HEIGHT + 64, WIDTH + 64, 1), dtype=np.uint8)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    inside = (np.abs(x - WIDTH / 2) < 640) & (np.abs(y - HEIGHT / 2) < 520)
    inside &= np.abs(x - WIDTH / 2) + np.abs(y - HEIGHT / 2) < 960
    for index in range(DIFFERENT):
        left, top = 7 * index % 900, 5 * index % 1000
        a, b = rng.integers(0, 64, 2)
        picture = texture[top : top + HEIGHT, left : left + WIDTH] + noise[a : a + HEIGHT, b : b + WIDTH]
        yield picture * inside[..., None]


def stages(video: Path, detector: MiddleBox, out: Path) -> dict[str, Callable[[], object]]:
    """The stages of `polyptrace run` up to the vectors."""
    return {
        "detect": lambda: detect(video, detector, out / "detections", batch=BATCH),
        "prepare": lambda: prepare("mot", out / "detections", out / "data", LINKING, Crops()),
        "embed": lambda: embed_files("default", out / "data", out / "vectors", settings=Embed()),
    }


def timed(name: str, count: int, work: Callable[[], object], clock: Callable[[], float]) -> float:
    """Seconds of some work, without its progress; prints the frames per second."""
    with redirect_stderr(StringIO()):
        start = clock()
        work()
        seconds = clock() - start
    print(f"{name}: {number_text(count / seconds)} frames per second", flush=True)
    return seconds


def measure(quick: bool = False) -> Result:
    """Overhead, memory and speed."""
    on_gpu = DEVICE.type == "cuda"
    count = 16 if quick else 1600 if on_gpu else 64
    with TemporaryDirectory() as name:
        folder = Path(name)
        video = folder / "recording.mp4"
        write_video(video, islice(cycle(recording()), count))
        rt_detr().save_pretrained(folder / "detector")
        RTDetrImageProcessor(size={"height": SIDE, "width": SIDE}).save_pretrained(folder / "detector")
        detector = MiddleBox(folder / "detector")
        batch = [frame for _, frame in islice(all_frames(video), BATCH)]
        detector(batch, range(BATCH))  # the first call initialises libraries
        clock = time.perf_counter if on_gpu else time.process_time
        case = folder / "case"
        # once per recording, however long it is; it is stored, and not searched again by the stages
        field = timed("finding the field", count, lambda: field_mask(video, case / "detections"), clock)
        shutil.copytree(case / "detections", case / "nothing")
        parts = {
            ALONE[0]: lambda: deque(all_frames(video), maxlen=1),
            ALONE[1]: lambda: [detector(batch, range(BATCH)) for _ in range(count // BATCH)],
            WITHOUT: lambda: detect(video, Nothing(), case / "nothing", batch=BATCH),
            **stages(video, detector, case),
        }
        with nullcontext() if on_gpu else torch_threads(1):  # waiting threads take processor time
            times = {name: timed(name, count, work, clock) for name, work in parts.items()}
        peaks = {} if on_gpu else memory_of(video, folder)
    return result(count, on_gpu, field, times, peaks)


def memory_of(video: Path, folder: Path) -> dict[str, float]:
    """Peak MiB in each stage of a separate process."""
    results = apart("benchmarks.video", video, folder / "detector", folder / "apart")
    return {name: memory for name, (_, memory) in zip(STAGES, results, strict=True)}


def result(count: int, on_gpu: bool, field: float, times: dict[str, float], peaks: dict[str, float]) -> Result:
    """The rows and the table of parts, from seconds and MiB."""
    alone = {name: times[name] for name in ALONE}
    parts = alone | {name: times[name] for name in STAGES if name != "detect"}
    slowest = max(parts, key=lambda part: parts[part])
    rows = [Row(f"memory of {name}, 1080p", "MiB", peak, most=1536) for name, peak in peaks.items()]
    if on_gpu:
        slower = max(alone, key=lambda part: alone[part])
        fast = partial(Row, unit="frames/s", more_is_better=True)
        rows += [
            fast(
                "detect, 1080p",
                ours=count / times["detect"],
                limit=count / alone[slower],
                limit_name=slower,
                least_share=0.8,
            ),
            fast(
                "decode, detect, link and embed, 1080p",
                ours=count / sum(times[name] for name in STAGES),
                limit=count / parts[slowest],
                limit_name=slowest,
            ),
        ]
    else:
        overhead = 100 * (times["detect"] / sum(alone.values()) - 1)
        rows.append(Row("overhead of detect beside decoder and detector, 1080p", "%", overhead, most=10))
        own = 1000 * (times[WITHOUT] - alone[ALONE[0]]) / count
        rows.append(Row("detect beside the decoder, without a detector, 1080p", "ms per frame", own, most=5))
    details: list[Cells] = [("", "s per 1,000 frames", "frames per second")]
    details += [
        (name, number_text(1000 * seconds / count), number_text(count / seconds)) for name, seconds in times.items()
    ]
    clock = "by the clock" if on_gpu else "of processor time, with one thread"
    note = f"{count:,} frames of 1080p with one box each. Seconds {clock}; the slowest part: {slowest}."
    note += f" Finding the endoscope's field is not part of it; it took {field:.1f} s for this recording."
    return Result("video", tuple(rows), note, tuple(details))


if __name__ == "__main__":  # all stages, with the processor time and the peak memory of each
    recording, detector, out = map(Path, sys.argv[1:])
    for work in stages(recording, MiddleBox(detector), out).values():
        report_work(work, before=0.0)
