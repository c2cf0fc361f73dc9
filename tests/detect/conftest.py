"""Videos whose frames show their numbers, and a detector that reads them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from polyptrace.data.crops.videos import write_video

av = pytest.importorskip("av")

WIDTH, HEIGHT = 144, 96


def numbered(index: int) -> np.ndarray:
    """A red picture with its number in the brightness of ten columns; the lower half moves."""
    picture = np.full((HEIGHT, WIDTH, 3), (150, 60, 50), np.uint8)
    for bit in range(10):
        picture[: HEIGHT // 2, bit * 14 : (bit + 1) * 14] = (230, 90, 70) if index >> bit & 1 else (60, 20, 15)
    shift = index * 7 % WIDTH
    picture[HEIGHT // 2 :, :] = np.roll(np.linspace(40, 240, WIDTH).astype(np.uint8), shift)[None, :, None] // (1, 2, 3)
    return picture


class Numbered:
    """Returns a box whose position is the number that the frame shows; raises at frame `fail`."""

    fingerprint = "numbered"

    def __init__(self, fail: int = -1) -> None:
        self.fail = fail
        self.seen: list[int] = []

    def __call__(self, frames: Sequence[np.ndarray], indices: Sequence[int], /) -> list[np.ndarray]:
        actual = []
        for frame, index in zip(frames, indices, strict=True):
            number = sum(int(frame[HEIGHT // 4, bit * 14 + 7, 0] > 145) << bit for bit in range(10))
            assert number == index
            if index == self.fail:
                raise ValueError("no memory")
            self.seen.append(index)
            actual.append(np.array([[number % 100, 10 + number // 100, 20, 20, 0.9], [5, 5, 10, 10, 0.05]]))
        return actual


class Frozen(Numbered):
    """Does not compare the number with the index, because frozen frames repeat theirs."""

    def __call__(self, _: Sequence[np.ndarray], indices: Sequence[int], /) -> list[np.ndarray]:
        if self.fail in indices:
            raise ValueError("no memory")
        self.seen += indices
        return [np.array([[index % 100, 10, 20, 20, 0.9]]) for index in indices]


def frames_in(table: Path) -> list[int]:
    return [int(line.partition(",")[0]) for line in table.read_text().splitlines()]


@pytest.fixture
def detector() -> Callable[..., Numbered]:
    return Numbered


@pytest.fixture
def video(tmp_path: Path) -> Path:
    """300 numbered frames."""
    path = tmp_path / "procedure.mp4"
    write_video(path, pictures(300))
    return path


def without_frame_rate(path: Path, frames: Iterable[np.ndarray]) -> Path:
    """Writes an MKV whose frames all have the time stamp 0, and which states no frame rate."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mjpeg", rate=25)
        stream.pix_fmt = "yuvj420p"
        for index, picture in enumerate(frames):
            if not index:
                stream.height, stream.width = picture.shape[:2]
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts = index
            for packet in stream.encode(frame):
                packet.pts = packet.dts = 0
                container.mux(packet)
    content = bytearray(path.read_bytes())
    at = content.index(b"\x23\xe3\x83\x84")  # DefaultDuration, 4 bytes: replaced by an element without a meaning
    content[at : at + 8] = b"\xec\x86" + bytes(6)
    path.write_bytes(content)
    return path


def pictures(count: int) -> Iterator[np.ndarray]:
    return (numbered(index) for index in range(count))
