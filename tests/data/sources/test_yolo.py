"""YOLO: fractions of the image, whose size comes from an image, a video or an option."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from polyptrace.core.codec import decode_image
from polyptrace.core.errors import UserError
from polyptrace.data.sources import read_yolo


def line(row, tail: str = "") -> str:
    x, y, w, h = row.xywh
    return f"0 {(x + w / 2) / 64!r} {(y + h / 2) / 48!r} {w / 64!r} {h / 48!r}{tail}"


def write(root: Path, rows, *, name: str, first: int = 0, tail=lambda row: f" {row.track}") -> Path:
    for row in rows:
        file = root / name.format(video=row.video, frame=row.frame_index + first)
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as opened:
            opened.write(line(row, tail(row)) + "\n")
    return root


@pytest.mark.parametrize(
    ("label", "image"),
    [
        ("labels/{video}_{frame:04d}.txt", "images/{video}_{frame:04d}.jpg"),
        ("labels/{video}/{frame}.txt", "images/{video}/{frame}.png"),
        ("{video}/{frame:06d}.txt", "{video}/{frame:06d}.jpg"),
    ],
)
def test_boxes_with_tracks_are_read_row_by_row(
    tmp_path: Path, world, same_rows, picture, label: str, image: str
) -> None:
    for row in world:
        picture(tmp_path / image.format(video=row.video, frame=row.frame_index))
    (tmp_path / "classes.txt").write_text("polyp\n")
    actual = read_yolo(write(tmp_path, world, name=label))
    same_rows(
        actual,
        world,
        "track",
        file=lambda row: image.format(video=row.video, frame=row.frame_index),
        source=lambda row: label.format(video=row.video, frame=row.frame_index),
        image_width=lambda _: 64,
        image_height=lambda _: 48,
    )
    assert np.isnan(actual.score).all()


def test_the_size_of_an_image_that_exif_data_turn_is_that_of_the_decoded_one(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side
    Image.new("RGB", (64, 48)).save(tmp_path / "v_0.jpg", exif=exif)
    (tmp_path / "v_0.txt").write_text("0 0.5 0.5 0.5 0.5\n")
    actual = read_yolo(tmp_path)
    assert (actual.image_width[0], actual.image_height[0]) == (48, 64)
    assert decode_image((tmp_path / "v_0.jpg").read_bytes()).shape == (3, 64, 48)


def test_a_split_is_a_folder_of_labels(tmp_path: Path, world, same_rows) -> None:
    write(tmp_path, world, name="labels/train/{video}_{frame}.txt")
    write(tmp_path, world[:4], name="labels/val/{video}_{frame}.txt")
    same_rows(read_yolo(tmp_path, split="val", image_size=(64, 48)), world[:4], "track")


def test_scores_alone_and_scores_with_tracks_are_distinguished(tmp_path: Path, world, same_rows) -> None:
    write(tmp_path / "a", world, name="labels/{video}_{frame}.txt", tail=lambda row: f" {row.score}")
    same_rows(read_yolo(tmp_path / "a", image_size=(64, 48)), world, "score", track=lambda _: "")
    write(tmp_path / "b", world, name="labels/{video}_{frame}.txt", tail=lambda row: f" {row.score} {row.track}")
    same_rows(read_yolo(tmp_path / "b", image_size=(64, 48)), world, "score", "track")
    write(tmp_path / "c", world, name="labels/{video}_{frame}.txt", tail=lambda _: "")
    same_rows(read_yolo(tmp_path / "c", image_size=(64, 48)), world, track=lambda _: "")


def test_frames_of_a_video_file_count_from_one_as_detectors_write_them(tmp_path: Path, world, same_rows, video) -> None:
    for name in ("case1", "case2"):
        video(tmp_path / "videos" / f"{name}.mp4", 25)
    write(tmp_path, world, name="labels/{video}_{frame}.txt", first=1, tail=lambda row: f" {row.score}")
    actual = read_yolo(tmp_path)
    same_rows(actual, world, "score", file=lambda row: f"videos/{row.video}.mp4", fps=lambda _: 25.0)
    from_zero = read_yolo(tmp_path, first_frame=0)
    assert (from_zero.frame_index - actual.frame_index).tolist() == [1] * len(actual)


def test_frame_zero_of_a_video_needs_the_option(tmp_path: Path, video) -> None:
    video(tmp_path / "case1.mp4", 3)
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "case1_0.txt").write_text("0 0.5 0.5 0.1 0.1\n")
    with pytest.raises(UserError, match=r"case1_0\.txt: frame 0, but frames are counted from 1 -> .* --first-frame 0"):
        read_yolo(tmp_path)
    assert read_yolo(tmp_path, first_frame=0).frame_index.tolist() == [0]


def test_videos_that_share_the_folder_of_a_split_stay_apart(tmp_path: Path, world, same_rows) -> None:
    write(tmp_path, world, name="labels/train/{video}_{frame}.txt")
    same_rows(read_yolo(tmp_path, image_size=(64, 48)), world, "track")


def test_a_missing_image_has_the_size_of_its_neighbours(tmp_path: Path, world, same_rows, picture) -> None:
    first = [row for row in world if row.video == "case1"]
    picture(tmp_path / "images" / "case1" / f"{min(row.frame_index for row in first):04d}.jpg")
    actual = read_yolo(write(tmp_path, first, name="labels/{video}/{frame:04d}.txt"))
    same_rows(actual, first, "track", file=lambda row: f"images/case1/{row.frame_index:04d}.jpg")


def test_without_any_size_the_error_says_how_to_give_it(tmp_path: Path, world) -> None:
    with pytest.raises(UserError, match=r"has no image, and no video case1\.mp4 .* --image-size"):
        read_yolo(write(tmp_path, world, name="labels/{video}_{frame}.txt"))


def test_tracks_are_polyps_with_the_option(tmp_path: Path, world, same_rows) -> None:
    write(tmp_path, world, name="labels/{video}_{frame}.txt")
    actual = read_yolo(tmp_path, identities="polyp", image_size=(64, 48))
    same_rows(actual, world, polyp=lambda row: f"{row.video}/{row.track}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"0 0.5 0.5 0.1\n", r"a_1\.txt:1: has 4 of 5 values"),
        (b"0 0.5 0.5 0.1 0.1 1\n0 0.5 half 0.1 0.1 1\n", r"a_1\.txt:2: cy is 'half', not a number"),
        (b"0 0.5 0.5 0.1 0.1 0.9 1.5\n", r"a_1\.txt:1: track is 1\.5, not a whole number"),
        (b"0 0.5 \xe9 0.1 0.1\n", r"a_1\.txt:1: is not UTF-8"),
        (b"", "no text file contains a box"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "a_1.txt").write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_yolo(tmp_path, image_size=(64, 48))


def test_an_unreadable_image_is_named(tmp_path: Path, world) -> None:
    write(tmp_path, world[:1], name="labels/{video}_{frame}.txt")
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / f"case1_{world[0].frame_index}.jpg").write_bytes(b"no image")
    with pytest.raises(UserError, match="its size cannot be read"):
        read_yolo(tmp_path)
