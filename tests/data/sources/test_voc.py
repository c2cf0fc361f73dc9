"""VOC: one XML per frame; folders or names say the video, tags the identity."""

from pathlib import Path

import pytest

from polyptrace.core.errors import UserError
from polyptrace.data.sources import read_voc
from polyptrace.data.sources.voc import parse_voc


def voc(rows, filename: str, *, extra: str = "") -> str:
    objects = ""
    for row in rows:
        x, y, w, h = row.xywh
        corners = f"<xmin>{x}</xmin><xmax>{x + w}</xmax><ymin>{y}</ymin><ymax>{y + h}</ymax>"
        tags = f"<track_id>{row.track}</track_id>{extra}"
        objects += f"\t<object>\n\t\t<name>polyp</name>{tags}<bndbox>{corners}</bndbox>\n\t</object>\n"
    size = "<size><width>64</width><height>48</height><depth>3</depth></size>"
    return f"<annotation>\n\t<filename>{filename}</filename>\n\t{size}\n{objects}</annotation>\n"


def write(root: Path, rows, *, xml: str, image: str = "{video}_{frame:04d}.jpg", extra: str = "") -> Path:
    for video in {row.video for row in rows}:
        for frame in range(25):
            mine = [row for row in rows if (row.video, row.frame_index) == (video, frame)]
            file = root / xml.format(video=video, frame=frame)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(voc(mine, image.format(video=video, frame=frame), extra=extra))
    return root


def test_flat_names_are_read_row_by_row(tmp_path: Path, world, same_rows) -> None:
    actual = read_voc(write(tmp_path, world, xml="Annotations/{video}_{frame:04d}.xml"))
    same_rows(actual, world, "track", file=lambda row: f"JPEGImages/{row.video}_{row.frame_index:04d}.jpg")
    assert set(zip(actual.image_width, actual.image_height, strict=True)) == {(64, 48)}


@pytest.mark.parametrize(
    ("xml", "image"),
    [
        ("{video}/{frame:06d}.xml", "{video}/{frame:06d}.jpg"),
        ("Annotation/{video}/{frame:06d}.xml", "Image/{video}/{frame:06d}.png"),
        ("{video}/annotations/frame_{frame}.xml", "{video}/images/frame_{frame}.jpg"),
    ],
)
def test_folders_are_videos_and_images_are_found(
    tmp_path: Path, world, same_rows, picture, xml: str, image: str
) -> None:
    for row in world:
        picture(tmp_path / image.format(video=row.video, frame=row.frame_index))
    actual = read_voc(write(tmp_path, world, xml=xml, image="{frame}.jpg"))
    same_rows(actual, world, "track", file=lambda r: image.format(video=r.video, frame=r.frame_index))


def test_tags_are_labels(tmp_path: Path, world, same_rows) -> None:
    extra = "<polyp_id>P7</polyp_id><size_mm>4 mm</size_mm><histology>SSL</histology><score>0.5</score>"
    actual = read_voc(write(tmp_path, world, xml="{video}/{frame}.xml", extra=extra))
    same_rows(
        actual,
        world,
        polyp=lambda row: f"{row.video}/P7",
        size_mm=lambda _: 4.0,
        histology=lambda _: "SSL",
        score=lambda _: 0.5,
    )


def test_the_list_of_a_split_selects_frames(tmp_path: Path, world, same_rows) -> None:
    write(tmp_path, world, xml="Annotations/{video}_{frame:04d}.xml")
    (tmp_path / "ImageSets" / "Main").mkdir(parents=True)
    wanted = [row for row in world if row.video == "case2"]
    (tmp_path / "ImageSets" / "Main" / "val.txt").write_text("".join(f"case2_{i:04d}\r\n" for i in range(25)))
    same_rows(read_voc(tmp_path, split="val"), wanted, "track")
    with pytest.raises(UserError, match="no such folder"):
        read_voc(tmp_path, split="other")


def test_images_without_an_annotation_are_a_warning(tmp_path: Path, world, picture) -> None:
    write(tmp_path, world, xml="Annotations/{video}_{frame:04d}.xml")
    picture(tmp_path / "JPEGImages" / "case1_0099.jpg")
    with pytest.warns(UserWarning, match="1 image without an XML file"):
        read_voc(tmp_path)


BOX = "<xmin>1</xmin><ymin>2</ymin><xmax>5</xmax><ymax>9</ymax>"
GOOD = f"<annotation><object><name>a</name><bndbox>{BOX}</bndbox></object></annotation>"
USUAL = GOOD.replace("<object>", "<size><width>9</width><height>9</height></size><object>")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (GOOD.replace("<xmin>1</xmin>", ""), r"a_1\.xml:1: object has no bndbox/xmin"),
        (GOOD.replace("<xmin>1", "\n<xmin>one"), r"a_1\.xml:1: xmin is 'one', not a number"),
        (GOOD.replace("<object>", "\n\n<object>").replace(">9<", "><"), r"a_1\.xml:3: object has no bndbox/ymax"),
        (GOOD[:-20], r"a_1\.xml:1: is not well-formed XML"),
        (GOOD.replace("annotation>", "other>"), r"root is <other>, not <annotation>"),
        (GOOD.replace("<name>", "<size><width>-3</width></size><name>"), None),
        (GOOD.replace("<object>", "<size><width>3.5</width></size><object>"), "size/width is '3.5', not a whole"),
        (GOOD.replace("<object>", "<filename>../../etc/passwd</filename><object>"), "leaves the dataset's folder"),
        (GOOD.replace("<object>", "<filename>/etc/passwd</filename><object>"), "leaves the dataset's folder"),
        (USUAL.replace("<object>", "\n<object></object>\n<object>", 1), r"a_1\.xml:2: object has no bndbox/xmin"),
        ("", r"a_1\.xml:1: is empty"),
        ("<annotation>", r"a_1\.xml:1: is not well-formed"),
        ("<annotation></annotation>", "contains a box"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, content: str, message: str | None) -> None:
    (tmp_path / "a_1.xml").write_text(content)
    if message is None:
        assert read_voc(tmp_path).xywh.tolist() == [[1, 2, 4, 7]]
        return
    with pytest.raises(UserError, match=message):
        read_voc(tmp_path)


def test_a_name_without_a_number_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(GOOD)
    with pytest.raises(UserError, match=r"no frame number in 'a\.xml'"):
        read_voc(tmp_path)


def test_one_polyp_with_two_sizes_is_an_error(tmp_path: Path) -> None:
    for frame, size in ((1, "4 mm"), (2, "5mm")):
        tags = f"<polyp_id>P</polyp_id><size>{size}</size><bndbox>"
        (tmp_path / f"a_{frame}.xml").write_text(GOOD.replace("<bndbox>", tags))
    with pytest.raises(UserError, match=r"a_2\.xml:1: polyp 'a/P' has two sizes, 5\.0 here and 4\.0 at a_1\.xml:1"):
        read_voc(tmp_path)


def test_the_check_for_empty_frames_agrees_with_the_parser() -> None:
    empty = "<annotation>\n<filename>a_1.jpg</filename><size><width>64</width></size>\n</annotation>\n"
    assert parse_voc(empty.encode(), "a")[1] == []
    assert parse_voc(empty.replace("<size>", "<!-- object --><size>").encode(), "a")[1] == []
    with pytest.raises(UserError, match="not well-formed"):
        parse_voc(empty.replace("</annotation>", "").encode(), "a")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-8"])
def test_encodings_with_a_mark_are_read(encoding: str) -> None:
    content = f'<?xml version="1.0" encoding="{encoding.removesuffix("-sig")}"?>\r\n{GOOD}'.encode(encoding)
    assert [box.columns["xywh"] for box in parse_voc(content, "a")[1]] == [(1, 2, 4, 7)]
