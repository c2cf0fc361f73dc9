"""Sources by name, and the paper's combinations of them."""

import json
from pathlib import Path

import pytest

from polyptrace.core.errors import UserError
from polyptrace.data.sources import SOURCES, read_rsp, read_rspp, read_source

BOX = "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>9</xmax><ymax>9</ymax></bndbox>"
VOC = "<annotation><object><name>{}</name><unique_id>{}</unique_id>" + BOX + "</object></annotation>"


def put(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


@pytest.fixture
def all_four(tmp_path: Path) -> Path:
    """One box of each dataset of the paper, in folders with different names, and one training video."""
    for video in ("001-001", "001-009"):
        put(tmp_path / "REAL-Colon" / f"{video}_annotations" / f"{video}_5.xml", VOC.format("lesion", f"{video}_1"))
    put(tmp_path / "REAL-Colon" / "lesion_info.csv", "unique_object_id,size [mm],histology_class\n001-009_1,4,AD\n")
    put(tmp_path / "REAL-Colon" / "video_info.csv", "unique_video_name,fps\n001-009,25\n")
    put(tmp_path / "sun" / "annotation_txt" / "case3.txt", "case_M_a1_ayy_image0001.jpg 1,2,9,9,0\n")
    put(tmp_path / "Polyp_Size_Dataset" / "Video07_frame0003.xml", VOC.format("polyp", ""))
    put(tmp_path / "Polyp_Size_Dataset" / "Polyp_Size_Lables.csv", "Video_ID,Polyp_Size\nVideo07,11mm\n")
    put(tmp_path / "PolypsSet" / "test2019" / "Annotation" / "4" / "1.xml", VOC.format("hyperplastic", ""))
    return tmp_path


@pytest.mark.filterwarnings("ignore:.*paper-eval lacks")
def test_rsp_is_the_evaluation_videos_with_sun_and_polypsize(all_four: Path) -> None:
    actual = read_rsp(all_four)
    assert actual.dataset.tolist() == ["realcolon", "sun", "polypsize"]
    assert actual.video.tolist() == ["001-009", "case3", "Video07"]
    assert actual.size_mm.tolist() == [4.0, 3.0, 11.0]
    assert [name.split("/")[0] for name in actual.file] == ["REAL-Colon", "sun", "Polyp_Size_Dataset"]


@pytest.mark.filterwarnings("ignore:.*paper-eval lacks")
def test_rspp_adds_polypsset(all_four: Path) -> None:
    actual = read_rspp(all_four)
    assert actual.video.tolist() == ["001-009", "case3", "Video07", "test2019/4"]
    assert actual.histology.tolist() == ["AD", "Low-grade adenoma", "", "hyperplastic"]
    assert actual.file[3] == "PolypsSet/test2019/Image/4/1.jpg"


@pytest.mark.filterwarnings("ignore:.*paper-eval lacks")
def test_a_combination_passes_options_to_its_parts(all_four: Path, tmp_path: Path) -> None:
    put(tmp_path / "cases.csv", "case_id,size_mm,pathology\n3,7,odd\n")
    table = all_four / "Polyp_Size_Dataset" / "Polyp_Size_Lables.csv"
    put(table, "Video_ID,Polyp_Size,Kind\nVideo07,11mm,odd\n")
    options = {"cases": tmp_path / "cases.csv", "columns": {"histology": "Kind"}, "histology": {"odd": "HP"}}
    actual = read_source("rspp", all_four, {**options, "split": None})
    assert actual.size_mm[:3].tolist() == [4.0, 7.0, 11.0]
    assert actual.histology.tolist() == ["AD", "HP", "HP", "hyperplastic"]
    (all_four / "REAL-Colon" / "001-009_annotations" / "001-009_5.xml").write_text("damaged since")
    with pytest.raises(UserError, match=r"001-009_5\.xml"):
        read_source("rspp", all_four, options)


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no folder 'realcolon'"):
        read_rsp(tmp_path)


@pytest.mark.parametrize("source", ["sun", "polypsize", "rsp", "rspp"])
def test_a_split_of_a_source_without_splits_is_refused(tmp_path: Path, source: str) -> None:
    with pytest.raises(UserError, match=f"{source}: has no option --split -> it has .*--histology"):
        read_source(source, tmp_path, {"split": "train"})


def test_a_source_is_read_by_its_name_with_the_options_it_has(tmp_path: Path) -> None:
    image = {"id": 1, "file_name": "a_1.jpg", "frame_id": 1, "sequence_id": "a"}
    box = {"image_id": 1, "bbox": [1, 2, 3, 4], "histology": "odd"}
    put(tmp_path / "x.json", json.dumps({"images": [image], "annotations": [box]}))
    actual = read_source("coco", tmp_path / "x.json", {"histology": {"odd": "AD"}, "identities": None, "split": None})
    assert actual.histology.tolist() == ["AD"]
    with pytest.raises(UserError, match="coco: has no option --identities -> it has --split, --results, --histology"):
        read_source("coco", tmp_path / "x.json", {"identities": "polyp"})
    with pytest.raises(UserError, match="--identities lesion: not a choice -> track or polyp"):
        read_source("mot", tmp_path, {"identities": "lesion"})
    with pytest.raises(UserError, match="kvasir: is not a source -> one of realcolon, sun"):
        read_source("kvasir", tmp_path, {})


def test_every_source_refuses_a_missing_folder(tmp_path: Path) -> None:
    for name in SOURCES:
        with pytest.raises(UserError, match="nowhere"):
            read_source(name, tmp_path / "nowhere", {})
