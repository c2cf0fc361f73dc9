"""The file of an unfinished detection, `NAME.partial`: MOT lines, and lines with the state from which a run resumes."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO, Self

from polyptrace.core.errors import UserError, warn
from polyptrace.core.files import differences, refuse_changes
from polyptrace.core.schema import from_json
from polyptrace.detect.detector import ScoredBoxes
from polyptrace.detect.function import is_corrected

FRAMES_PER_STATE, SECONDS_PER_STATE = 1000, 20.0  # the most work that a killed run repeats
STATE = b"# "  # how a line with the state begins
ADVICE = "use the same settings, give another folder, or remove the detections of this video first"


@dataclass
class Dropped:
    """Unusable boxes."""

    boxes: int
    first_frame: int


@dataclass
class State:
    """What is known after some frames, besides their boxes."""

    settings: dict[str, Any]
    frames: int = 0  # that are done
    seconds: float = 0.0  # time of the last one
    boxes: int = 0
    skipped: list[list[Any]] = field(default_factory=list)  # [first frame, last frame, reason]
    dropped: dict[str, Dropped] = field(default_factory=dict)  # by reason
    weak: int = 0  # number of boxes below the minimum score
    red: int = 0  # number of red frames
    first_red: int = 0
    last_red: int = 0
    start: tuple[int | None, ...] = (0, None)  # index and time stamp of the frame from which a resumed run decodes
    failed: bool = False  # whether the detector raised an exception or returned something wrong
    earlier_detectors: list[list[Any]] = field(default_factory=list)  # [frames that were done, fingerprint]

    def skip(self, frame: int, reason: str) -> None:
        """Adds a skipped frame to the list of runs."""
        if self.skipped and self.skipped[-1][1:] == [frame - 1, reason]:
            self.skipped[-1][1] = frame
        else:
            self.skipped.append([frame, frame, reason])

    def drop(self, frame: int, counts: dict[str, int]) -> None:
        """Counts the unusable boxes of a frame, given by reason."""
        for reason, count in counts.items():
            if count:
                self.dropped.setdefault(reason, Dropped(0, frame)).boxes += count

    def correct(self, path: Path, detector: str) -> None:
        """Continues with a detector that was corrected after it failed; `path` is the file of the state."""
        self.earlier_detectors.append([self.frames, self.settings["detector"]])
        self.settings["detector"] = detector
        warn(
            f"{path}: the detector was corrected after it failed at frame {self.frames} -> the boxes of the frames"
            f" before, which its earlier version found, are kept; remove {path.name} to detect in all frames again"
        )


class UnfinishedDetections:
    """The open file and its current state."""

    def __init__(self, file: BinaryIO, state: State) -> None:
        self._file, self.state = file, state
        self._saved_frames, self._saved_time = state.frames, monotonic()

    @classmethod
    @contextmanager
    def open(cls, path: Path, settings: dict[str, Any]) -> Iterator[Self]:
        """The file at `path`, without what follows its last state; what was done is saved even after an error."""
        path.touch()
        with path.open("r+b") as file:
            state, end = State(settings), 0
            for line in file:
                if not line.endswith(b"\n"):
                    break
                if line.startswith(STATE):
                    state = from_json(State, _parsed(line, path), str(path), f"remove {path.name}")
                    end = file.tell()
            if not state.frames:  # nothing to resume, so the settings may be others
                state, end = State(settings), 0
            if state.failed and is_corrected(str(state.settings.get("detector")), settings["detector"]):
                state.correct(path, settings["detector"])
            refuse_changes(f"{path}: was begun", differences(state.settings, settings), ADVICE)
            state.failed = False
            file.seek(end)
            file.truncate()
            unfinished = cls(file, state)
            try:
                yield unfinished
            finally:
                unfinished.save(now=True)

    def add(self, frame: int, scored: ScoredBoxes) -> None:
        """Writes the boxes of a frame as MOT lines; frames and pixels count from 1."""
        for x, y, w, h, score in scored.tolist():
            self._file.write(f"{frame + 1},-1,{x + 1:.2f},{y + 1:.2f},{w:.2f},{h:.2f},{score:.4f},-1,-1,-1\n".encode())
        self.state.boxes += len(scored)

    def save(self, *, now: bool = False) -> None:
        """Writes the state to disk, if enough was done since the last time."""
        done, seconds = self.state.frames - self._saved_frames, monotonic() - self._saved_time
        if now or done >= FRAMES_PER_STATE or (done and seconds > SECONDS_PER_STATE):
            self._file.seek(0, os.SEEK_END)  # an error may have ended `lines` in the middle of the file
            self._file.write(STATE + json.dumps(asdict(self.state)).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
            self._saved_frames, self._saved_time = self.state.frames, monotonic()

    def lines(self) -> Iterator[bytes]:
        """All MOT lines."""
        self._file.flush()
        self._file.seek(0)
        return (line for line in self._file if not line.startswith(STATE))


def _parsed(line: bytes, path: Path) -> Any:
    try:
        return json.loads(line.removeprefix(STATE))
    except ValueError:
        raise UserError(f"{path}: is damaged -> remove it; the detection of this video starts again") from None
