"""Pictures out of video files (MP4, MOV, MKV, AVI), frame by frame, through PyAV (extra `video`).

A frame's number is its place in the order of presentation, counted by decoding, so that B-frames, a variable frame rate
and containers without a table of frames all give exactly the frame that was annotated.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from polyptrace.core.errors import UserError


@dataclass(frozen=True)
class VideoInfo:
    """What a video file says of itself; width and height are those of the pictures as shown, after rotation."""

    width: int
    height: int
    fps: float  # mean rate; NaN if the file does not say


def frames(
    path: Path, frame_indices: Iterable[int], go_on: Callable[[], None] = lambda: None
) -> Iterator[tuple[int, Tensor]]:
    """Yields (frame index, uint8 (3, H, W) RGB picture as shown) for the wanted frames, in ascending order.

    One picture is held at a time. Where the stream ends early or is damaged, what comes before is yielded, and a
    warning says which frames are not there. `go_on` is called at every frame, wanted or not: what it raises stops.
    """
    wanted = sorted({int(index) for index in frame_indices})
    if wanted and wanted[0] < 0:
        raise ValueError(f"frame indices count from 0: {wanted[0]}")
    if not wanted:
        return
    place = 0
    with _open(path) as container:
        for index, frame in enumerate(_decoded(container)):
            go_on()
            if index == wanted[place]:
                yield index, _picture(frame)
                place += 1
                if place == len(wanted):
                    return
    missing = len(wanted) - place
    warnings.warn(
        f"{path}: the stream ends early or is damaged: {missing:,} of {len(wanted):,} wanted frames, from frame "
        f"{wanted[place]} on, are not in it; everything before is kept -> copy or export the video "
        "again, or were the boxes made on another one?",
        stacklevel=2,
    )


def video_info(path: Path) -> VideoInfo:
    """Size as shown and frame rate of a video file."""
    with _open(path) as container:
        frame = next(_decoded(container), None)
        if frame is None:
            raise UserError(f"{path}: no frame can be decoded -> copy or export the video again")
        rate = container.streams.video[0].average_rate
        turned = _quarter_turns(frame) % 2 == 1
        width, height = (frame.height, frame.width) if turned else (frame.width, frame.height)
        return VideoInfo(width, height, float(rate) if rate else float("nan"))


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    try:
        import av
    except ImportError:
        raise UserError(f"{path}: video files need PyAV -> pip install 'polyptrace[video]'") from None
    try:
        container = av.open(str(path), metadata_errors="replace")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file -> check the path") from None
    except (av.error.FFmpegError, OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"{path}: cannot be opened as a video ({reason}) -> was it copied to the end? An MP4 without its last part "
            "has lost its index"
        ) from None
    with container:
        if not container.streams.video:
            raise UserError(f"{path}: has no video stream -> give a video file")
        yield container


def _decoded(container: Any) -> Iterator[Any]:
    """Decoded frames in the order of presentation, up to the first damage; what the decoder still holds comes too."""
    from av.error import FFmpegError

    stream = container.streams.video[0]
    stream.thread_type = "AUTO"
    try:
        for packet in container.demux(stream):
            yield from packet.decode()
    except (FFmpegError, EOFError):
        try:
            yield from stream.codec_context.decode(None)
        except (FFmpegError, EOFError):
            return


def _quarter_turns(frame: Any) -> int:
    """Counter-clockwise quarter turns that the file asks for when it is shown."""
    return int(round(float(frame.rotation) / 90) % 4)


def _picture(frame: Any) -> Tensor:
    pixels = frame.to_ndarray(format="rgb24")  # (H, W, 3)
    shown = np.ascontiguousarray(np.rot90(pixels, _quarter_turns(frame)))
    return torch.from_numpy(shown).permute(2, 0, 1)  # (3, H, W)
