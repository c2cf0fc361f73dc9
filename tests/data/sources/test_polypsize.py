"""PolypSize: one polyp per video file, boxes in one of three formats."""

import json
from pathlib import Path

import numpy as np
import pytest

from polyptrace.core.errors import UserError
from polyptrace.data.sources import read_polypsize

VIDEOS = {"case1": "Video01", "case2": "Video42"}
HEADER = "Video_ID,Polyp_Size,Paris_Classification,Age,Gender,Endoscope_Model"


def labels(root: Path, header: str = HEADER, tail: str = "") -> None:
    root.mkdir(parents=True, exist_ok=True)
    rows = f"Video01,11.74mm,Is,60,M,X{tail}\nVideo42,4 mm,IIa,61,F,X{tail}\n"
    (root / "Polyp_Size_Lables.csv").write_text(f"\ufeff{header}\n{rows}", encoding="utf-8")


def write_voc(root: Path, world) -> None:
    for row in world:
        x, y, w, h = row.xywh
        file = root / "Annotations" / f"{VIDEOS[row.video]}_frame{row.frame_index:04d}.xml"
        file.parent.mkdir(parents=True, exist_ok=True)
        corners = f"<xmin>{x}</xmin><ymin>{y}</ymin><xmax>{x + w}</xmax><ymax>{y + h}</ymax>"
        box = f"<object><name>polyp</name><bndbox>{corners}</bndbox></object>"
        size = "<size><width>64</width><height>48</height></size>"
        file.write_text(f"<annotation>{size}{box}</annotation>")


def write_yolo(root: Path, world) -> None:
    for row in world:
        x, y, w, h = row.xywh
        file = root / "labels" / f"{VIDEOS[row.video]}_{row.frame_index + 1}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"0 {(x + w / 2) / 64!r} {(y + h / 2) / 48!r} {w / 64!r} {h / 48!r}\n")


def write_coco(root: Path, world) -> None:
    images = [
        {"id": k, "file_name": f"{VIDEOS[row.video]}_frame{row.frame_index:04d}.jpg", "video_id": VIDEOS[row.video]}
        for k, row in enumerate(world)
    ]
    boxes = [{"id": k, "image_id": k, "bbox": list(row.xywh)} for k, row in enumerate(world)]
    root.mkdir(parents=True, exist_ok=True)
    (root / "boxes.json").write_text(json.dumps({"images": images, "annotations": boxes}))


def one_polyp(world):
    return [row for row in world if row.track == "1"]


@pytest.mark.parametrize("write", [write_voc, write_yolo, write_coco])
def test_boxes_are_read_row_by_row_with_frames_of_the_videos(tmp_path: Path, world, same_rows, video, write) -> None:
    root = tmp_path / "Polyp_Size_Dataset"
    labels(root)
    for name in VIDEOS.values():
        video(root / "Polyp_Size_Videos" / f"{name}.mp4", 25)
    write(root, one_polyp(world))
    same_rows(
        read_polypsize(root),
        [row.named(VIDEOS[row.video]) for row in one_polyp(world)],
        polyp=lambda row: row.video,
        file=lambda row: f"Polyp_Size_Videos/{row.video}.mp4",
        fps=lambda _: 25.0,
        size_mm=lambda row: {"Video01": 11.74, "Video42": 4.0}[row.video],
        dataset=lambda _: "polypsize",
    )


def test_the_folder_around_the_dataset_is_accepted(tmp_path: Path, world) -> None:
    labels(tmp_path / "Polyp_Size_Dataset")
    write_voc(tmp_path / "Polyp_Size_Dataset", one_polyp(world))
    inner, outer = read_polypsize(tmp_path / "Polyp_Size_Dataset"), read_polypsize(tmp_path)
    assert outer.file.tolist() == [f"Polyp_Size_Dataset/{name}" for name in inner.file]
    assert outer.size_mm.tolist() == inner.size_mm.tolist()


def test_existing_images_are_preferred_to_videos(tmp_path: Path, world, picture) -> None:
    labels(tmp_path)
    rows = one_polyp(world)
    write_voc(tmp_path, rows)
    for row in rows:
        picture(tmp_path / "JPEGImages" / f"{VIDEOS[row.video]}_frame{row.frame_index:04d}.jpg")
    assert all((tmp_path / name).is_file() for name in read_polypsize(tmp_path).file)


def test_the_pathology_column_is_recognised_or_given(tmp_path: Path, world) -> None:
    write_voc(tmp_path, one_polyp(world))
    labels(tmp_path, HEADER + ",Pathology", ",Tubular Adenoma")
    assert set(read_polypsize(tmp_path).histology) == {"Tubular Adenoma"}
    labels(tmp_path, HEADER + ",Befund", ",Inflammatory Polyp")
    assert set(read_polypsize(tmp_path).histology) == {""}
    assert set(read_polypsize(tmp_path, columns={"histology": "Befund"}).histology) == {"Inflammatory Polyp"}
    with pytest.raises(
        UserError, match=r"--columns histology=Nothing: .* has no column 'Nothing' -> .*the table's Video_ID"
    ):
        read_polypsize(tmp_path, columns={"histology": "Nothing"})
    with pytest.raises(UserError, match="'pathology' is not one of our names -> ours are video, size, histology"):
        read_polypsize(tmp_path, columns={"pathology": "Befund"})
    (tmp_path / "Polyp_Size_Lables.csv").write_text("Video,Size_Category,Size_of_polyp\n1,2,4\n")
    with pytest.raises(UserError, match="no column for the size, or several"):
        read_polypsize(tmp_path)
    (tmp_path / "Polyp_Size_Lables.csv").write_text("Video_ID,Millimetres\n1,4\n")
    with pytest.raises(UserError, match=r"Lables\.csv:1: no column for the size, or several -> .* --columns size=NAME"):
        read_polypsize(tmp_path)


def test_a_published_column_name_counts_before_others_that_contain_its_word(tmp_path: Path, world) -> None:
    write_voc(tmp_path, one_polyp(world))
    (tmp_path / "Polyp_Size_Lables.csv").write_text("Video size,Video_ID,Polyp_Size\n900,1,4\n900,42,5\n")
    assert set(read_polypsize(tmp_path).size_mm.tolist()) == {4.0, 5.0}


def test_without_a_table_sizes_stay_unknown_with_a_warning(tmp_path: Path, world) -> None:
    write_voc(tmp_path, one_polyp(world))
    with pytest.warns(UserWarning, match=r"no Polyp_Size_Lables\.csv"):
        assert np.isnan(read_polypsize(tmp_path).size_mm).all()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Polyp_Size,", "Breadth,", "no column for the size"),
        ("Video_ID", "Name", "no column for the video"),
        ("4 mm", "large", r"Lables\.csv:3: size 'large' is not understood"),
        ("Video42", "Video01", r"Lables\.csv:3: polyp 'Video01' is listed twice"),
    ],
)
def test_errors_in_the_table_name_the_line(tmp_path: Path, world, old: str, new: str, message: str) -> None:
    write_voc(tmp_path, one_polyp(world))
    labels(tmp_path)
    table = tmp_path / "Polyp_Size_Lables.csv"
    table.write_text(table.read_text(encoding="utf-8-sig").replace(old, new))
    with pytest.raises(UserError, match=message):
        read_polypsize(tmp_path)


def test_a_folder_without_boxes_says_what_is_looked_for(tmp_path: Path) -> None:
    labels(tmp_path)
    with pytest.raises(UserError, match="no boxes found -> put VOC XML, COCO JSON or a folder labels/"):
        read_polypsize(tmp_path)


def test_a_box_of_no_video_is_named(tmp_path: Path) -> None:
    box = "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox>"
    (tmp_path / "clip_1.xml").write_text(f"<annotation><object><name>a</name>{box}</object></annotation>")
    with pytest.raises(UserError, match=r"clip_1\.xml:1: .* names no video"):
        read_polypsize(tmp_path)
