"""COCO: the authors' files as they are, and a detector's results."""

import json
from pathlib import Path

import numpy as np
import pytest

from polyptrace.core.errors import UserError
from polyptrace.data.checks import check_boxes
from polyptrace.data.sources import read_coco
from polyptrace.data.sources.file_names import image_root


def content_of(rows) -> dict:
    """The authors' layout, annotations in another order than images."""
    frames = sorted({(row.video, row.frame_index) for row in rows})
    index = {frame: 10 + k for k, frame in enumerate(frames)}
    images = [
        {
            "id": index[video, frame],
            "file_name": f"{video}_{frame}.jpg",
            "width": 64,
            "height": 48,
            "frame_id": frame,
            "sequence_id": video,
            "dataset_id": "dataset9",
        }
        for video, frame in frames
    ]
    annotations = [
        {
            "id": k,
            "image_id": index[row.video, row.frame_index],
            "bbox": list(row.xywh),
            "identity_id": f"{row.video}_{row.track}",
            "category_id": 1,
            "size": {"1": "4 mm", "2": 11.5}[row.track],
            "histology": {"1": "AD", "2": "hyperplastic polyp"}[row.track],
        }
        for k, row in enumerate(rows)
    ]
    return {"info": {"fps": 29.97}, "images": images, "annotations": annotations, "categories": [{"id": 1}]}


def write_coco(root: Path, content: dict, split: str = "train") -> Path:
    (root / "annotations").mkdir(parents=True, exist_ok=True)
    (root / "annotations" / f"instances_{split}.json").write_text(json.dumps(content))
    return root


def test_the_authors_layout_is_read_row_by_row(tmp_path: Path, world, same_rows) -> None:
    actual = read_coco(write_coco(tmp_path, content_of(world)), split="train")
    same_rows(
        actual,
        world,
        polyp=lambda row: f"{row.video}_{row.track}",
        file=lambda row: f"images/{row.video}_{row.frame_index}.jpg",
        size_mm=lambda row: {"1": 4.0, "2": 11.5}[row.track],
        histology=lambda row: {"1": "AD", "2": "Hyperplastic polyp"}[row.track],
        dataset=lambda _: "dataset9",
    )
    assert set(actual.fps) == {29.97}
    assert (actual.image_width == 64).all()
    assert (actual.track == "").all()
    assert actual.line.tolist() == sorted(
        range(len(world)), key=lambda k: content_of(world)["annotations"][k]["image_id"]
    )


def test_a_json_file_itself_is_a_source_with_the_same_files(tmp_path: Path, world) -> None:
    root = write_coco(tmp_path, content_of(world))
    file = root / "annotations" / "instances_train.json"
    assert read_coco(file).file.tolist() == read_coco(root).file.tolist()
    assert image_root(file) == root


def test_the_published_annotations_are_read_in_the_authors_order(shared: Path) -> None:
    actual = read_coco(shared / "oracles" / "a_annotations_0.json")
    oracle = np.load(shared / "oracles" / "a_tracklets_0.npz")
    assert actual.line.tolist() == oracle["instance_ann_id"].tolist()
    assert actual.frame_index.tolist() == oracle["instance_frame_id"].tolist()
    assert actual.polyp.tolist() == oracle["instance_identity"].tolist()
    np.testing.assert_array_equal(actual.xywh, oracle["instance_bbox"])


def test_a_hidden_file_next_to_the_annotations_is_ignored(tmp_path: Path, world, same_rows) -> None:
    write_coco(tmp_path, content_of(world))
    (tmp_path / "annotations" / "._instances_train.json").write_bytes(b"\0\5")
    same_rows(read_coco(tmp_path), world)


def test_an_older_file_has_the_video_on_the_annotation(tmp_path: Path, world, same_rows) -> None:
    content = content_of(world)
    videos = {image["id"]: image.pop("sequence_id") for image in content["images"]}
    for annotation in content["annotations"]:
        annotation["sequence_id"] = videos[annotation["image_id"]]
    same_rows(read_coco(write_coco(tmp_path, content)), world)


@pytest.mark.parametrize(
    ("identity", "video"),
    [
        ("dataset1_case7", "dataset1_case7"),
        ("dataset3_004-005_1", "dataset3_004-005"),
        ("001-003_2", "001-003"),
        ("clip7", "clip7"),
    ],
)
def test_without_sequence_id_the_identity_names_the_video(tmp_path: Path, world, identity: str, video: str) -> None:
    content = content_of(world[:3])
    for image in content["images"]:
        del image["sequence_id"]
    for annotation in content["annotations"]:
        annotation["identity_id"] = identity
    assert set(read_coco(write_coco(tmp_path, content)).video) == {video}


@pytest.mark.parametrize(
    ("name", "video"),
    [
        ("procedure7/000001.jpg", "procedure7"),
        (r"procedure7\000001.jpg", "procedure7"),
        (r"images\procedure7\000001.jpg", "images/procedure7"),
        ("p7_frame0001.jpg", "p7"),
    ],
)
def test_without_any_identity_the_file_name_names_the_video(tmp_path: Path, name: str, video: str) -> None:
    image, box = {"id": 1, "file_name": name}, {"image_id": 1, "bbox": [1, 2, 3, 4]}
    actual = read_coco(write_coco(tmp_path, {"images": [image], "annotations": [box]}))
    assert (actual.video[0], actual.frame_index[0]) == (video, 1)
    assert actual.file[0] == "images/" + name.replace("\\", "/").removeprefix("images/")
    image["file_name"] = "1.jpg"
    with pytest.raises(UserError, match="its image has no sequence_id"):
        read_coco(write_coco(tmp_path, {"images": [image], "annotations": [box]}))


def test_an_identity_that_names_another_video_is_a_warning_and_sequence_id_is_used(tmp_path: Path, world) -> None:
    content = content_of(world)
    content["annotations"][0]["identity_id"] = "elsewhere_1"
    with pytest.warns(UserWarning, match=r"1 of \d+ boxes have an identity_id that names another video .*'elsewhere'"):
        actual = read_coco(write_coco(tmp_path, content))
    assert set(actual.video) == {"case1", "case2"}


def test_several_splits_are_read_together_and_what_they_share_once(tmp_path: Path, world, same_rows) -> None:
    write_coco(tmp_path, content_of(world), "train")
    write_coco(tmp_path, content_of([row for row in world if row.video == "case2"]), "val")
    with pytest.warns(UserWarning, match=r"read instances_train\.json, instances_val\.json together"):
        same_rows(read_coco(tmp_path), world)
    assert set(read_coco(tmp_path, split="val").video) == {"case2"}
    with pytest.raises(UserError, match=r"has no split 'test' -> --split is one of train, val"):
        read_coco(tmp_path, split="test")


@pytest.mark.parametrize("by", ["id", "text", "name"])
def test_results_of_a_detector_replace_the_annotations(tmp_path: Path, world, same_rows, by: str) -> None:
    content = content_of(world)
    names = {image["id"]: image["file_name"].removesuffix(".jpg") for image in content["images"]}
    results = [
        {
            "image_id": {"id": a["image_id"], "text": str(a["image_id"]), "name": names[a["image_id"]]}[by],
            "bbox": a["bbox"],
            "score": row.score,
        }
        for a, row in zip(content["annotations"], world, strict=True)
    ]
    (tmp_path / "results.json").write_text(json.dumps(results))
    content["annotations"] = []
    actual = read_coco(write_coco(tmp_path, content), results=tmp_path / "results.json")
    same_rows(actual, world, "score", polyp=lambda _: "")
    with pytest.raises(UserError, match=r"results\.json: contains detections only .* --results"):
        read_coco(tmp_path / "results.json")


@pytest.mark.parametrize(
    ("info", "generated"),
    [
        ({"generated": True}, True),
        ({"generated": False}, False),
        ({}, False),
        ({"generated": "yes"}, False),
        ([], False),
    ],
)
def test_info_says_whether_a_file_is_generated(tmp_path: Path, world, info: object, generated: bool) -> None:
    actual = read_coco(write_coco(tmp_path, content_of(world) | {"info": info}))
    assert actual.generated.tolist() == [generated] * len(world)


def test_a_frame_rate_of_zero_is_unknown(tmp_path: Path, world) -> None:
    actual = read_coco(write_coco(tmp_path, content_of(world) | {"info": {"fps": 0}}))
    assert np.isnan(actual.fps).all()


def broken(content: dict, change) -> dict:
    change(content)
    return content


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c["annotations"][3].pop("bbox"), r"annotations\[3\]: bbox: None is not a list of numbers"),
        (lambda c: c["annotations"][3].update(bbox=[1, 2, 3]), r"annotations\[3\]: bbox: has 3 numbers"),
        (
            lambda c: c["annotations"][3].update(bbox=[1, 2, 3, "4"]),
            r"annotations\[3\]: bbox: .* not a list of numbers",
        ),
        (lambda c: c["annotations"][3].update(image_id=9999), r"annotations\[3\]: image_id '9999' is not among"),
        (lambda c: c["annotations"].insert(3, 7), r"annotations\[3\]: is not a JSON object"),
        (lambda c: c["annotations"][3].update(size="big"), r"annotations\[3\]: size 'big' is not understood"),
        (lambda c: c["annotations"][3].update(histology="banana"), r"'banana' is not known -> .*--histology .*AD, Low"),
        (lambda c: c["annotations"][3].update(size="77 mm"), r"has two sizes, .* give each its own id"),
        (lambda c: c["annotations"][3].update(histology="SSL"), r"has two histologies, .* give each its own id"),
        (lambda c: c["annotations"].clear(), "contains no box"),
        (lambda c: c.pop("images"), "has no list 'images'"),
        (lambda c: c["images"][2].update(id=c["images"][1]["id"]), r"images\[2\]: id 11 is also that of images\[1\]"),
        (lambda c: c["images"][2].pop("id"), r"images\[2\]: has no id"),
        (lambda c: c["images"][2].update(file_name="../../etc/passwd"), r"images\[2\]: file name .* leaves"),
        (lambda c: c["images"][2].update(file_name="/etc/passwd"), r"images\[2\]: file name .* leaves"),
        (lambda c: c["images"][2].update(file_name="C:\\x.jpg"), r"images\[2\]: file name .* leaves"),
        (lambda c: c["images"][2].update(file_name=None), r"images\[2\]: the file name is missing"),
        (lambda c: c["images"][2].update(frame_id="x"), r"images\[2\]: frame_id is 'x', not a number"),
        (lambda c: c["images"][2].update(width="wide"), r"images\[2\]: width is 'wide'"),
    ],
)
def test_errors_name_the_record(tmp_path: Path, world, change, message: str) -> None:
    root = write_coco(tmp_path, broken(content_of(world), change))
    with pytest.raises(UserError, match=message):
        read_coco(root)


def test_a_frame_id_that_is_not_whole_is_left_for_a_check_to_find(tmp_path: Path, world) -> None:
    content = broken(content_of(world), lambda c: c["images"][2].update(frame_id=1.5))
    actual = read_coco(write_coco(tmp_path, content))
    where = [f.where for f in check_boxes(actual) if f.kind == "no frame"]
    image = content["images"][2]["id"]
    positions = [k for k, annotation in enumerate(content["annotations"]) if annotation["image_id"] == image]
    assert where == [f"annotations/instances_train.json: annotations[{k}]" for k in positions]
    assert where


def test_an_unknown_histology_can_be_mapped(tmp_path: Path, world) -> None:
    content = content_of(world)
    for annotation in content["annotations"]:
        annotation["histology"] = "banana"
    root = write_coco(tmp_path, content)
    assert set(read_coco(root, histology={"banana": "TSA"}).histology) == {"TSA"}
    assert set(read_coco(root, histology={"banana": ""}).histology) == {""}


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1,2", b'{"images": ', b"\xff\xfe\x00", b"[" * 100_000, b"null", b"3"]
)
def test_a_file_that_is_no_coco_is_a_clear_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(UserError, match=r"x\.json: "):
        read_coco(tmp_path / "x.json")


def test_a_byte_order_mark_changes_nothing(tmp_path: Path, world, same_rows) -> None:
    file = write_coco(tmp_path, content_of(world)) / "annotations" / "instances_train.json"
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b", ", b",\r\n"))
    same_rows(read_coco(tmp_path), world)


def test_the_number_of_a_folder_is_not_that_of_a_frame(tmp_path: Path, world) -> None:
    content = content_of(world)
    for image in content["images"]:
        image["file_name"] = f"seq5\\{'ab'[image.pop('frame_id') % 2]}.jpg"
    with pytest.raises(UserError, match=r"has no frame_id, and 'seq5/[ab].jpg' has no number -> add frame_id"):
        read_coco(write_coco(tmp_path, content), split="train")
