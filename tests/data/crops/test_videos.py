"""Video files: exact frames, whatever the container and the codec do with time."""

import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

from polyptrace.core.errors import UserError
from polyptrace.data.crops import videos
from polyptrace.data.crops.videos import read_frames, sample_frames, video_info

av = pytest.importorskip("av")

WIDTH, HEIGHT = 96, 64

#: Of containers that usually have another codec than H.264.
CODECS = {".wmv": "wmv2", ".vob": "mpeg2video", ".m2ts": "mpeg2video"}


def numbered_picture(index: int) -> np.ndarray:
    """An image that shows its own number: bit b is the brightness of column b in the upper half."""
    picture = np.full((HEIGHT, WIDTH, 3), 30, np.uint8)
    for bit in range(8):
        picture[: HEIGHT // 2, bit * 12 : (bit + 1) * 12] = 220 if index >> bit & 1 else 30
    return picture


def number_in(picture: torch.Tensor) -> int:
    return sum(int(picture[:, HEIGHT // 4, bit * 12 + 6].float().mean() > 125) << bit for bit in range(8))


def write_video(
    path: Path, count: int, *, options: dict[str, str] | None = None, step_ms: list[int] | None = None
) -> Path:
    container_options = {"movflags": "faststart"} if path.suffix in (".mp4", ".mov") else {}
    with av.open(str(path), "w", options=container_options) as container:
        stream = container.add_stream(CODECS.get(path.suffix, "libx264"), rate=25)
        stream.bit_rate = 4_000_000
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.options = {"bf": "0"} if options is None else options
        if step_ms:
            stream.codec_context.time_base = Fraction(1, 1000)
        for index in range(count):
            frame = av.VideoFrame.from_ndarray(numbered_picture(index), format="rgb24")
            if step_ms:
                frame.pts, frame.time_base = sum(step_ms[:index]), Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def rotate(path: Path, matrix: tuple[int, ...]) -> Path:
    """Writes a display matrix into the track header of an MP4."""
    content = bytearray(path.read_bytes())
    at = content.index(b"tkhd") + 4 + 40  # version 0: 40 bytes of fields before the matrix
    content[at : at + 36] = b"".join((value & 0xFFFFFFFF).to_bytes(4, "big") for value in matrix)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("ending", [".mp4", ".mov", ".mkv", ".avi", ".wmv", ".ts", ".m2ts", ".vob"])
def test_the_requested_frame_is_returned(tmp_path: Path, ending: str) -> None:
    video = write_video(tmp_path / f"procedure{ending}", 80)
    wanted = [70, 0, 33, 33, 34, 79]
    actual = {position.frame: number_in(picture) for position, picture in read_frames(video, wanted)}
    assert actual == {index: index for index in wanted}


def test_b_frames_are_read_in_presentation_order(tmp_path: Path) -> None:
    video = write_video(tmp_path / "b.mp4", 60, options={"bf": "3", "g": "20", "b_strategy": "0"})
    with av.open(str(video)) as container:
        kinds = {int(frame.pict_type) for frame in container.decode(video=0)}
    assert 3 in kinds  # AV_PICTURE_TYPE_B
    assert [(position.frame, number_in(picture)) for position, picture in read_frames(video, range(60))] == [
        (i, i) for i in range(60)
    ]


@pytest.mark.parametrize(
    "options", [{"bf": "3", "g": "20"}, {"bf": "0", "g": "250"}, {"x264-params": "open-gop=1:bf=2:keyint=30"}]
)
@pytest.mark.parametrize("ending", [".mp4", ".mkv", ".avi", ".ts", ".vob"])
def test_frames_after_a_known_one_are_the_same_as_from_the_beginning(
    tmp_path: Path, options: dict[str, str], ending: str
) -> None:
    video = write_video(tmp_path / f"v{ending}", 200, options=options)
    whole = dict(read_frames(video, range(200)))
    start = list(whole)[149]
    resumed = dict(read_frames(video, range(150, 200), start=start))
    assert [position.frame for position in resumed] == list(range(150, 200))
    assert all(torch.equal(picture, whole[position]) for position, picture in resumed.items())


def test_a_position_is_reported_when_all_frames_before_it_were_used(tmp_path: Path) -> None:
    """`prepare` notes it as the frame from which it resumes, so decoding ahead must not move it."""
    reported: list[int] = []
    video = write_video(tmp_path / "v.mp4", 60)
    for position, _ in read_frames(video, range(0, 60, 7), lambda position: reported.append(position.frame)):
        assert reported == list(range(position.frame + 1))


def test_a_variable_frame_rate_does_not_move_frame_numbers(tmp_path: Path) -> None:
    steps = np.random.default_rng(0).integers(5, 200, 50).tolist()
    video = write_video(tmp_path / "vfr.mkv", 50, options={"bf": "2"}, step_ms=steps)
    assert [(position.frame, number_in(picture)) for position, picture in read_frames(video, [3, 17, 49])] == [
        (3, 3),
        (17, 17),
        (49, 49),
    ]


@pytest.mark.parametrize(
    ("matrix", "clockwise_quarters"),
    [
        ((0, 65536, 0, -65536, 0, 0, 0, 0, 1 << 30), 1),
        ((-65536, 0, 0, 0, -65536, 0, 0, 0, 1 << 30), 2),
        ((0, -65536, 0, 65536, 0, 0, 0, 0, 1 << 30), 3),
    ],
)
def test_a_rotated_video_is_read_as_players_show_it(
    tmp_path: Path, matrix: tuple[int, ...], clockwise_quarters: int
) -> None:
    upright = write_video(tmp_path / "upright.mp4", 3)
    turned = rotate(write_video(tmp_path / "turned.mp4", 3), matrix)
    expected = torch.rot90(next(read_frames(upright, [2]))[1], -clockwise_quarters, (1, 2))
    actual = next(read_frames(turned, [2]))[1]
    assert torch.equal(actual, expected)
    assert (video_info(turned).height, video_info(turned).width) == tuple(expected.shape[1:])


def test_a_stream_that_ends_early_gives_everything_before_and_a_warning(tmp_path: Path) -> None:
    video = write_video(tmp_path / "whole.mp4", 120, options={"bf": "2", "g": "10"})
    content = video.read_bytes()
    short = tmp_path / "short.mp4"
    short.write_bytes(content[: len(content) * 2 // 3])
    with pytest.warns(
        UserWarning, match=r"short\.mp4: the stream ends early .* of 120 requested frames are missing, from frame \d+"
    ):
        actual = [(position.frame, number_in(picture)) for position, picture in read_frames(short, range(120))]
    assert 30 < len(actual) < 120
    assert actual == [(i, i) for i in range(len(actual))]


def test_a_video_that_has_the_wanted_frames_gives_no_warning(tmp_path: Path) -> None:
    video = write_video(tmp_path / "whole.mp4", 12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(read_frames(video, range(12)))) == 12


def test_images_are_rgb_bytes_close_to_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "red.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 32, 16, "yuv444p"
        pixels = np.zeros((16, 32, 3), np.uint8)
        pixels[:] = (200, 60, 20)
        container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    picture = next(read_frames(path, [0]))[1]
    assert picture.dtype == torch.uint8
    assert picture.shape == (3, 16, 32)
    assert (picture.float().mean((1, 2)) - torch.tensor([200.0, 60.0, 20.0])).abs().max() < 6


def test_info_is_read_from_the_file(tmp_path: Path) -> None:
    info = video_info(write_video(tmp_path / "v.mp4", 5))
    assert (info.width, info.height, info.fps) == (WIDTH, HEIGHT, 25.0)


def test_metadata_that_are_not_utf_8_are_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "v.mp4"
    with av.open(str(path), "w") as container:
        container.metadata["comment"] = "marked"
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        container.mux(stream.encode(av.VideoFrame.from_ndarray(numbered_picture(0), format="rgb24")))
        container.mux(stream.encode())
    path.write_bytes(path.read_bytes().replace(b"marked", b"\xff\xfe\xe9ked"))
    assert not video_info(path).generated
    assert len(list(read_frames(path, [0]))) == 1


@pytest.mark.parametrize("content", [b"", b"not a video at all", b"\0" * 4096])
def test_a_file_that_is_no_video_is_a_clear_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.mp4"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"broken\.mp4: cannot be opened as a video"):
        list(read_frames(path, [0]))


def test_a_missing_video_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        list(read_frames(tmp_path / "none.mp4", [0]))


def test_a_video_with_an_unknown_codec_is_refused(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", 5)
    path.write_bytes(path.read_bytes().replace(b"avc1", b"zzzz"))
    with pytest.raises(UserError, match=r"a\.mp4: its video codec is unknown -> export"):
        video_info(path)


@pytest.mark.parametrize("key_frame_every", [2, 20, 200], ids=["many key frames", "few", "one"])
def test_samples_are_spread_over_the_video(tmp_path: Path, key_frame_every: int) -> None:
    options = {"bf": "2", "g": str(key_frame_every), "keyint_min": str(key_frame_every), "sc_threshold": "0"}
    video = write_video(tmp_path / "v.mp4", 200, options=options)
    samples = list(sample_frames(video, 17))
    seconds = np.array([time for time, _ in samples])
    assert len(seconds) == 17
    assert seconds[0] < 0.5
    assert seconds[-1] > 7
    assert 0 < np.diff(seconds).min() <= np.diff(seconds).max() <= 0.8 + 1e-9
    for time, picture in samples:
        assert number_in(torch.from_numpy(picture).permute(2, 0, 1)) == round(25 * time)


def test_few_of_the_frames_between_key_frames_are_decoded_for_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One key frame in 10 seconds, at one frame per second: samples are in the two seconds after each."""
    options = {"bf": "0", "g": "10", "keyint_min": "10", "sc_threshold": "0"}
    video = write_video(tmp_path / "v.mp4", 100, options=options, step_ms=[1000] * 100)
    decoded, original = [], videos._decoded
    monkeypatch.setattr(
        videos, "_decoded", lambda container: (decoded.append(1) or each for each in original(container))
    )
    times = [time for time, _ in sample_frames(video, 20)]
    assert times == [start + after for start in range(0, 100, 10) for after in (0, 1)]
    assert len(decoded) == 20
