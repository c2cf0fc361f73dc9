"""SUN: sub-clips are placed one after another with a gap, labels come from the website's table."""

from pathlib import Path

import numpy as np
import pytest

from polyptrace.core.errors import UserError
from polyptrace.data import link_tracks
from polyptrace.data.sources import read_sun
from polyptrace.data.sources.sun import GAP

NAME = "case_M_20181001093706_0U62368100179605_1_004_002-1_a{clip}_ayy_image{frame:04d}.jpg"


def write(root: Path) -> dict[str, list[tuple[int, int, tuple[int, int, int, int]]]]:
    """Case 1 in part 1 with sub-clips 2 and 10, case 100 in part 2; returns (clip, frame, box) of the polyp lines."""
    texts = root / "sundatabase_positive_part1" / "annotation_txt"
    texts.mkdir(parents=True)
    rng = np.random.default_rng(3)
    truth = {}
    for case, part in (("case1", 1), ("case100", 2)):
        (root / f"sundatabase_positive_part{part}" / case).mkdir(parents=True)
        lines, truth[case] = [], []
        for clip, first, last in ((10, 5, 9), (2, 1, 6)):
            for frame in range(first, last + 1):
                x, y, w, h = rng.integers(1, 400, 4).tolist()
                polyp = frame != 4
                lines.append(f"{NAME.format(clip=clip, frame=frame)} {x},{y},{x + w},{y + h},{0 if polyp else 1}")
                truth[case] += [(clip, frame, (x, y, w, h))] if polyp else []
        (texts / f"{case}.txt").write_text("\r\n".join(lines) + "\r\n")
    return truth


def test_every_polyp_line_is_a_row_with_rebuilt_frames(tmp_path: Path) -> None:
    truth = write(tmp_path)
    actual = read_sun(tmp_path)
    start = {2: -1, 10: 6 + GAP - 5}  # sub-clip 2 (frames 1-6) comes first, then a gap, then 10 (frames 5-9)
    for case, part in (("case1", 1), ("case100", 2)):
        rows = actual.take(actual.video == case)
        assert rows.frame_index.tolist() == [start[clip] + frame for clip, frame, _ in truth[case]]
        assert rows.xywh.tolist() == [list(box) for _, _, box in truth[case]]
        folder = f"sundatabase_positive_part{part}/{case}"
        assert rows.file.tolist() == [f"{folder}/{NAME.format(clip=c, frame=f)}" for c, f, _ in truth[case]]
        assert set(rows.polyp) == {case}
    assert set(actual.fps) == {30.0}
    assert set(actual.dataset) == {"sun"}


def test_sizes_and_histologies_come_with_the_package(tmp_path: Path) -> None:
    write(tmp_path)
    actual = read_sun(tmp_path)
    labels = {
        video: (size, kind) for video, size, kind in zip(actual.video, actual.size_mm, actual.histology, strict=True)
    }
    assert labels == {"case1": (6.0, "Low-grade adenoma"), "case100": (3.0, "Hyperplastic polyp")}


def test_the_packaged_table_is_the_published_one(shared: Path) -> None:
    packaged = Path(__file__).parents[3] / "src/polyptrace/data/sources/sun_cases.csv"
    assert packaged.read_text().split() == (shared / "facts" / "sun_cases.csv").read_text().split()


def test_no_track_crosses_from_one_sub_clip_to_the_next(tmp_path: Path) -> None:
    texts = tmp_path / "annotation_txt"
    texts.mkdir()
    lines = [f"{NAME.format(clip=clip, frame=frame)} 10,10,50,50,0" for clip in (1, 2) for frame in range(1, 6)]
    (texts / "case1.txt").write_text("\n".join(lines))
    assert len(set(link_tracks(read_sun(tmp_path), "video", max_gap=100).tolist())) == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x.jpg 1,2,3,4,0", r"case1\.txt:1: 'x\.jpg' is not a name of SUN"),
        (f"../{NAME.format(clip=1, frame=1)} 1,2,3,4,0", "leaves the dataset's folder"),
        (f"{NAME.format(clip=1, frame=1)} 1,2,3,4", r"case1\.txt:1: '1,2,3,4' is not xmin,ymin,xmax,ymax,class"),
        (f"{NAME.format(clip=1, frame=1)} 1,b,3,4,0", r"case1\.txt:1: value is 'b', not a number"),
        (f"{NAME.format(clip=1, frame=1)} 1,2,3,4,7", r"case1\.txt:1: class is 7"),
        (f"{NAME.format(clip=1, frame=1)} 1,2,3,4,1", r"no line of annotation_txt has class 0"),
        ("", r"no line of annotation_txt has class 0"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "annotation_txt").mkdir()
    (tmp_path / "annotation_txt" / "case1.txt").write_text(line)
    with pytest.raises(UserError, match=message):
        read_sun(tmp_path)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("case_id,size_mm,pathology\n1,15mm-,High-grade adenoma\n", None),
        ("case_id,size_mm,pathology\n1,6,Strange\n", r"t\.csv:2: histology 'Strange' is not known"),
        ("case_id,size_mm,pathology\n1,6,\n1,7,\n", r"t\.csv:3: polyp 'case1' is listed twice"),
        ("case_id,size\n1,6\n", r"t\.csv:1: has no column 'size_mm'"),
        ("", r"t\.csv:1: has no header"),
    ],
)
def test_another_table_of_cases_can_be_given(tmp_path: Path, table: str, message: str | None) -> None:
    write(tmp_path)
    (tmp_path / "t.csv").write_text(table)
    if message is None:
        actual = read_sun(tmp_path, cases=tmp_path / "t.csv")
        assert set(actual.size_mm[actual.video == "case1"]) == {15.0}
        return
    with pytest.raises(UserError, match=message):
        read_sun(tmp_path, cases=tmp_path / "t.csv")


def test_a_folder_that_is_not_sun_says_what_is_expected(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no annotation_txt/caseN\.txt"):
        read_sun(tmp_path)
