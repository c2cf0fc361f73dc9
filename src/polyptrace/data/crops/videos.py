"""Frames out of video files (MP4, MOV, MKV, AVI, DICOM), decoded with PyAV (extra `video`).

Frames are numbered in presentation order by decoding. B-frames, a variable frame rate and containers without an index
therefore all give exactly the frame that was annotated. No metadata of the container is read.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from polyptrace.core.arrays import Pixels
from polyptrace.core.errors import PolyptraceWarning, UserError
from polyptrace.data.crops.dicom import SUFFIXES, DicomVideo

SEEK_MARGIN = 3.0  # seconds; decoding starts before the wanted frame, so that its reference frames are complete


@dataclass(frozen=True)
class VideoInfo:
    """Size in pixels as displayed (rotated), mean frame rate (NaN if unknown), duration, and about how many frames."""

    width: int
    height: int
    fps: float
    seconds: float = 0.0
    frames: int = 0


class FramePosition(NamedTuple):
    """A frame's number, its time stamp in the container, by which it is found again (None without), and its time."""

    frame: int
    pts: int | None
    seconds: float = 0.0


def read_frames(
    path: Path,
    frame_indices: Iterable[int],
    check_cancelled: Callable[[], None] = lambda: None,
    field: Pixels | None = None,
) -> Iterator[tuple[int, Tensor]]:
    """Yields (frame index, uint8 RGB (3, H, W) as displayed) of the requested frames, in ascending order.

    If the stream ends early or is damaged, the frames before that point are yielded, and a warning names the missing
    ones. `check_cancelled` is called at every frame, requested or not; an exception that it raises stops decoding.
    `field` is a mask of the endoscope's field; see `field_mask`.
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
                yield index, torch.from_numpy(blank(_picture(frame), field)).permute(2, 0, 1)
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


def all_frames(
    path: Path, start: FramePosition | None = None, field: Pixels | None = None
) -> Iterator[tuple[FramePosition, Pixels]]:
    """Yields every frame, uint8 RGB (H, W, 3) as displayed, with its position; from `start` on, if it is given.

    `start` is found by seeking where time stamps allow it, and otherwise by decoding everything before it.
    """
    if start is not None and start.pts is not None:
        with _open(path) as container:
            for index, frame in enumerate(_frames_from(container, start.pts), start.frame):
                yield FramePosition(index, frame.pts, frame.time or 0.0), blank(_picture(frame), field)
                start = FramePosition(index + 1, None)
        if start.pts is None:
            return
    with _open(path) as container:
        for index, frame in enumerate(_decoded(container)):
            if start is None or index >= start.frame:
                yield FramePosition(index, frame.pts, frame.time or 0.0), blank(_picture(frame), field)


def sample_frames(path: Path, count: int) -> Iterator[tuple[float, Pixels]]:
    """Yields (seconds, uint8 RGB (H, W, 3)) of up to `count` frames across a video.

    They are key frames, found by seeking, so their times are only about evenly spaced. Where key frames are too far
    apart, the rest of the video is decoded.
    """
    with _open(path) as container:
        stream = container.streams.video[0]
        duration, first = float(container.duration or 0) / 1e6, stream.start_time or 0
        last, sparse, frames = -1.0, False, iter(list[Any]())
        for number in range(count):
            wanted = duration * (number + 0.5) / count
            if not sparse:
                if not _seek(container, first + int(wanted / stream.time_base)):
                    return
                frames = _decoded(container)
            for frame in frames:
                time = float(((frame.pts or 0) - first) * stream.time_base)
                sparse = sparse or time <= last
                if time > last and (time >= wanted or not sparse):
                    last = time
                    yield time, _picture(frame)
                    break


def blank(picture: Pixels, field: Pixels | None) -> Pixels:
    """The image (H, W, 3), black outside of the field, in place; all black if the field has another size."""
    if field is not None:
        np.bitwise_and(picture, field if field.shape == picture.shape else np.uint8(0), out=picture)
    return picture


def video_info(path: Path) -> VideoInfo:
    """Size as displayed, frame rate and number of frames of a video file."""
    with _open(path) as container:
        frame = next(_decoded(container), None)
        if frame is None:
            raise UserError(f"{path}: no frame can be decoded -> copy or export the video again")
        stream = container.streams.video[0]
        rate = float(stream.average_rate or 0) or float("nan")
        rotated = _quarter_turns(frame) % 2 == 1
        width, height = (frame.height, frame.width) if rotated else (frame.width, frame.height)
        seconds = float(container.duration or 0) / 1e6
        guess = round(seconds * rate) if np.isfinite(rate) else 0
        return VideoInfo(width, height, rate, seconds, stream.frames or guess)


def write_video(path: Path, frames: Iterable[Pixels], fps: float = 25.0) -> None:
    """Writes frames (H, W, 3), with an even width and height, as H.264."""
    av = _library(path)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=Fraction(fps).limit_denominator(1001))
        stream.pix_fmt, stream.options = "yuv420p", {"preset": "veryfast", "crf": "20"}
        for number, pixels in enumerate(frames):
            if not number:
                stream.height, stream.width = pixels.shape[:2]
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())


def _library(path: Path) -> Any:
    try:
        import av
    except ImportError:
        raise UserError(f"{path}: video files need PyAV -> pip install 'polyptrace[video]'") from None
    return av


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    av = _library(path)
    try:
        source = DicomVideo(path) if path.suffix.lower() in SUFFIXES else str(path)
        container = av.open(source, metadata_errors="replace")
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
        if container.streams.video[0].codec_context is None:
            raise UserError(f"{path}: its video codec is unknown -> export the video again, for example as H.264")
        container.streams.video[0].thread_type = "AUTO"
        yield container


def _decoded(container: Any) -> Iterator[Any]:
    """Decoded frames in presentation order up to the first damage, including those still buffered in the decoder."""
    from av.error import FFmpegError

    stream = container.streams.video[0]
    try:
        for packet in container.demux(stream):
            yield from packet.decode()
    except (FFmpegError, EOFError):
        try:
            yield from stream.codec_context.decode(None)
        except (FFmpegError, EOFError):
            return


def _frames_from(container: Any, pts: int) -> Iterator[Any]:
    """Decoded frames from the one with this time stamp on, found by seeking; none if it is not found."""
    margin = int(SEEK_MARGIN / container.streams.video[0].time_base)
    frames = _decoded(container) if _seek(container, pts - margin) else iter(())
    for frame in frames:
        if frame.pts is None or frame.pts > pts:
            return
        if frame.pts == pts:
            yield frame
            yield from frames


def _seek(container: Any, pts: int) -> bool:
    """Moves to the last key frame before a time stamp; False if the container cannot."""
    from av.error import FFmpegError

    try:
        container.seek(max(pts, 0), stream=container.streams.video[0])
    except (FFmpegError, OSError):
        return False
    return True


def _quarter_turns(frame: Any) -> int:
    """Counter-clockwise quarter turns that the file specifies for display."""
    return int(round(float(frame.rotation) / 90) % 4)


def _picture(frame: Any) -> Pixels:
    pixels = frame.to_ndarray(format="rgb24")  # (H, W, 3)
    return np.ascontiguousarray(np.rot90(pixels, _quarter_turns(frame)))
