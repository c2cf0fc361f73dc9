"""Runs a detector over a video and writes its boxes as a MOT file, `OUT/NAME.txt`, beside a link to the video.

    detect(Path("procedure.mp4"), load_detector("polyps.onnx"), Path("detections"))

A run that was killed resumes at the same frame and ends with the same bytes. Frames that do not show the colon are
skipped, as `frame_judge.py` judges them.
"""

import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import numpy as np

from polyptrace.core.console import counted, progress
from polyptrace.core.errors import UserError, warn
from polyptrace.core.files import (
    atomic_file,
    check_writable,
    differences,
    provenance,
    read_json,
    refuse_changes,
    write_json,
)
from polyptrace.core.lock import lock
from polyptrace.core.schema import from_json
from polyptrace.core.timecode import timecode
from polyptrace.data.crops.field import field_mask
from polyptrace.data.crops.videos import FramePosition, all_frames, video_info
from polyptrace.detect.detector import Detector, Found, Frame
from polyptrace.detect.frame_judge import FROZEN, FrameJudge, outside_body
from polyptrace.detect.stored_boxes import StoredBoxes
from polyptrace.detect.unfinished import ADVICE, State, UnfinishedDetections

T = TypeVar("T")

READ_AHEAD = 2  # batches
#: Seconds after which the thread of the detector lets that of the decoder run, which needs little time but often.
SWITCH_S = 0.0005
MOST_BOXES = 100  # of a frame; the weakest are dropped
COMPLETE = 0.98  # share of the announced duration below which a video ends early


@dataclass(frozen=True, kw_only=True)
class _Summary:
    """The fields of `NAME.json`."""

    format: Literal[1] = 1
    video: str
    settings: dict[str, Any]
    frames: int
    boxes: int
    fps: float | None
    skipped: list[list[Any]]
    dropped: dict[str, int]
    field: float | None  # share of the picture
    earlier_detectors: list[list[Any]]  # [frames that were done, fingerprint]
    made_by: dict[str, Any]

    def __post_init__(self) -> None:
        for run in self.skipped:
            if [type(each) for each in run] != [int, int, str]:
                raise ValueError(f"skipped: {run} is not [first frame, last frame, reason]")


def _read_summary(path: Path) -> _Summary:
    return from_json(_Summary, read_json(path), str(path), "remove the files of this video, and detect again")


@dataclass(frozen=True)
class Detections:
    """The finished detections of a video."""

    path: Path  # MOT file
    frames: int
    boxes: int
    skipped: tuple[tuple[int, int, str], ...]  # first frame, last frame, reason

    @classmethod
    def load(cls, path: Path) -> Self:
        """The detections of a MOT file, summarised in the JSON file beside it."""
        summary = _read_summary(path.with_suffix(".json"))
        runs = tuple((first, last, reason) for first, last, reason in summary.skipped)
        return cls(path, summary.frames, summary.boxes, runs)

    @property
    def skipped_frames(self) -> dict[str, int]:
        """Number of skipped frames by reason."""
        counts: Counter[str] = Counter()
        for first, last, reason in self.skipped:
            counts[reason] += last - first + 1
        return dict(counts)


def detect(
    video: Path,
    detector: Detector,
    out: Path,
    *,
    min_score: float = 0.1,
    border: str = "blank",
    batch: int = 8,
) -> Detections:
    """Writes the boxes of a video to `out` and returns a summary; a video that is finished is left unchanged.

    Boxes with a lower score than `min_score` are dropped. With the `border` "keep", the detector also sees what is
    outside of the endoscope's field. `batch` frames are given to the detector at once.
    """
    info, mark = video_info(video), _size_and_time(video)
    settings = {"detector": detector.fingerprint, "min_score": min_score, "border": border, "video": mark}
    table = out / f"{video.stem}.txt"
    summary, partial = table.with_suffix(".json"), table.with_suffix(".partial")
    if not summary.is_file():
        check_writable(table)
    with lock(table):
        out.mkdir(parents=True, exist_ok=True)
        _symlink_video(video, out)
        if summary.is_file():  # written last
            changed = differences(_read_summary(summary).settings, settings)
            refuse_changes(f"{table}: already exists, made", changed, ADVICE)
            partial.unlink(missing_ok=True)  # of a run that was killed after its last step
            return Detections.load(table)
        if table.exists() and not partial.exists():
            raise UserError(f"{table}: already exists, not written by this command -> give another folder")
        mask = field_mask(video, out) if border == "blank" else None
        with UnfinishedDetections.open(partial, settings) as unfinished:
            _run(video, detector, unfinished, mask, min_score, batch, info.frames)
            outside = outside_body(unfinished.state)
            boxes = _write_table(table, unfinished, outside)
            state = unfinished.state
        if isinstance(detector, StoredBoxes):
            reason = f"not in the {counted(state.frames, 'frame')} of the video, so they may be of another recording"
            state.drop(detector.boxes_outside(state.frames), reason)
        made = _Summary(
            video=video.name,
            settings=settings,
            frames=state.frames,
            boxes=boxes,
            fps=info.fps if np.isfinite(info.fps) else None,
            skipped=sorted(state.skipped + outside),
            dropped=state.dropped,
            field=None if mask is None else round(float((mask[..., 0] > 0).mean()), 4),
            earlier_detectors=state.earlier_detectors,
            made_by=provenance(),
        )
        write_json(summary, asdict(made))
        partial.unlink()
    _warn(video, state, info.seconds, min_score)
    return Detections.load(table)


def _run(
    video: Path,
    detector: Detector,
    unfinished: UnfinishedDetections,
    field: Frame | None,
    min_score: float,
    batch: int,
    total: int,
) -> None:
    """Detects in all frames that are not done."""
    state, judge = unfinished.state, FrameJudge(field)
    index, pts = state.start
    recent: deque[FramePosition] = deque(maxlen=FROZEN + 2)  # judged again after resuming, to know what is frozen
    frames = _judged(video, judge, all_frames(video, FramePosition(index or 0, pts), field))
    with progress(f"detecting in {video.name}", total or None, "frames") as bar:
        bar.skip(state.frames)
        for group in _read_ahead(lambda: list(islice(frames, batch)), READ_AHEAD):
            new = [each for each in group if each[0].frame >= state.frames]
            usable = [(position.frame, frame) for position, frame, reason, _ in new if not reason]
            found = dict(zip((i for i, _ in usable), _call(video, detector, usable, state, min_score), strict=True))
            for position, _, reason, red in new:
                if reason:
                    state.skip(position.frame, reason)
                else:
                    unfinished.add(position.frame, found[position.frame])
                if red:
                    state.first_red = state.first_red if state.red else position.frame
                    state.last_red, state.red = position.frame, state.red + 1
            recent.extend(position for position, *_ in group)
            if new:
                state.frames, state.seconds = new[-1][0].frame + 1, new[-1][0].seconds
                state.start = recent[0][:2]
                bar.advance(len(new))
                bar.say(counted(state.boxes, "box", "boxes"))
                unfinished.save()


def _judged(
    video: Path, judge: FrameJudge, frames: Iterator[tuple[FramePosition, Frame]]
) -> Iterator[tuple[FramePosition, Frame, str, bool]]:
    """Frames with the reason why they are skipped, and whether they are red."""
    shape = None
    for position, frame in frames:
        shape = shape or frame.shape
        if frame.shape != shape:
            raise UserError(
                f"{video}: frame {position.frame} has {frame.shape[1]} x {frame.shape[0]} pixels, the first one "
                f"{shape[1]} x {shape[0]} -> export the video with one picture size"
            )
        yield position, frame, *judge(frame)


def _call(
    video: Path, detector: Detector, frames: list[tuple[int, Frame]], state: State, min_score: float
) -> list[Found]:
    """The usable boxes of some frames."""
    if not frames:
        return []
    indices = [index for index, _ in frames]
    where = f"{video}: frame {indices[0]}" if len(indices) == 1 else f"{video}: frames {indices[0]} to {indices[-1]}"
    try:
        results = [np.asarray(each, np.float64) for each in detector([frame for _, frame in frames], indices)]
    except UserError:
        raise
    except Exception as error:
        state.failed = True
        raise UserError(
            f"{where}: the detector failed ({type(error).__name__}: {error}) -> correct it and run the same command "
            "again; it resumes at these frames and keeps the boxes before"
        ) from error
    shapes = [each.shape for each in results if each.size and (each.ndim != 2 or each.shape[1] != 5)]
    if len(results) != len(frames) or shapes:
        wrong = f"an array of shape {shapes[0]}" if shapes else f"{len(results)} results"
        raise UserError(
            f"{where}: the detector returned {wrong} -> return one array (n, 5) with x, y, width, height and score "
            "for each frame"
        )
    height, width = frames[0][1].shape[:2]
    return [_usable(each.reshape(-1, 5), width, height, state, min_score) for each in results]


def _usable(found: Found, width: int, height: int, state: State, min_score: float) -> Found:
    """The boxes clipped to the picture, without those that are unusable or too weak."""
    finite = np.isfinite(found).all(axis=1)
    state.drop(int((~finite).sum()), "not a number")
    weak = found[:, 4] < min_score
    state.weak += int((finite & weak).sum())
    found = found[finite & ~weak]
    low, high = found[:, :2].clip(0, (width, height)), (found[:, :2] + found[:, 2:4]).clip(0, (width, height))
    inside = (high - low >= 1).all(axis=1)  # also removes boxes without width or height
    state.drop(int((~inside).sum()), "outside the picture or empty")
    found = np.column_stack([low, high - low, found[:, 4]])[inside]
    state.drop(max(0, len(found) - MOST_BOXES), f"more than {MOST_BOXES} in a frame")
    return found[np.argsort(-found[:, 4], kind="stable")[:MOST_BOXES]]


def _write_table(table: Path, unfinished: UnfinishedDetections, outside: list[list[Any]]) -> int:
    """Writes the MOT file without boxes outside the body; returns the number of boxes."""
    count = 0
    with atomic_file(table) as temporary, temporary.open("wb") as file:
        for line in unfinished.lines():
            frame = int(line.partition(b",")[0]) - 1
            if not any(first <= frame <= last for first, last, _ in outside):
                file.write(line)
                count += 1
    return count


def _symlink_video(video: Path, out: Path) -> None:
    """Puts a link to the video into `out`, so that `prepare mot OUT` finds it beside its boxes."""
    link = out / video.name
    if link.exists() and not link.samefile(video) and _size_and_time(link) != _size_and_time(video):  # a copy is fine
        raise UserError(f"{link}: is another video of the same name -> give another folder, or rename one of them")
    if not link.exists():
        link.unlink(missing_ok=True)  # a link to a video that was moved
        link.symlink_to(video.resolve())


def _size_and_time(video: Path) -> list[int]:
    """What identifies the file of a video."""
    status = video.stat()
    return [status.st_size, status.st_mtime_ns]


def _read_ahead(read: Callable[[], list[T]], depth: int) -> Iterator[list[T]]:
    """The results of `read` until one is empty, read in a thread while the previous ones are used."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        with ThreadPoolExecutor(1) as pool:
            pending = deque(pool.submit(read) for _ in range(depth))
            while group := pending.popleft().result():
                pending.append(pool.submit(read))
                yield group
    finally:
        sys.setswitchinterval(interval)


def _warn(video: Path, state: State, announced: float, min_score: float) -> None:
    if state.seconds < COMPLETE * announced - 1:
        warn(
            f"{video}: the stream ends early or is damaged, at {timecode(state.seconds, 1)} of {timecode(announced, 1)}"
            " -> everything before is used; copy or export the video again if it should be longer"
        )
    for reason, count in state.dropped.items():
        warn(
            f"{video}: {counted(count, 'box', 'boxes')} of the detector dropped: {reason} -> look at some with "
            "'polyptrace detect --preview'; boxes are in pixels"
        )
    if state.weak and not state.boxes:
        warn(
            f"{video}: {counted(state.weak, 'box', 'boxes')} of the detector dropped, because no score reaches "
            f"--min-score {min_score:g} -> lower it, or check the scores"
        )
