"""Frames out of video files (MP4, MOV, MKV, AVI), decoded with PyAV (extra `video`).

Frames are numbered in presentation order by decoding. B-frames, a variable frame rate and containers without an index
therefore all give exactly the frame that was annotated.
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

from polyptrace.core.errors import PolyptraceWarning, UserError


@dataclass(frozen=True)
class VideoInfo:
    """Size in pixels as displayed, after rotation, and mean frame rate (NaN if unknown) of a video file."""

    width: int
    height: int
    fps: float


def read_frames(
    path: Path, frame_indices: Iterable[int], check_cancelled: Callable[[], None] = lambda: None
) -> Iterator[tuple[int, Tensor]]:
    """Yields (frame index, uint8 RGB (3, H, W) as displayed) of the requested frames, in ascending order.

    If the stream ends early or is damaged, the frames before that point are yielded, and a warning names the missing
    ones. `check_cancelled` is called at every frame, requested or not; an exception that it raises stops decoding.
    """
    requested = sorted({int(index) for index in frame_indices})
    if requested and requested[0] < 0:
        raise ValueError(f"frame indices count from 0: {requested[0]}")
    if not requested:
        return
    count = 0
    with _open(path) as container:
        for index, frame in enumerate(_decoded(container)):
            check_cancelled()
            if index == requested[count]:
                yield index, _picture(frame)
                count += 1
                if count == len(requested):
                    return
    warnings.warn(
        f"{path}: the stream ends early or is damaged: {len(requested) - count:,} of {len(requested):,} requested "
        f"frames are missing, from frame {requested[count]} on; everything before is kept -> copy or export the video "
        "again, or check that the boxes belong to this video",
        PolyptraceWarning,
        stacklevel=2,
    )


def video_info(path: Path) -> VideoInfo:
    """Size as displayed and frame rate of a video file."""
    with _open(path) as container:
        frame = next(_decoded(container), None)
        if frame is None:
            raise UserError(f"{path}: no frame can be decoded -> copy or export the video again")
        rate = container.streams.video[0].average_rate
        rotated = _quarter_turns(frame) % 2 == 1
        width, height = (frame.height, frame.width) if rotated else (frame.width, frame.height)
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
            f"{path}: cannot be opened as a video ({reason}) -> check that it was copied completely; an MP4 whose end "
            "is missing has lost its index"
        ) from None
    with container:
        if not container.streams.video:
            raise UserError(f"{path}: has no video stream -> give a video file")
        yield container


def _decoded(container: Any) -> Iterator[Any]:
    """Decoded frames in presentation order up to the first damage, including those still buffered in the decoder."""
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
    """Counter-clockwise quarter turns that the file specifies for display."""
    return int(round(float(frame.rotation) / 90) % 4)


def _picture(frame: Any) -> Tensor:
    pixels = frame.to_ndarray(format="rgb24")  # (H, W, 3)
    displayed = np.ascontiguousarray(np.rot90(pixels, _quarter_turns(frame)))
    return torch.from_numpy(displayed).permute(2, 0, 1)  # (3, H, W)
