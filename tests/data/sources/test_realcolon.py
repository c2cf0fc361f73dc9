"""REAL-Colon: XML per frame, as folders and as archives, with labels from the two tables."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from polyptrace.core.errors import UserError
from polyptrace.data.sources import read_realcolon
from polyptrace.data.sources.realcolon import SPLITS

VIDEOS = {"case1": "001-001", "case2": "002-009"}
FRAMES = 25


def xml(video: str, frame: int, rows) -> str:
    objects = ""
    for box_id, row in enumerate(rows):
        x, y, w, h = row.xywh
        objects += (
            f"\t<object>\n\t\t<name>lesion</name>\n\t\t<unique_id>{video}_{row.track}</unique_id>\n"
            f"\t\t<box_id>{box_id}</box_id>\n\t\t<bndbox><xmin>{x}</xmin><xmax>{x + w}</xmax>"
            f"<ymin>{y}</ymin><ymax>{y + h}</ymax></bndbox>\n\t</object>\n"
        )
    size = "<size><width>1240</width><height>1080</height><depth>3</depth></size>"
    return f"<annotation>\n\t<filename>{video}_{frame}.jpg</filename>\n\t{size}\n{objects}</annotation>\n"


def documents(world, video: str) -> dict[str, bytes]:
    mine = [row for row in world if VIDEOS.get(row.video) == video]
    return {
        f"{video}_{t}.xml": xml(video, t, [row for row in mine if row.frame_index == t]).encode() for t in range(FRAMES)
    }


def tables(root: Path) -> None:
    lesions = ["unique_object_id,unique_video_name,size [mm],site,histology_extended,histology_class"]
    for video in VIDEOS.values():
        lesions += [
            f'{video}_1,{video},4,caecum,"tubular, low grade",AD',
            f"{video}_2,{video},15,trasnverse,x,NO POLYP",
        ]
    (root / "lesion_info.csv").write_text("\n".join(lesions) + "\n")
    rates = "".join(f"{v},60,M,Olympus,{29.97 if v < '002' else 25},25,2,9\n" for v in VIDEOS.values())
    (root / "video_info.csv").write_text(
        f"unique_video_name,age,sex,endoscope_brand,fps,num_frames,num_lesions,bbps\n{rates}"
    )


def write_folders(root: Path, world, suffix: str = "_annotations") -> Path:
    for video in VIDEOS.values():
        folder = root / f"{video}{suffix}"
        folder.mkdir(parents=True)
        for name, content in documents(world, video).items():
            (folder / name).write_bytes(content)
    tables(root)
    return root


def write_archives(root: Path, world) -> Path:
    root.mkdir(exist_ok=True)
    for video in VIDEOS.values():
        packed = {f"{video}_annotations/{name}": content for name, content in documents(world, video).items()}
        packed[f"{video}_annotations/._{video}_0.xml"] = b"\0\5"  # as archives of macOS have them
        packed[f"{video}_annotations/.xml"] = b""
        frames = {f"{video}_frames/{video}_{t}.jpg": b"jpeg" for t in range(FRAMES)}
        for name, members in ((f"{video}_annotations.tar.gz", packed), (f"{video}_frames.tar.gz", frames)):
            with tarfile.open(root / name, "w:gz") as archive:
                for member, content in members.items():
                    entry = tarfile.TarInfo(f"./{member}")
                    entry.size = len(content)
                    archive.addfile(entry, io.BytesIO(content))
    tables(root)
    return root


def expected(world, *splits: str):
    wanted = {video for split in splits for video in SPLITS[split]} or set(VIDEOS.values())
    return [row.named(VIDEOS[row.video]) for row in world if VIDEOS[row.video] in wanted]


@pytest.mark.parametrize("suffix", ["_annotations", "_annotation"])
def test_folders_are_read_row_by_row(tmp_path: Path, world, same_rows, suffix: str) -> None:
    actual = read_realcolon(write_folders(tmp_path, world, suffix))
    same_rows(
        actual,
        expected(world),
        polyp=lambda row: f"{row.video}_{row.track}",
        file=lambda row: f"{row.video}_frames/{row.video}_{row.frame_index}.jpg",
        source=lambda row: f"{row.video}{suffix}/{row.video}_{row.frame_index}.xml",
        size_mm=lambda row: {"1": 4.0, "2": 15.0}[row.track],
        histology=lambda row: {"1": "AD", "2": "NO POLYP"}[row.track],
        fps=lambda row: {"001-001": 29.97, "002-009": 25.0}[row.video],
        dataset=lambda _: "realcolon",
    )
    assert set(zip(actual.image_width, actual.image_height, strict=True)) == {(1240, 1080)}
    assert (actual.track == "").all()


def test_archives_as_downloaded_give_the_same_rows_and_members_of_archives(tmp_path: Path, world, same_rows) -> None:
    actual = read_realcolon(write_archives(tmp_path / "packed", world))
    file = "{0}_frames.tar.gz::{0}_frames/{0}_{1}.jpg"
    same_rows(actual, expected(world), file=lambda row: file.format(row.video, row.frame_index))
    unpacked = read_realcolon(write_folders(tmp_path / "unpacked", world))
    np.testing.assert_array_equal(actual.xywh, unpacked.xywh)
    assert actual.polyp.tolist() == unpacked.polyp.tolist()


def test_the_papers_splits_select_videos_and_warn_of_missing_ones(tmp_path: Path, world, same_rows) -> None:
    write_folders(tmp_path, world)
    with pytest.warns(UserWarning, match="paper-train lacks 26 videos: 001-003"):
        same_rows(read_realcolon(tmp_path, split="paper-train"), expected(world, "paper-train"))
    with pytest.warns(UserWarning, match="paper-eval lacks 18 videos"):
        same_rows(read_realcolon(tmp_path, split="paper-eval"), expected(world, "paper-eval"))
    with pytest.raises(UserError, match="not a split of REAL-Colon -> paper-train, paper-eval"):
        read_realcolon(tmp_path, split="train")


def test_images_without_an_annotation_are_a_warning(tmp_path: Path, world, picture) -> None:
    picture(write_folders(tmp_path, world) / "001-001_frames" / "001-001_77.jpg")
    with pytest.warns(UserWarning, match="001-001_frames: 1 image without an XML file"):
        read_realcolon(tmp_path)


def test_missing_tables_are_a_warning_and_labels_stay_unknown(tmp_path: Path, world) -> None:
    write_folders(tmp_path, world)
    (tmp_path / "lesion_info.csv").unlink()
    with pytest.warns(UserWarning, match=r"lesion_info\.csv: no such file"):
        actual = read_realcolon(tmp_path)
    assert np.isnan(actual.size_mm).all()
    assert set(actual.histology) == {""}


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("lesion_info.csv", "NO POLYP", "MYSTERY", r"lesion_info\.csv:3: histology 'MYSTERY' is not known .* AD, "),
        ("lesion_info.csv", ",15,", ",huge,", r"lesion_info\.csv:3: size 'huge' is not understood"),
        ("lesion_info.csv", "001-001_2,", "001-001_1,", r"lesion_info\.csv:3: polyp '001-001_1' is listed twice"),
        ("lesion_info.csv", "size [mm]", "size", r"lesion_info\.csv:1: has no column 'size \[mm\]'"),
        ("lesion_info.csv", ",AD", "", r"lesion_info\.csv:2: has 5 cells, the header 6"),
        ("video_info.csv", "29.97", "fast", r"video_info\.csv:2: fps is 'fast', not a number"),
        ("{xml}", "001-001_1</unique_id>", "</unique_id>", r"001-001_\d+\.xml:4: object has no unique_id"),
        ("{xml}", "<filename>001-001", "<filename>../../001-001", "leaves the dataset's folder"),
        ("{xml}", "<filename>001-001", "<filename>001-002", "names another image"),
        ("{xml}", "<xmin>", "<xmin>x", r"xmin is 'x.*', not a number"),
        ("{xml}", "<annotation>", "<!DOCTYPE a><annotation>", "declares a document type"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, world, file: str, old: str, new: str, message: str) -> None:
    write_folders(tmp_path, world)
    if file == "{xml}":
        frame = next(row.frame_index for row in world if row.video == "case1" and row.track == "1")
        file = f"001-001_annotations/001-001_{frame}.xml"
    content = (tmp_path / file).read_text()
    assert old in content
    (tmp_path / file).write_text(content.replace(old, new, 1))
    with pytest.raises(UserError, match=message):
        read_realcolon(tmp_path)


def test_errors_in_the_tables_are_raised_before_the_xml_files_are_read(tmp_path: Path, world) -> None:
    write_folders(tmp_path, world)
    (tmp_path / "lesion_info.csv").write_text("nothing\n1\n")
    (tmp_path / "001-001_annotations" / "001-001_0.xml").write_text("<object")
    with pytest.raises(UserError, match=r"lesion_info\.csv:1: has no column"):
        read_realcolon(tmp_path)


def test_a_folder_without_annotations_says_what_is_expected(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no SSS-VVV_annotations folder"):
        read_realcolon(tmp_path)
    with pytest.raises(UserError, match="no such folder"):
        read_realcolon(tmp_path / "nowhere")


def test_the_papers_split_has_its_27_and_19_videos() -> None:
    train, evaluation = SPLITS["paper-train"], SPLITS["paper-eval"]
    assert (len(train), len(evaluation)) == (27, 19)
    assert not set(train) & set(evaluation)
    assert all(int(video[-3:]) <= 8 for video in train)
    assert all(int(video[-3:]) >= 9 for video in evaluation)
