"""MOT: frames and pixels counted from 1 become 0-based."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from polyptrace.core.errors import UserError
from polyptrace.data.boxes import NO_FRAME
from polyptrace.data.checks import check_boxes
from polyptrace.data.sources import read_mot

SEQINFO = "[Sequence]\nname=x\nimDir=img1\nframeRate=25\nseqLength=25\nimWidth=64\nimHeight=48\nimExt=.jpg\n"


def line(row, *, track: str | None = None, score: float = 1, tail: str = ",-1,-1,-1") -> str:
    x, y, w, h = row.xywh
    return f"{row.frame_index + 1},{row.track if track is None else track},{x + 1},{y + 1},{w},{h},{score}{tail}"


def write_mot(
    root: Path,
    rows,
    *,
    kind: str = "gt",
    end: str = "\n",
    track: str | None = None,
    scores: bool = False,
    tail: str = ",-1,-1,-1",
) -> Path:
    for video in {row.video for row in rows}:
        folder = root / video
        (folder / kind).mkdir(parents=True, exist_ok=True)
        lines = [line(r, track=track, score=r.score if scores else 1, tail=tail) for r in rows if r.video == video]
        (folder / kind / f"{kind}.txt").write_bytes(end.join([*lines, ""]).encode())
        (folder / "seqinfo.ini").write_text(SEQINFO)
    return root


def one_file(tmp_path: Path, content: bytes) -> Path:
    table = tmp_path / "clip" / "gt" / "gt.txt"
    table.parent.mkdir(parents=True, exist_ok=True)
    table.write_bytes(content)
    return tmp_path


def test_ground_truth_is_read_row_by_row(tmp_path: Path, world, same_rows) -> None:
    actual = read_mot(write_mot(tmp_path, world))
    same_rows(
        actual,
        world,
        "track",
        file=lambda row: f"{row.video}/img1/{row.frame_index + 1:06d}.jpg",
        source=lambda row: f"{row.video}/gt/gt.txt",
    )
    assert set(actual.polyp) == {""}
    assert set(actual.fps) == {25.0}
    assert set(zip(actual.image_width, actual.image_height, strict=True)) == {(64, 48)}
    assert np.isnan(actual.score).all()


def test_detections_without_identity_keep_their_scores(tmp_path: Path, world, same_rows) -> None:
    actual = read_mot(write_mot(tmp_path, world, kind="det", track="-1", scores=True))
    same_rows(actual, world, "score", track=lambda _: "")


def test_a_confidence_of_minus_one_is_no_score(tmp_path: Path) -> None:
    table = tmp_path / "clip" / "det" / "det.txt"
    table.parent.mkdir(parents=True)
    table.write_text("1,-1,2,3,4,5,-1\n2,-1,2,3,4,5,0.25\n3,-1,2,3,4,5,-0.5\n")
    assert read_mot(tmp_path).score.tolist() == pytest.approx([np.nan, 0.25, -0.5], nan_ok=True)


def test_ids_are_polyps_only_with_the_option(tmp_path: Path, world, same_rows) -> None:
    write_mot(tmp_path, world)
    same_rows(read_mot(tmp_path, identities="polyp"), world, "track", polyp=lambda row: f"{row.video}/{row.track}")


def test_the_nine_columns_of_cvat_are_read(tmp_path: Path, world, same_rows) -> None:
    same_rows(read_mot(write_mot(tmp_path, world, tail=",1,1.0")), world, "track")


def test_one_sequence_alone_and_a_split_are_found(tmp_path: Path, world, same_rows) -> None:
    write_mot(tmp_path / "train", world)
    first = [row for row in world if row.video == "case1"]
    same_rows(
        read_mot(tmp_path / "train" / "case1"), first, "track", file=lambda r: f"img1/{r.frame_index + 1:06d}.jpg"
    )
    same_rows(read_mot(tmp_path, split="train"), [row.named(f"train/{row.video}") for row in world], "track")
    with pytest.raises(UserError, match="no such folder"):
        read_mot(tmp_path, split="test")


def test_ground_truth_is_preferred_and_detections_can_be_selected(tmp_path: Path, world, same_rows) -> None:
    write_mot(tmp_path, world)
    write_mot(tmp_path, world[:5], kind="det", track="-1", scores=True)
    same_rows(read_mot(tmp_path), world, "track")
    same_rows(read_mot(tmp_path, boxes="det"), world[:5], "score")


def test_images_are_found_with_any_zero_padding_and_missing_ones_are_named_with_it(
    tmp_path: Path, world, picture
) -> None:
    write_mot(tmp_path, world)
    first = world[0]
    picture(tmp_path / first.video / "img1" / f"frame_{first.frame_index + 1:04d}.png")
    actual = read_mot(tmp_path)
    expected = [f"{r.video}/img1/frame_{r.frame_index + 1:04d}.png" for r in world if r.video == first.video]
    assert actual.file[actual.video == first.video].tolist() == expected


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\n\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf", "utf-16"])
def test_line_ends_and_byte_order_marks_change_nothing(
    tmp_path: Path, world, same_rows, end: str, mark: object
) -> None:
    root = write_mot(tmp_path, world, end=end)
    for table in root.glob("*/gt/gt.txt"):
        content = table.read_bytes()
        table.write_bytes(content.decode().encode("utf-16") if mark == "utf-16" else mark + content)
    same_rows(read_mot(root), world, "track")


def test_semicolons_and_blanks_separate_as_well(tmp_path: Path) -> None:
    actual = read_mot(one_file(tmp_path, b"1 7 2 3 4 5 1\n2;7;2.5;3;4;5;1\n# a remark\n\n3, 7, 2, 3, 4, 5\n"))
    assert actual.frame_index.tolist() == [0, 1, 2]
    assert actual.line.tolist() == [1, 2, 5]
    assert actual.xywh[1].tolist() == [1.5, 2, 4, 5]


def test_a_frame_that_is_not_whole_is_left_for_a_check_to_find(tmp_path: Path) -> None:
    actual = read_mot(one_file(tmp_path, b"1,1,2,3,4,5,1\n2.5,1,2,3,4,5,1\nnan,1,2,3,4,5,1\n"))
    assert actual.frame_index.tolist() == [0, NO_FRAME, NO_FRAME]
    assert [bool(file) for file in actual.file] == [True, False, False]
    assert [f.where.rpartition("/")[2] for f in check_boxes(actual)] == ["gt.txt:2", "gt.txt:3"]


def test_entries_to_ignore_are_left_out_of_ground_truth(tmp_path: Path) -> None:
    actual = read_mot(one_file(tmp_path, b"1,1,2,3,4,5,1\n2,1,2,3,4,5,0\n3,1,2,3,4,5,1\n"))
    assert actual.frame_index.tolist() == [0, 2]
    assert actual.line.tolist() == [1, 3]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1,1,2,3,4,5,1\n2,1,2,3\n", r"gt\.txt:2: has 4 of 6 values"),
        (b"1,1,2,3,4,5,1\n2,1,2,three,4,5,1\n", r"gt\.txt:2: top is 'three', not a number"),
        (b"1,1,2,3,4,5,1\n2,nan,2,3,4,5,1\n", r"gt\.txt:2: id is 'nan', not a whole number"),
        (b"1,1,2,3,4,5,1\n\n3,1,1_0,3,4,5,1\n", r"gt\.txt:3: left is '1_0', not a number"),
        (b"1,1,2,3,4,5,1\n2,1,2,\xff3,4,5,1\n", r"gt\.txt:2: is not UTF-8 text"),
        (b"1,1,2,3,4,5,1\n2,1,2,\x003,4,5,1\n", r"gt\.txt:2: contains NUL"),
        (b"", r"gt\.txt: contains no box"),
        (b"\n\n", r"gt\.txt: contains no box"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_mot(one_file(tmp_path, content))


def test_invalid_boxes_are_left_to_the_checks(tmp_path: Path) -> None:
    actual = read_mot(one_file(tmp_path, b"1,1,nan,3,4,5,1\n2,1,2,3,-4,inf,1\n-3,1,2,3,4,5,1\n"))
    assert np.isnan(actual.xywh[0, 0])
    assert actual.xywh[1].tolist() == [1, 2, -4, np.inf]
    assert actual.frame_index[2] == -4


def test_a_file_that_counts_from_zero_needs_the_option(tmp_path: Path, picture) -> None:
    root = one_file(tmp_path, b"0,1,2,3,4,5,1\n2,1,2,3,4,5,1\n")
    picture(root / "clip" / "img1" / "00002.jpg")
    with pytest.raises(UserError, match=r"gt\.txt:1: frame 0, but MOT counts frames from 1 .* --first-frame 0"):
        read_mot(root)
    actual = read_mot(root, first_frame=0)
    assert actual.frame_index.tolist() == [0, 2]
    assert actual.file.tolist() == ["clip/img1/00000.jpg", "clip/img1/00002.jpg"]


def test_a_sequence_without_boxes_is_a_warning(tmp_path: Path, world) -> None:
    write_mot(tmp_path, world)
    (tmp_path / "case2" / "gt" / "gt.txt").write_text("")
    with pytest.warns(UserWarning, match="case2/gt/gt.txt: contains no box"):
        assert set(read_mot(tmp_path).video) == {"case1"}


def test_one_bad_line_in_a_million_is_named_by_its_number_at_once(tmp_path: Path) -> None:
    good = b"7,1,30,3,44,5,1,-1,-1,-1\n"
    content = good * 765_431 + b"7,1,30,3,wide,5,1,-1,-1,-1\n" + good * 234_568
    root = one_file(tmp_path, content)
    began = time.process_time()
    with pytest.raises(UserError, match=r"gt\.txt:765432: w is 'wide', not a number"):
        read_mot(root)
    assert time.process_time() - began < 10


@pytest.mark.parametrize(
    ("seqinfo", "message"),
    [
        ("name=x\n", "not a readable seqinfo.ini"),
        ("[Sequence]\nimWidth=wide\n", "imWidth is 'wide', not a number"),
        ("[Sequence]\nimWidth=64.7\n", "imWidth is '64.7', not a whole number"),
        ("[Sequence]\nframeRate=-1\n", "frameRate is -1, not a frame rate"),
        ("[Sequence]\nimDir=../../elsewhere\n", "leaves the dataset's folder"),
        ("[Sequence]\nimDir=/etc\n", "leaves the dataset's folder"),
    ],
)
def test_a_bad_seqinfo_is_named(tmp_path: Path, world, seqinfo: str, message: str) -> None:
    write_mot(tmp_path, world)
    (tmp_path / "case1" / "seqinfo.ini").write_text(seqinfo)
    with pytest.raises(UserError, match=message):
        read_mot(tmp_path)


def test_a_frame_rate_of_zero_is_unknown(tmp_path: Path, world) -> None:
    write_mot(tmp_path, world)
    for video in ("case1", "case2"):
        (tmp_path / video / "seqinfo.ini").write_text(SEQINFO.replace("frameRate=25", "frameRate=0"))
    assert np.isnan(read_mot(tmp_path).fps).all()


def test_a_folder_without_mot_files_says_what_is_expected(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no gt/gt\.txt or det/det\.txt"):
        read_mot(tmp_path)
    with pytest.raises(UserError, match="no such folder"):
        read_mot(tmp_path / "nowhere")


def test_text_files_next_to_videos_are_detections_of_those_videos(
    tmp_path: Path, world, same_rows, video: Callable
) -> None:
    for name in ("case1", "case2"):
        video(tmp_path / f"{name}.mp4", 25)
        rows = [row for row in world if row.video == name]
        (tmp_path / f"{name}.txt").write_text("\n".join(line(row, track="-1", score=row.score) for row in rows))
    (tmp_path / "notes.txt").write_text("not a table")
    with pytest.warns(
        UserWarning, match=r"left out: .*notes\.txt: no video is named 'notes', only case1\.mp4, case2\.mp4"
    ):
        actual = read_mot(tmp_path)
    same_rows(actual, world, "score", file=lambda row: f"{row.video}.mp4")
    assert set(actual.fps) == {25.0}
    assert set(actual.image_width) == {64}


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ("", r"a\.txt: no video a\.mp4 and no folder a of images -> put one of them next to"),
        ("b.mp4", r"a\.txt: no video is named 'a', only b\.mp4 -> give a video and its boxes the same name"),
        ("a.flv", r"a\.txt: a\.flv is not a known type of video -> convert it to one of \.mp4, \.mov"),
        ("._a.mp4", r"a\.txt: no video a\.mp4 and no folder a of images"),
    ],
)
def test_a_missing_video_a_differently_named_one_and_an_unknown_type_have_their_own_messages(
    tmp_path: Path, other: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("1,-1,2,3,4,5,0.9\n")
    if other:
        (tmp_path / other).write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    for source in (tmp_path, tmp_path / "a.txt", Path("a.txt")):
        with pytest.raises(UserError, match=message):
            read_mot(source)


def test_decimal_commas_are_refused_with_their_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"gt\.txt:2: '2;1;409,4;445,7;30,5;40,1;1' mixes commas"):
        read_mot(one_file(tmp_path, b"1;1;409;445;30;40;1\n2;1;409,4;445,7;30,5;40,1;1\n"))


def test_hidden_files_are_ignored(tmp_path: Path, world, same_rows, picture: Callable) -> None:
    first = [row for row in world if row.video == "case1"]
    (tmp_path / "case1.txt").write_text("\n".join(line(row) for row in first))
    (tmp_path / "._case1.txt").write_bytes(b"\0\5")
    picture(tmp_path / "case1" / f"{first[0].frame_index + 1:06d}.jpg")
    (tmp_path / "case1" / f"._{first[0].frame_index + 1:06d}.jpg").write_bytes(b"\0\5")
    same_rows(read_mot(tmp_path), first, file=lambda row: f"case1/{row.frame_index + 1:06d}.jpg")


def test_videos_and_sequences_may_be_symbolic_links(tmp_path: Path, world, same_rows, video: Callable) -> None:
    write_mot(tmp_path / "elsewhere", world)
    linked = tmp_path / "linked"
    linked.mkdir()
    for name in ("case1", "case2"):
        (linked / name).symlink_to(tmp_path / "elsewhere" / name)
    same_rows(read_mot(linked), world, "track", source=lambda row: f"{row.video}/gt/gt.txt")
    first = [row for row in world if row.video == "case1"]
    video(tmp_path / "archive" / "case1.mp4", 25)
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "case1.mp4").symlink_to(tmp_path / "archive" / "case1.mp4")
    (beside / "case1.txt").write_text("\n".join(line(row) for row in first))
    same_rows(read_mot(beside), first, file=lambda _: "case1.mp4")


def test_a_sequence_folder_has_the_video_of_its_name_beside_it_if_that_is_in_the_source(
    tmp_path: Path, world, video: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_mot(tmp_path, world)
    video(tmp_path / "case1.mp4", 25)
    actual = read_mot(tmp_path)
    assert set(actual.file[actual.video == "case1"]) == {"case1.mp4"}
    assert not set(actual.file[actual.video == "case2"]) & {"case1.mp4"}
    monkeypatch.chdir(tmp_path)
    for path in ("case1", "case1/gt/gt.txt"):
        assert "case1.mp4" not in set(read_mot(Path(path)).file)


def test_the_real_clips_are_read_with_one_row_per_line(shared: Path) -> None:
    root = shared / "data" / "ldpolyp"
    actual = read_mot(root)
    assert len(actual) == sum(len(table.read_text().splitlines()) for table in root.glob("*/gt/gt.txt"))
    assert len(set(actual.video)) == 25
    exists = [(root / name).is_file() for name in actual.file]
    assert 2000 < sum(exists) < len(actual)
    row = int(np.flatnonzero((actual.video == "clip101") & (actual.line == 1))[0])
    assert (actual.frame_index[row], actual.xywh[row].tolist()) == (2, [477, 16, 27, 44])
