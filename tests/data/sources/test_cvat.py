"""CVAT video XML: track by track, frames from 0, invisible boxes are skipped."""

from pathlib import Path

import pytest

from polyptrace.core.errors import UserError
from polyptrace.data.sources import read_cvat

META = (
    "<meta><task><id>3</id><name>{name}</name><size>25</size><start_frame>{start}</start_frame>"
    "<frame_filter>{filter}</frame_filter><original_size><width>64</width><height>48</height></original_size>"
    "<source>{source}</source></task><dumped>now</dumped></meta>"
)


def box(row, *, outside: int = 0, attributes: str = "") -> str:
    x, y, w, h = row.xywh
    corners = f'xtl="{x}" ytl="{y}" xbr="{x + w}" ybr="{y + h}"'
    return f'<box frame="{row.frame_index}" keyframe="1" outside="{outside}" occluded="0" {corners}>{attributes}</box>'


def task(rows, *, name: str, source: str = "", start: int = 0, filters: str = "", attributes: str = "") -> str:
    tracks = ""
    for track in sorted({row.track for row in rows}):
        mine = [row for row in rows if row.track == track]
        gone = box(mine[-1], outside=1).replace(f'frame="{mine[-1].frame_index}"', 'frame="999"')
        tracks += (
            f'<track id="{track}" label="polyp">{"".join(box(r, attributes=attributes) for r in mine)}{gone}</track>'
        )
    meta = META.format(name=name, source=source, start=start, filter=filters)
    return f'<?xml version="1.0" encoding="utf-8"?>\n<annotations><version>1.1</version>{meta}{tracks}</annotations>\n'


def write(root: Path, rows, **options: object) -> Path:
    for video in ("case1", "case2"):
        (root / video).mkdir(parents=True, exist_ok=True)
        mine = [row for row in rows if row.video == video]
        (root / video / "annotations.xml").write_text(task(mine, name=f"task of {video}", **options))
    return root


def test_tasks_are_read_row_by_row(tmp_path: Path, world, same_rows, picture) -> None:
    for row in world:
        picture(tmp_path / row.video / "images" / f"frame_{row.frame_index:06d}.PNG")
    actual = read_cvat(write(tmp_path, world))
    same_rows(
        actual,
        world,
        "track",
        file=lambda row: f"{row.video}/images/frame_{row.frame_index:06d}.PNG",
        polyp=lambda _: "",
    )
    assert set(zip(actual.image_width, actual.image_height, strict=True)) == {(64, 48)}


def test_one_file_alone_is_a_source_named_by_its_task(tmp_path: Path, world, same_rows) -> None:
    first = [row for row in world if row.video == "case1"]
    (tmp_path / "export.xml").write_text(task(first, name="my task"))
    same_rows(read_cvat(tmp_path / "export.xml"), [row.named("my task") for row in first], "track")


def test_frames_of_a_video_file_are_counted_as_the_task_shows_them(tmp_path: Path, world, video) -> None:
    first = [row for row in world if row.video == "case1"]
    video(tmp_path / "case1.mp4", 3)
    (tmp_path / "case1.xml").write_text(task(first, name="case1", source="case1.mp4", start=100, filters="step=3"))
    actual = read_cvat(tmp_path / "case1.xml")
    assert sorted(actual.frame_index.tolist()) == sorted(100 + 3 * row.frame_index for row in first)
    assert set(actual.file) == {"case1.mp4"}
    assert set(actual.fps) == {25.0}
    from_one = read_cvat(tmp_path / "case1.xml", first_frame=1)
    assert (actual.frame_index - from_one.frame_index).tolist() == [3] * len(actual)


def test_attributes_are_labels(tmp_path: Path, world, same_rows) -> None:
    attributes = '<attribute name="Polyp">A</attribute><attribute name="size">15mm-</attribute>'
    attributes += '<attribute name="histology">AD</attribute>'
    actual = read_cvat(write(tmp_path, world, attributes=attributes))
    same_rows(actual, world, polyp=lambda r: f"{r.video}/A", size_mm=lambda _: 15.0, histology=lambda _: "AD")


def test_tracks_are_polyps_with_the_option(tmp_path: Path, world, same_rows) -> None:
    actual = read_cvat(write(tmp_path, world), identities="polyp")
    same_rows(actual, world, polyp=lambda row: f"{row.video}/{row.track}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"a\.xml:1: is empty"),
        ("<annotations><track id='1'>\n<box", r"a\.xml:2: is not well-formed XML"),
        ("<annotation/>", r"a\.xml:1: root is <annotation>"),
        ("<annotations><image id='0' name='x'/></annotations>", "is 'CVAT for images'"),
        ("<annotations/>", "no track has a box"),
        ("<annotations><track id='1'><box frame='0'/></track></annotations>", "a box without xtl"),
        (
            "<annotations><track id='1'><box frame='x' xtl='1' ytl='1' xbr='2' ybr='2'/></track></annotations>",
            "frame is 'x'",
        ),
        (
            "<annotations><track id='1'><box frame='1' xtl='q' ytl='1' xbr='2' ybr='2'/></track></annotations>",
            "xtl is 'q'",
        ),
        (
            "<annotations><track><box frame='1' xtl='1' ytl='1' xbr='2' ybr='2'/></track></annotations>",
            "a track without id",
        ),
        ("<!DOCTYPE x [<!ENTITY a 'b'>]><annotations/>", r"a\.xml:1: declares a document type or an entity"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.xml").write_text(content)
    with pytest.raises(UserError, match=message):
        read_cvat(tmp_path / "a.xml")


def test_several_tasks_in_one_file_are_refused(tmp_path: Path, world) -> None:
    one = task(world[:3], name="a")
    meta = one[one.index("<task>") : one.index("</task>") + 7]
    (tmp_path / "a.xml").write_text(one.replace("</task>", f"</task>{meta}"))
    with pytest.raises(UserError, match="contains 2 tasks"):
        read_cvat(tmp_path)


def test_a_source_that_leaves_the_folder_is_refused(tmp_path: Path, world) -> None:
    (tmp_path / "a.xml").write_text(task(world[:3], name="a", source="../../../secret.mp4"))
    with pytest.raises(UserError, match="leaves the dataset's folder"):
        read_cvat(tmp_path)


def test_boxes_are_named_by_their_lines(tmp_path: Path) -> None:
    box_ = '<box frame="{}" outside="{}" xtl="1" ytl="1" xbr="2" ybr="{}"/>\n'
    boxes = box_.format(0, 0, 2) + box_.format(1, 1, 2) + box_.format(2, 0, 2)
    path = tmp_path / "a.xml"
    path.write_text(f"<annotations>\n<track id='7'>\n{boxes}</track>\n</annotations>\n")
    assert read_cvat(path).line.tolist() == [3, 5]
    path.write_text(f"<annotations>\n<track id='7'>\n{boxes}{box_.format(3, 0, 'low')}</track>\n</annotations>\n")
    with pytest.raises(UserError, match=r"a\.xml:6: box of track 7, frame 3: ybr is 'low', not a number"):
        read_cvat(path)


def test_boxes_outside_of_tracks_do_not_shift_the_lines_of_others(tmp_path: Path) -> None:
    box_ = '<box frame="{}" xtl="1" ytl="1" xbr="2" ybr="2"/>\n'
    path = tmp_path / "a.xml"
    stray = f"{box_.format(0)}<!-- {box_.format(1)} -->\n<group>\n{box_.format(2)}</group>\n"
    path.write_text(f"<annotations>\n{stray}<track id='7'>\n{box_.format(3)}</track>\n</annotations>\n")
    actual = read_cvat(path)
    assert actual.frame_index.tolist() == [3]
    assert actual.line.tolist() == [9]
