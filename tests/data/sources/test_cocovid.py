"""COCO-VID: videos, 0-based frames and instances."""

import json
from pathlib import Path

import pytest

from polyptrace.core.errors import UserError
from polyptrace.data.sources import read_cocovid


def content_of(rows) -> dict:
    videos = sorted({row.video for row in rows})
    frames = sorted({(row.video, row.frame_index) for row in rows})
    return {
        "videos": [{"id": k + 1, "name": v, "fps": 25, "width": 64, "height": 48} for k, v in enumerate(videos)],
        "images": [
            {"id": k, "video_id": videos.index(v) + 1, "frame_id": f, "file_name": f"{v}/{f:06d}.jpg"}
            for k, (v, f) in enumerate(frames)
        ],
        "annotations": [
            {
                "id": k,
                "image_id": frames.index((row.video, row.frame_index)),
                "bbox": list(row.xywh),
                "instance_id": int(row.track),
            }
            for k, row in enumerate(rows)
        ],
    }


def write(root: Path, content: dict) -> Path:
    (root / "annotations").mkdir(exist_ok=True)
    (root / "annotations" / "instances_train.json").write_text(json.dumps(content))
    return root


def test_rows_are_read_row_by_row(tmp_path: Path, world, same_rows) -> None:
    actual = read_cocovid(write(tmp_path, content_of(world)))
    same_rows(
        actual, world, "track", file=lambda row: f"images/{row.video}/{row.frame_index:06d}.jpg", polyp=lambda _: ""
    )
    assert set(actual.fps) == {25.0}
    assert set(zip(actual.image_width, actual.image_height, strict=True)) == {(64, 48)}


def test_instances_are_polyps_with_the_option_or_a_polyp_id(tmp_path: Path, world, same_rows) -> None:
    content = content_of(world)
    same_rows(read_cocovid(write(tmp_path, content), identities="polyp"), world, polyp=lambda r: f"{r.video}/{r.track}")
    for annotation in content["annotations"]:
        annotation["polyp_id"] = f"p{annotation['instance_id']}"
    same_rows(read_cocovid(write(tmp_path, content)), world, polyp=lambda row: f"{row.video}/p{row.track}")


def test_frames_come_from_the_video_file_if_it_exists(tmp_path: Path, world, same_rows, video) -> None:
    for name in ("case1", "case2"):
        video(tmp_path / "videos" / f"{name}.mp4", 25)
    content = content_of(world)
    content["videos"][0]["fps"], content["videos"][1]["fps"] = 30, 0  # 0 is unknown
    rates = {"case1": 30.0, "case2": 25.0}
    actual = read_cocovid(write(tmp_path, content))
    same_rows(actual, world, file=lambda row: f"videos/{row.video}.mp4", fps=lambda row: rates[row.video])


@pytest.mark.parametrize("ending", ["", ".mp4", ".mxf"])
def test_a_video_is_found_by_a_name_with_dots_and_with_any_ending(tmp_path: Path, world, video, ending: str) -> None:
    video(tmp_path / "2024.05.01.mp4", 3)
    content = content_of(world)
    content["videos"][0]["name"] = f"2024.05.01{ending}"
    assert "2024.05.01.mp4" in set(read_cocovid(write(tmp_path, content)).file)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.pop("videos"), "has no list 'videos'"),
        (lambda c: c["images"][1].update(video_id=77), r"images\[1\]: video_id '77' is not among the videos"),
        (lambda c: c["images"][1].pop("frame_id"), r"images\[1\]: has no frame_id"),
        (lambda c: c["images"][1].update(file_name="a/../../x.jpg"), r"images\[1\]: file name .* leaves"),
        (lambda c: c["images"][0].update(file_name="x" * 300), r"images\[0\]: file name .* is too long"),
        (lambda c: c["videos"][0].update(name="../x"), r"videos\[0\]: file name .* leaves"),
        (lambda c: c["annotations"][1].update(image_id=[]), r"annotations\[1\]: image_id '\[\]' is not among"),
        (lambda c: c["annotations"][1].update(bbox="1,2,3,4"), r"annotations\[1\]: bbox: .* not a list of numbers"),
        (lambda c: c["annotations"].clear(), "contains no box"),
    ],
)
def test_errors_name_the_record(tmp_path: Path, world, change, message: str) -> None:
    content = content_of(world)
    change(content)
    with pytest.raises(UserError, match=message):
        read_cocovid(write(tmp_path, content))
