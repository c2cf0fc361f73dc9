"""Polyp ids are unique in a dataset: ids that restart in each video are qualified with it, others are kept."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from polyptrace.data import Boxes
from polyptrace.data.sources import read_source

VIDEOS = ("case1", "case2")


def put(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def coco(root: Path, field: str, value: object) -> None:
    images = [
        {"id": k, "file_name": f"{v}_1.jpg", "sequence_id": v, "video_id": v, "frame_id": 1}
        for k, v in enumerate(VIDEOS)
    ]
    boxes = [{"id": k, "image_id": k, "bbox": [1, 2, 3, 4], field: value} for k in range(2)]
    videos = [{"id": video, "name": video} for video in VIDEOS]
    put(root / "a.json", json.dumps({"videos": videos, "images": images, "annotations": boxes}))


def voc(root: Path, field: str, value: object) -> None:
    box = "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>5</xmax><ymax>9</ymax></bndbox>"
    for video in VIDEOS:
        content = f"<annotation><object><name>a</name><{field}>{value}</{field}>{box}</object></annotation>"
        put(root / video / "1.xml", content)


def cvat(root: Path, field: str, value: object) -> None:
    for video in VIDEOS:
        attribute = f'<attribute name="{field}">{value}</attribute>'
        box = f'<box frame="0" xtl="1" ytl="2" xbr="5" ybr="9">{attribute}</box>'
        put(root / video / "annotations.xml", f'<annotations><track id="{value}">{box}</track></annotations>')


def mot(root: Path, _: str, value: object) -> None:
    for video in VIDEOS:
        put(root / video / "gt" / "gt.txt", f"1,{value},2,3,4,5,1\n")


def yolo(root: Path, _: str, value: object) -> None:
    for video in VIDEOS:
        put(root / "labels" / f"{video}_1.txt", f"0 0.5 0.5 0.1 0.1 0.9 {value}\n")


def read(source: str, root: Path, **options: object) -> Boxes:
    return read_source(source, root, options)


@pytest.mark.parametrize(
    ("source", "write", "field", "options"),
    [
        ("coco", coco, "identity_id", {}),
        ("coco", coco, "polyp_id", {}),
        ("cocovid", coco, "polyp_id", {}),
        ("cocovid", coco, "identity_id", {}),
        ("cocovid", coco, "instance_id", {"identities": "polyp"}),
        ("cvat", cvat, "polyp", {}),
        ("cvat", cvat, "other", {"identities": "polyp"}),
        ("voc", voc, "polyp_id", {}),
        ("voc", voc, "unique_id", {}),
        ("mot", mot, "", {"identities": "polyp"}),
        ("yolo", yolo, "", {"identities": "polyp", "image_size": (64, 48)}),
    ],
)
def test_id_1_in_two_videos_is_two_polyps(
    tmp_path: Path, source: str, write: Callable[..., None], field: str, options: dict[str, object]
) -> None:
    write(tmp_path, field, 1)
    actual = read(source, tmp_path, **options)
    assert sorted(zip(actual.video, actual.polyp, strict=True)) == [("case1", "case1/1"), ("case2", "case2/1")]


@pytest.mark.parametrize(
    ("source", "write", "field", "polyps"),
    [
        ("coco", coco, "identity_id", {"P7"}),
        ("cocovid", coco, "identity_id", {"P7"}),
        ("cvat", cvat, "unique_id", {"P7"}),
        ("voc", voc, "unique_id", {"P7"}),
        ("voc", voc, "polyp_id", {"case1/P7", "case2/P7"}),
        ("cvat", cvat, "polyp", {"case1/P7", "case2/P7"}),
    ],
)
@pytest.mark.filterwarnings("ignore:.*names another video")
def test_a_name_is_one_polyp_of_the_dataset_only_in_fields_that_say_so(
    tmp_path: Path, source: str, write: Callable[..., None], field: str, polyps: set[str]
) -> None:
    write(tmp_path, field, "P7")
    assert set(read(source, tmp_path).polyp) == polyps


def test_a_slash_in_an_id_cannot_make_two_polyps_one(tmp_path: Path) -> None:
    box = "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>5</xmax><ymax>9</ymax></bndbox>"
    content = "<annotation><object><name>a</name><polyp_id>{}</polyp_id>" + box + "</object></annotation>"
    put(tmp_path / "a" / "1.xml", content.format("b/1"))
    put(tmp_path / "a" / "b" / "1.xml", content.format("1"))
    assert len(set(read("voc", tmp_path).polyp)) == 2
