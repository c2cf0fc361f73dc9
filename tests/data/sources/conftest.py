"""A few boxes that are written in every format and compared with the table that is read."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from polyptrace.data import Boxes

WIDTH, HEIGHT = 64, 48


@dataclass(frozen=True)
class Row:
    """One box of the world."""

    video: str
    frame_index: int
    xywh: tuple[float, float, float, float]
    track: str
    size_mm: float = float("nan")
    histology: str = ""
    score: float = float("nan")

    def named(self, video: str) -> "Row":
        return replace(self, video=video)


@pytest.fixture
def world() -> list[Row]:
    """Two videos, two polyps each, with gaps and frames in which both are seen; quarter pixels, exact in binary."""
    rng = np.random.default_rng(7)
    rows = []
    for video in ("case1", "case2"):
        for track in ("1", "2"):
            for frame in np.flatnonzero(rng.random(25) < 0.7).tolist():
                x, y, w, h = (rng.integers(0, 80, 4) / 4 + (0, 0, 1, 1)).tolist()
                rows.append(Row(video, frame, (x, y, w, h), track, score=float(rng.integers(1, 64)) / 64))
    return rows


@pytest.fixture
def same_rows() -> Callable[..., None]:
    """Asserts that a box table is the expected rows, each once, in any order, with these columns equal."""

    def check(actual: Boxes, expected: list[Row], *columns: str, **others: object) -> None:
        def key(video: str, frame: int, box: object) -> tuple[object, ...]:
            return video, int(frame), tuple(np.round(np.asarray(box, float), 6).tolist())

        order = sorted(range(len(actual)), key=lambda k: key(actual.video[k], actual.frame_index[k], actual.xywh[k]))
        rows = sorted(expected, key=lambda row: key(row.video, row.frame_index, row.xywh))
        assert actual.video[order].tolist() == [row.video for row in rows]
        assert actual.frame_index[order].tolist() == [row.frame_index for row in rows]
        np.testing.assert_allclose(actual.xywh[order], [row.xywh for row in rows], atol=1e-9)
        for name in columns:
            wanted = np.array([getattr(row, name) for row in rows])
            np.testing.assert_array_equal(getattr(actual, name)[order].astype(wanted.dtype), wanted, err_msg=name)
        for name, of_row in others.items():
            assert callable(of_row)
            np.testing.assert_array_equal(getattr(actual, name)[order], [of_row(row) for row in rows], err_msg=name)

    return check


@pytest.fixture
def picture() -> Callable[[Path], None]:
    """Writes a real JPEG or PNG of the world's size."""

    def write(path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (WIDTH, HEIGHT), (180, 80, 60)).save(path)

    return write


@pytest.fixture
def video() -> Callable[[Path, int], None]:
    """Writes a real video file of the world's size at 25 frames a second."""
    av = pytest.importorskip("av")

    def write(path: Path, count: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with av.open(str(path), "w") as container:
            stream = container.add_stream("libx264", rate=25)
            stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
            for index in range(count):
                pixels = np.full((HEIGHT, WIDTH, 3), 8 * index % 256, np.uint8)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
            container.mux(stream.encode())

    return write
