"""File names: refused outside their folder; videos and frames are read from them."""

from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyptrace.core.errors import UserError
from polyptrace.data.sources.file_names import (
    folders_below,
    image_root,
    inside,
    last_number,
    natural,
    of_several_videos,
    pictures_by_number,
    relative,
    video_and_frame,
)

PART = st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), max_size=6) | st.sampled_from(
    ["..", ".", "", "~", "C:", "a::b", "...", "..\\..", "\\\\host"]
)


@given(st.lists(PART, max_size=5).map("/".join))
def test_a_name_is_refused_or_stays_inside(name: str) -> None:
    try:
        clean = inside(name, "x")
    except UserError:
        return
    root = Path("/root/of/data")
    assert (root / clean).resolve().is_relative_to(root)
    assert "\\" not in clean


@pytest.mark.parametrize(
    "name",
    [
        "../a",
        "a/../../b",
        "/a",
        "\\a",
        "..\\a",
        "C:\\a",
        "c:/a",
        "a\0b",
        "",
        "  ",
        None,
        3,
        "t.tar::x",
        "n" * 256,
        "é" * 130,
        "\ud800",
    ],
)
def test_names_that_leave_are_refused(name: object) -> None:
    with pytest.raises(UserError, match=r"^x:1: "):
        inside(name, "x:1")


@pytest.mark.parametrize(
    ("name", "video", "frame"),
    [
        ("case1/000012.jpg", "case1", 12),
        ("a/b/frame_7.png", "a/b", 7),
        ("Video01_frame0003.jpg", "Video01", 3),
        ("clip-000004.jpg", "clip", 4),
        ("00005.jpg", "otherwise", 5),
        ("001-001_77.jpg", "001-001", 77),
    ],
)
def test_video_and_frame_of_a_name(name: str, video: str, frame: int) -> None:
    assert video_and_frame(PurePosixPath(name), "otherwise", "x") == (video, frame)


def test_the_last_number_is_the_frame() -> None:
    assert last_number("a/001-003_45.jpg") == 45
    assert last_number("none.jpg") is None
    assert last_number("1" * 30 + ".jpg") is None


def test_names_sort_in_natural_order() -> None:
    assert sorted(["case10", "case9", "case1b", "b2"], key=natural) == ["b2", "case1b", "case9", "case10"]


def test_two_images_of_one_number_are_an_error(tmp_path: Path) -> None:
    for name in ("a1.jpg", "b01.jpg"):
        (tmp_path / name).touch()
    with pytest.raises(UserError, match=r"a1\.jpg and b01\.jpg are both image 1"):
        pictures_by_number(tmp_path)


def test_the_root_of_a_file_in_a_folder_of_annotations_is_above_it(tmp_path: Path) -> None:
    (tmp_path / "annotations").mkdir()
    (tmp_path / "annotations" / "a.json").touch()
    (tmp_path / "b.json").touch()
    assert image_root(tmp_path / "annotations" / "a.json") == tmp_path
    assert image_root(tmp_path / "b.json") == tmp_path
    assert image_root(tmp_path) == tmp_path


@pytest.mark.parametrize(
    ("name", "mixed", "video"),
    [
        ("all/proc1_0003.jpg", True, "all/proc1"),
        ("all/proc1_0003.jpg", False, "all"),
        ("all/0003.jpg", True, "all"),
        ("train/proc1_0003.jpg", False, "proc1"),
        ("a/Test/proc1_0003.jpg", True, "a/proc1"),
        ("train/0003.jpg", False, "train"),
    ],
)
def test_videos_that_share_a_folder_are_separated_by_their_names(name: str, mixed: bool, video: str) -> None:
    assert video_and_frame(PurePosixPath(name), "otherwise", "x", mixed) == (video, 3)


def test_prefixes_of_file_names_show_whether_a_folder_has_several_videos() -> None:
    assert of_several_videos(["a_1.jpg", "b_1.jpg"])
    assert not of_several_videos(["a_1.jpg", "a_2.jpg"])
    assert not of_several_videos(["1.jpg", "frame_2.jpg"])


def test_links_are_followed_and_each_folder_comes_once(tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "inner").mkdir(parents=True)
    start = tmp_path / "start"
    start.mkdir()
    (start / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "round").symlink_to(start)
    actual = folders_below(start)
    assert actual == [start, start / "link", start / "link" / "inner"]
    assert [relative(folder, start) for folder in actual] == ["", "link", "link/inner"]
