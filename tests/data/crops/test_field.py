"""The endoscope's field: nothing outside of it is stored."""

import io
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter
from PIL.PngImagePlugin import PngInfo
from scipy import ndimage

from polyptrace.config import Crops, Tracks
from polyptrace.core.errors import PolyptraceWarning
from polyptrace.data import Boxes, prepare
from polyptrace.data.crops.field import field_mask
from polyptrace.data.crops.videos import all_frames, read_frames, video_info, write_video
from tests.detect.conftest import without_frame_rate

av = pytest.importorskip("av")

WIDTH, HEIGHT, FRAMES = 320, 240, 48
FIELDS = {
    "octagon": [(90, 20), (230, 20), (270, 60), (270, 180), (230, 220), (90, 220), (50, 180), (50, 60)],
    "rectangle": [(60, 30), (260, 30), (260, 210), (60, 210)],
    "circle": None,
}
#: Twelve places outside of every field, at the edges, in the corners and close to the field.
PLACES = [(2, 2), (2, 110), (2, 225), (2, 60), (120, 2), (200, 2), (280, 2), (285, 110), (280, 225), (150, 226)]
PLACES += [(2, 160), (290, 60)]


def field_image(shape: str) -> np.ndarray:
    image = Image.new("1", (WIDTH, HEIGHT))
    draw = ImageDraw.Draw(image)
    corners = FIELDS[shape]
    if corners is None:
        draw.ellipse((65, 25, 255, 215), fill=1)
    else:
        draw.polygon(corners, fill=1)
    return np.array(image)


def recording(path: Path, shape: str, clock: bool = True, codec: str = "libx264", **metadata: str) -> Path:
    """A video with a moving texture inside the field, names at twelve places outside of it, and a running clock."""
    inside = field_image(shape)
    yy, xx = np.mgrid[:HEIGHT, :WIDTH]
    with av.open(str(path), "w") as container:
        container.metadata.update(metadata)
        stream = container.add_stream(codec, rate=25)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.options = {"crf": "20"} if codec == "libx264" else {}
        for index in range(FRAMES):
            wave = 120 + 80 * np.sin((xx + 9 * index) / 17) * np.cos((yy - 5 * index) / 13)
            colours = np.stack([wave + 40, wave * 0.6, wave * 0.5], 2).clip(0, 255).astype(np.uint8)
            image = Image.fromarray(np.where(inside[..., None], colours, np.uint8(8)))
            draw = ImageDraw.Draw(image)
            for number, position in enumerate(PLACES):
                text = f"{index:02d}:{index * 7 % 60:02d}" if clock and number % 4 == 0 else "DOE JANE"
                draw.text(position, text[: (WIDTH - position[0]) // 6], fill=(255, 255, 255))
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.array(image), format="rgb24")))
        container.mux(stream.encode())
    return path


@pytest.mark.parametrize("shape", FIELDS)
def test_the_field_is_found_and_everything_outside_is_blank(tmp_path: Path, shape: str) -> None:
    video = recording(tmp_path / "v.mp4", shape)
    mask, inside = field_mask(video), field_image(shape)
    assert mask is not None
    actual = mask[..., 0] > 0
    assert not (actual & ~inside).any()
    assert (actual & inside).sum() > 0.94 * inside.sum()
    for _, picture in read_frames(video, range(0, FRAMES, 5), field=mask):
        assert not picture.numpy()[:, ~inside].any()
        assert picture.numpy()[:, actual].mean() > 60


@pytest.mark.parametrize("shape", FIELDS)
@pytest.mark.parametrize("codec", ["mpeg2video", "mpeg4"])
def test_strong_compression_does_not_connect_a_clock_with_the_field(tmp_path: Path, shape: str, codec: str) -> None:
    """About 200 kbit/s: blocks of 16 pixels change around the clock, which is 7 pixels above the octagon."""
    mask = field_mask(recording(tmp_path / "v.mkv", shape, codec=codec))
    assert mask is not None
    actual, inside = mask[..., 0] > 0, field_image(shape)
    assert not (actual & ~ndimage.binary_dilation(inside, iterations=5)).any()
    assert (actual & inside).sum() > 0.94 * inside.sum()


class Unseekable(io.RawIOBase):
    """A file that is only written to, as by a recorder that was switched off: the header has no duration."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")

    def writable(self) -> bool:
        return True

    def write(self, content: Any, /) -> int:
        return self._file.write(content)

    def close(self) -> None:
        self._file.close()
        super().close()


def without_duration(path: Path, frames: Sequence[np.ndarray]) -> None:
    with Unseekable(path) as file, av.open(file, "w", format="matroska") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())


@pytest.mark.parametrize("write", [without_duration, without_frame_rate])
def test_the_field_is_found_without_a_duration_or_time_stamps(
    tmp_path: Path, write: Callable[[Path, Sequence[np.ndarray]], object]
) -> None:
    """The recording begins with two frozen seconds, in which no field can be found."""
    moving = [frame for _, frame in all_frames(recording(tmp_path / "v.mp4", "octagon"))]
    write(tmp_path / "live.mkv", [*[moving[0]] * 50, *moving, *moving])
    assert video_info(tmp_path / "live.mkv").seconds < 0.1
    mask = field_mask(tmp_path / "live.mkv")
    assert mask is not None
    actual, inside = mask[..., 0] > 0, field_image("octagon")
    assert not (actual & ~ndimage.binary_dilation(inside, iterations=5)).any()
    assert actual.sum() > 0.94 * inside.sum()


@pytest.mark.parametrize("border", ["blank", "keep"])
def test_stored_crops_show_no_name_unless_the_border_is_kept(tmp_path: Path, border: str) -> None:
    """Crops as large as the image contain all twelve names; their pixels are compared, which no OCR can miss."""
    recording(tmp_path / "v.mp4", "octagon", title="DOE JANE")
    boxes = Boxes.of(
        video="v",
        frame_index=np.arange(FRAMES),
        xywh=np.tile([128.0, 88.0, 64.0, 64.0], (FRAMES, 1)),
        file="v.mp4",
        image_width=WIDTH,
        image_height=HEIGHT,
    )
    crops = Crops(size=240, scale=8.0, border=border)
    dataset = prepare(boxes, tmp_path, tmp_path / "data", Tracks(link="video"), crops)
    field = Image.fromarray(field_image("octagon")).convert("L").resize((240, 240))
    outside = np.array(field.filter(ImageFilter.MaxFilter(5))) == 0  # the resize mixes neighbouring pixels
    stored = np.asarray(dataset.crops)[:, outside]
    assert stored.max() == 0 if border == "blank" else stored.max() > 200
    files = [file.read_bytes() for file in dataset.path.iterdir()]
    assert not any(b"DOE JANE" in content for content in files)


def test_a_stored_field_is_used_until_the_video_changes(tmp_path: Path) -> None:
    video, stored = recording(tmp_path / "v.mp4", "octagon"), tmp_path / "kept/v.field.png"
    actual = field_mask(video, tmp_path / "kept")
    assert actual is not None
    with Image.open(stored) as image:
        smaller = Image.new("1", image.size)
        smaller.paste(1, (20, 20, 60, 60))
        notes = PngInfo()
        notes.add_text("video", image.info["video"])
    smaller.save(stored, pnginfo=notes)
    again = field_mask(video, tmp_path / "kept")
    assert again is not None
    assert (again[..., 0] > 0).sum() == 40 * 40
    stored.write_bytes(stored.read_bytes()[:60])  # damaged
    np.testing.assert_array_equal(field_mask(video, tmp_path / "kept"), actual)
    recording(tmp_path / "v.mp4", "circle")
    circle = field_mask(video, tmp_path / "kept")
    assert circle is not None
    assert not (circle[..., 0] > 0)[~field_image("circle")].any()


def test_the_field_of_a_recording_that_is_mostly_black_is_found(tmp_path: Path) -> None:
    whole = [picture.numpy() for _, picture in read_frames(recording(tmp_path / "v.mp4", "octagon"), range(FRAMES))]
    frames = [np.ascontiguousarray(picture.transpose(1, 2, 0)) for picture in whole]
    write_video(tmp_path / "black.mp4", [*[np.zeros_like(frames[0])] * 10 * FRAMES, *frames])
    mask = field_mask(tmp_path / "black.mp4")
    assert mask is not None
    assert not (mask[..., 0] > 0)[~field_image("octagon")].any()


def test_a_field_that_was_not_found_is_stored_as_such(tmp_path: Path) -> None:
    video = tmp_path / "v.mp4"
    write_video(video, [np.full((64, 96, 3), 90, np.uint8)] * 20)
    for _ in range(2):
        with pytest.warns(PolyptraceWarning, match="field was not found"):
            assert field_mask(video, tmp_path / "kept") is None
    assert (tmp_path / "kept/v.field.png").is_file()


def test_an_image_without_a_border_is_kept_whole(tmp_path: Path) -> None:
    video = tmp_path / "v.mp4"
    noise = np.random.default_rng(0).integers(0, 255, (20, 16, 24, 3), dtype=np.uint8)
    with av.open(str(video), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 192, 128, "yuv420p"
        for frame in noise.repeat(8, 1).repeat(8, 2):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert field_mask(video) is None


def test_a_video_that_does_not_change_is_kept_whole_with_a_warning(tmp_path: Path) -> None:
    video = tmp_path / "v.mp4"
    with av.open(str(video), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        for _ in range(20):
            frame = np.full((64, 96, 3), 90, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    with pytest.warns(PolyptraceWarning, match=r"v\.mp4: the endoscope's field was not found, so the border is kept"):
        assert field_mask(video) is None
