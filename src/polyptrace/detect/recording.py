"""Runs a detector over a video and writes its boxes as a MOT file, `OUT/NAME.txt`, beside a link to the video.

    detect(Path("procedure.mp4"), load_detector("polyps.onnx"), Path("detections"))

A run that was killed resumes at the same frame and ends with the same bytes. Frames that do not show the colon are
skipped, as `frame_judge.py` judges them.
"""

import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice, repeat, takewhile
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
from polyptrace.core.read_ahead import map_ahead
from polyptrace.core.schema import from_json
from polyptrace.core.timecode import timecode
from polyptrace.data.crops.field import field_mask
from polyptrace.data.crops.videos import FramePosition, all_frames, video_info
from polyptrace.detect.detector import START_SCORE, Detector, Frame
from polyptrace.detect.frame_judge import FROZEN, FrameJudge, outside_body
from polyptrace.detect.stored_boxes import StoredBoxes
from polyptrace.detect.unfinished import ADVICE, Dropped, State, UnfinishedDetections
from polyptrace.detect.usable_boxes import TOO_MANY, DetectorError, UsableBoxes, usable_boxes

T = TypeVar("T")

READ_AHEAD = 2  # batches
#: Seconds after which the thread of the detector lets that of the decoder run, which needs little time but often.
SWITCH_S = 0.0005
COMPLETE = 0.98  # share of the announced duration below which a video ends early


@dataclass(frozen=True, kw_only=True)
class _Summary:
    """The fields of `NAME.json`."""

    format: Literal[1] = 1
    video: str
    settings: dict[str, Any]
    frames: int
    boxes: int
    strong_boxes: int  # with a score of START_SCORE or more
    fps: float | None
    skipped: list[list[Any]]  # [first frame, last frame, reason]
    dropped: dict[str, Dropped]  # by reason
    field: float | None  # share of the picture
    earlier_detectors: list[list[Any]]  # [frames that were done, fingerprint]
    warnings: list[str]  # "problem -> advice"
    made_by: dict[str, Any]

    def __post_init__(self) -> None:
        for run in self.skipped:
            if [type(each) for each in run] != [int, int, str]:
                raise ValueError(f"skipped: {run} is not [first frame, last frame, reason]")


def _read_summary(path: Path) -> _Summary:
    return from_json(_Summary, read_json(path), str(path), "remove the files of this video, and detect again")


@dataclass(frozen=True, kw_only=True)
class Detections(_Summary):
    """The finished detections of a video."""

    path: Path  # MOT file

    @classmethod
    def load(cls, path: Path) -> Self:
        """The detections of a MOT file, summarised in the JSON file beside it."""
        return cls(path=path, **vars(_read_summary(path.with_suffix(".json"))))

    @property
    def skipped_frames(self) -> dict[str, int]:
        """Number of skipped frames by reason."""
        counts: Counter[str] = Counter()
        for first, last, reason in self.skipped:
            counts[reason] += last - first + 1
        return dict(counts)

    @property
    def dropped_boxes(self) -> list[str]:
        """How many boxes were dropped, why, and the first frame, in words."""
        return _dropped_boxes(self.dropped)


def _dropped_boxes(dropped: dict[str, Dropped]) -> list[str]:
    return [
        f"{counted(each.boxes, 'box', 'boxes')} dropped: {reason} (first in frame {each.first_frame})"
        for reason, each in dropped.items()
    ]


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

    Warnings are stored, and repeated for a video that is finished.

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
            return _loaded(table, video)
        if table.exists() and not partial.exists():
            raise UserError(f"{table}: already exists, not written by this command -> give another folder")
        mask = field_mask(video, out) if border == "blank" else None
        with UnfinishedDetections.open(partial, settings) as unfinished:
            _run(video, detector, unfinished, mask, min_score, batch, info.frames)
            outside = outside_body(unfinished.state)
            boxes, strong_boxes = _write_table(table, unfinished, outside)
            state = unfinished.state
        if isinstance(detector, StoredBoxes):
            reason = f"not in the {counted(state.frames, 'frame')} of the video, so they may be of another recording"
            state.drop(state.frames, {reason: detector.boxes_outside(state.frames)})
        made = _Summary(
            video=video.name,
            settings=settings,
            frames=state.frames,
            boxes=boxes,
            strong_boxes=strong_boxes,
            fps=info.fps if np.isfinite(info.fps) else None,
            skipped=sorted(state.skipped + outside),
            dropped=state.dropped,
            field=None if mask is None else round(float((mask[..., 0] > 0).mean()), 4),
            earlier_detectors=state.earlier_detectors,
            warnings=_warnings(state, info.seconds, min_score),
            made_by=provenance(),
        )
        write_json(summary, asdict(made))
        partial.unlink()
        return _loaded(table, video)


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
            usable = {position.frame: frame for position, frame, reason, _ in new if not reason}
            detected = _detect(video, detector, usable, state, min_score)
            for position, _, reason, red in new:
                if reason:
                    state.skip(position.frame, reason)
                else:
                    unfinished.add(position.frame, detected[position.frame].boxes)
                    state.drop(position.frame, detected[position.frame].dropped)
                    state.weak += detected[position.frame].weak
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


def _detect(
    video: Path, detector: Detector, frames: dict[int, Frame], state: State, min_score: float
) -> dict[int, UsableBoxes]:
    """The boxes of some frames, by their numbers."""
    if not frames:
        return {}
    indices = list(frames)
    where = f"{video}: frame {indices[0]}" if len(indices) == 1 else f"{video}: frames {indices[0]} to {indices[-1]}"
    try:
        detected = usable_boxes(detector, list(frames.values()), indices, where, min_score)
    except DetectorError as error:
        state.failed = True
        raise UserError(f"{error}; the boxes of the frames before are kept") from error
    return dict(zip(indices, detected, strict=True))


def _write_table(table: Path, unfinished: UnfinishedDetections, outside: list[list[Any]]) -> tuple[int, int]:
    """Writes the MOT file without boxes outside the body; returns the number of boxes, and of strong ones."""
    count, strong = 0, 0
    with atomic_file(table) as temporary, temporary.open("wb") as file:
        for line in unfinished.lines():
            frame = int(line.partition(b",")[0]) - 1
            if not any(first <= frame <= last for first, last, _ in outside):
                file.write(line)
                count += 1
                strong += float(line.split(b",")[6]) >= START_SCORE
    return count, strong


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
        yield from takewhile(bool, map_ahead(lambda _: read(), repeat(None), threads=1, ahead=depth))
    finally:
        sys.setswitchinterval(interval)


def _loaded(table: Path, video: Path) -> Detections:
    """The finished detections, with their warnings."""
    detections = Detections.load(table)
    for text in detections.warnings:
        warn(f"{video}: {text}")
    return detections


def _warnings(state: State, announced: float, min_score: float) -> list[str]:
    """What a user should know about the detections of a video."""
    warnings = []
    if state.seconds < COMPLETE * announced - 1:
        warnings.append(
            f"the stream ends early or is damaged, at {timecode(state.seconds, 1)} of {timecode(announced, 1)} -> "
            "everything before is used; copy or export the video again if it should be longer"
        )
    advice = dict.fromkeys(state.dropped, "look at some with 'polyptrace detect --preview'; boxes are in pixels")
    advice |= {TOO_MANY: "the best are kept; if they are too many, give a higher --min-score"}
    warnings += [
        f"{text} -> {advice[reason]}" for reason, text in zip(state.dropped, _dropped_boxes(state.dropped), strict=True)
    ]
    if state.weak and not state.boxes:
        warnings.append(
            f"{counted(state.weak, 'box', 'boxes')} dropped, because no score reaches --min-score {min_score:g} -> "
            "lower it, or check the scores"
        )
    return warnings
