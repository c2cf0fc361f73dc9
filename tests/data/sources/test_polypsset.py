"""PolypsSet: folders are videos and polyps, frames are numbered by their position."""

from pathlib import Path

import pytest

from polyptrace.core.errors import UserError
from polyptrace.data.sources import read_polypsset

VIDEOS = {"case1": "val2019/1", "case2": "test2019/24"}
KINDS = {"case1": "adenomatous", "case2": "hyperplastic"}


def xml(rows, kind: str, filename: str) -> str:
    objects = ""
    for row in rows:
        x, y, w, h = row.xywh
        corners = f"<xmin>{x}</xmin><ymin>{y}</ymin><xmax>{x + w}</xmax><ymax>{y + h}</ymax>"
        objects += f"<object><name>{kind}</name><bndbox>{corners}</bndbox></object>\n"
    size = "<size><width>384</width><height>288</height><depth>3</depth></size>"
    return f"<annotation><filename>{filename}</filename>{size}\n{objects}</annotation>"


def write(root: Path, world) -> Path:
    """Frames are numbered 100, 110, … in the files: sampled, not consecutive."""
    for case, index in VIDEOS.items():
        part, number = index.split("/")
        folder = root / part / "Annotation" / number
        folder.mkdir(parents=True)
        for frame in range(25):
            rows = [row for row in world if (row.video, row.frame_index) == (case, frame)]
            (folder / f"{100 + 10 * frame}.xml").write_text(xml(rows, KINDS[case], f"{100 + 10 * frame}.jpg"))
    flat = root / "train2019" / "Annotation"
    flat.mkdir(parents=True)
    (flat / "1.xml").write_text(xml(world[:1], "adenomatous", "1.jpg"))
    return root


@pytest.mark.parametrize("wrapper", ["", "PolypsSet"])
def test_videos_are_read_row_by_row(tmp_path: Path, world, same_rows, wrapper: str) -> None:
    write(tmp_path / wrapper, world)
    inner = f"{wrapper}/" if wrapper else ""
    actual = read_polypsset(tmp_path)
    kinds = {VIDEOS[case]: kind for case, kind in KINDS.items()}

    def file(row) -> str:
        part, number = row.video.split("/")
        return f"{inner}{part}/Image/{number}/{100 + 10 * row.frame_index}.jpg"

    same_rows(
        actual,
        [row.named(VIDEOS[row.video]) for row in world],
        polyp=lambda row: row.video,
        histology=lambda row: kinds[row.video],
        file=file,
        dataset=lambda _: "polypsset",
        image_width=lambda _: 384,
        image_height=lambda _: 288,
    )


def test_a_split_is_one_part(tmp_path: Path, world) -> None:
    write(tmp_path, world)
    assert set(read_polypsset(tmp_path, split="val").video) == {"val2019/1"}
    assert set(read_polypsset(tmp_path, split="test2019").video) == {"test2019/24"}
    with pytest.raises(UserError, match="not a split with identities"):
        read_polypsset(tmp_path, split="train2019")


def test_images_without_an_annotation_are_a_warning_and_count_as_frames(tmp_path: Path, world, picture) -> None:
    write(tmp_path, world)
    before = read_polypsset(tmp_path, split="val").frame_index
    picture(tmp_path / "val2019" / "Image" / "1" / "95.jpg")
    with pytest.warns(UserWarning, match="1 image without an XML file"):
        assert read_polypsset(tmp_path, split="val").frame_index.tolist() == (before + 1).tolist()


def test_two_histologies_in_one_folder_are_a_warning_and_the_frequent_one_is_used(tmp_path: Path, world) -> None:
    write(tmp_path, world)
    frame = next(row.frame_index for row in world if row.video == "case1")
    file = tmp_path / "val2019" / "Annotation" / "1" / f"{100 + 10 * frame}.xml"
    file.write_text(file.read_text().replace("adenomatous", "hyperplastic"))
    with pytest.warns(UserWarning, match=r"one polyp with several histologies \(adenomatous \d+, hyperplastic \d\)"):
        assert set(read_polypsset(tmp_path, split="val").histology) == {"adenomatous"}


def test_errors_name_file_and_line(tmp_path: Path, world) -> None:
    with pytest.raises(UserError, match="no val2019/Annotation/N or test2019/Annotation/N -> "):
        read_polypsset(tmp_path)
    write(tmp_path, world)
    frame = next(row.frame_index for row in world if row.video == "case1")
    file = tmp_path / "val2019" / "Annotation" / "1" / f"{100 + 10 * frame}.xml"
    content = file.read_text()
    file.write_text(content.replace("adenomatous", "granite"))
    with pytest.raises(UserError, match=rf"{file.name}:\d: histology 'granite' is not known"):
        read_polypsset(tmp_path)
    assert set(read_polypsset(tmp_path, split="val", histology={"granite": "adenomatous"}).histology) == {"adenomatous"}
    file.write_text(content.replace("<filename>", "<filename>../../../"))
    with pytest.raises(UserError, match="leaves the dataset's folder"):
        read_polypsset(tmp_path)
