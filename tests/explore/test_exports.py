"""Every export can be read again with the same result."""

import csv
import json
import zipfile
from dataclasses import replace
from io import BytesIO
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from polyptrace.cli import main
from polyptrace.config import Crops, Tracks
from polyptrace.core.errors import UserError
from polyptrace.data import Boxes, Dataset, link_tracks, prepare, read_coco, read_cocovid, read_cvat, read_mot
from polyptrace.data.crops.videos import video_info
from polyptrace.embed import Embeddings
from polyptrace.explore import Journal, Workspace
from polyptrace.explore.exports import Named, track_boxes
from polyptrace.explore.labels import CONTRADICTS, label_boxes, read_answers
from polyptrace.explore.page_content import PageContent


@pytest.fixture(scope="module")
def content(explored: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> PageContent:
    """The first procedure after some edits: lesions as labelled, one track rejected."""
    vectors, data = explored
    journal = Journal.open(tmp_path_factory.mktemp("journal") / "answers.jsonl")
    workspace = Workspace(vectors, Embeddings.load(vectors).select("track"), journal)
    procedure = workspace.procedure(0)
    polyp = workspace.tracks.polyp[procedure.rows]
    for name in sorted(set(polyp.tolist())):
        items = tuple(procedure.items[each] for each in np.flatnonzero(polyp == name))
        workspace.journal.append("merge", "Ada", video=procedure.key, items=items)
    names, first = np.unique(polyp, return_index=True)
    for a, b in combinations(first.tolist(), 2):
        pair = (procedure.items[a], procedure.items[b])
        workspace.journal.append("answer", "Ada", video=procedure.key, items=pair, answer="different")
    assert procedure.grouping().confidence.size == len(names)
    workspace.journal.append("reject", "Ada", video=procedure.key, items=(procedure.items[1],))
    workspace.journal.append("note", "Ada", video=procedure.key, items=(procedure.items[2],), text="=1+1")
    return PageContent(workspace, [Dataset.open(data)])


def exported(content: PageContent, kind: str, folder: Path) -> Path:
    name, content, _ = content.export(kind, 0, None)
    path = folder / name
    path.write_bytes(content)
    return path


def expected(content: PageContent) -> dict[tuple[int, float, float], int]:
    """The lesion of each box of the first procedure, by frame and corner."""
    procedure = content.workspace.procedure(0)
    lesion, state = procedure.grouping().lesion, procedure.state()
    crops = content.crops(0)
    assert crops.dataset is not None
    row = int(procedure.rows[0])
    names = str(content.workspace.tracks.dataset[row]), str(content.workspace.tracks.video[row])
    boxes, track = track_boxes(crops.dataset, *names, crops.rows)
    actual = {}
    for number, (own, first, last) in enumerate(state.items):
        rows = np.flatnonzero(track == own)  # no track is split
        assert boxes.frame_index[rows].min() == first
        assert last <= boxes.frame_index[rows].max() < last + 4, "the stride is 4"
        for each in rows.tolist() if lesion[number] >= 0 else ():
            actual[int(boxes.frame_index[each]), *boxes.xywh[each, :2].round(2).tolist()] = int(lesion[number]) + 1
    return actual


def by_corner(boxes: Boxes) -> dict[tuple[int, float, float], int]:
    return {
        (frame, *corner): int(polyp.rpartition("/")[2])
        for frame, corner, polyp in zip(
            boxes.frame_index.tolist(), boxes.xywh[:, :2].round(2).tolist(), boxes.polyp.tolist(), strict=True
        )
    }


def test_mot_is_read_again(content: PageContent, tmp_path: Path) -> None:
    with zipfile.ZipFile(exported(content, "mot", tmp_path)) as archive:
        archive.extractall(tmp_path / "mot")
    assert by_corner(read_mot(tmp_path / "mot", identities="polyp")) == pytest.approx(expected(content))


def test_coco_vid_is_read_again(content: PageContent, tmp_path: Path) -> None:
    boxes = read_cocovid(exported(content, "cocovid", tmp_path))
    assert by_corner(boxes) == expected(content)
    assert len(set(boxes.track)) == int((content.workspace.procedure(0).grouping().lesion >= 0).sum())


def test_mot_and_cvat_of_a_video_are_read_again_beside_it(
    content: PageContent, tiny_videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (video,) = tiny_videos.glob("videos/*.mp4")
    info, name = video_info(video), "Fall 3 (ä).mp4"
    boxes = Boxes.of(
        video="v",
        frame_index=np.arange(40),
        xywh=np.tile([20.0, 30, 40, 50], (40, 1)),
        file=f"videos/{name}",
        image_width=info.width,
        image_height=info.height,
    )
    monkeypatch.setattr(Named, "boxes", lambda _: iter([(0, boxes)]))
    (tmp_path / name).symlink_to(video)
    with zipfile.ZipFile(exported(content, "mot", tmp_path)) as archive:
        archive.extractall(tmp_path)
    exported(content, "cvat", tmp_path)
    assert set(read_mot(tmp_path).file) == {name}
    assert set(read_cvat(tmp_path).file) == {name}


def test_a_track_of_one_frame_does_not_make_its_image_a_video(
    content: PageContent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boxes = Boxes.of(video="v", frame_index=[0, 1, 2], xywh=[[20.0, 30, 40, 50]] * 3, file=["0.jpg", "1.jpg", "2.jpg"])
    parts = [(0, boxes.take(np.array([0, 1]))), (1, boxes.take(np.array([2])))]
    monkeypatch.setattr(Named, "boxes", lambda _: iter(parts))
    assert "<source>" not in exported(content, "cvat", tmp_path).read_text()


def test_boxes_of_no_track_are_in_no_export(tiny: Path, tmp_path: Path) -> None:
    polyps = read_coco(tiny, split="test")
    polyps = replace(polyps, score=np.full(len(polyps), 0.9))
    weak = replace(polyps, xywh=np.tile([0.0, 0, 3, 3], (len(polyps), 1)), score=np.full(len(polyps), 0.1))
    both = Boxes.concatenate([polyps, weak])
    dataset = prepare(both, tiny, tmp_path / "data", Tracks(link="video", start_score=0.5), Crops(size=16))
    table, rows = dataset.tracklets, dataset.select("track")
    columns = {name: getattr(table, name)[rows] for name in ("unit", "dataset", "video", "track", "position", "last")}
    vectors = np.random.default_rng(0).normal(size=(len(rows), 4)).astype(np.float32)
    tracks = Embeddings.from_columns({"vectors": vectors, **columns}, info={"fingerprint": "c" * 64})
    workspace = Workspace(tmp_path, tracks, Journal.open(tmp_path / "answers.jsonl"))
    read = read_cocovid(exported(PageContent(workspace, [dataset]), "cocovid", tmp_path))
    assert len(read)
    assert (read.xywh[:, 2] > 3).all()


def test_cvat_is_read_again(content: PageContent, tmp_path: Path) -> None:
    assert by_corner(read_cvat(exported(content, "cvat", tmp_path))) == expected(content)


@pytest.mark.parametrize("kind", ["csv", "labelstudio", "journal"])
def test_answers_label_the_tracks_of_the_same_boxes(content: PageContent, tmp_path: Path, kind: str) -> None:
    path = content.workspace.journal.path if kind == "journal" else exported(content, kind, tmp_path)
    dataset = content.datasets[0]
    boxes = dataset.boxes()
    track = link_tracks(boxes, within="video")
    labelled = label_boxes(boxes, track, path)
    assert not labelled.unused
    procedure = content.workspace.procedure(0)
    lesion = procedure.grouping().lesion
    own = labelled.boxes.take(np.flatnonzero(labelled.boxes.polyp != ""))
    assert labelled.tracks == int((lesion >= 0).sum())
    assert labelled.polyps == procedure.grouping().confidence.size
    got, wanted = by_corner(own), expected(content)
    assert got.keys() == wanted.keys()
    assert len({(got[each], wanted[each]) for each in got}) == len(set(wanted.values()))


def test_answers_label_the_procedure_of_their_own_dataset(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "answers.jsonl")
    journal.append("answer", "Ada", video="b/v", items=((0, 0, 1), (1, 5, 6)), answer="same")
    journal.append("undo", "Ada", event=1)
    journal.append("answer", "Ada", video="b/v", items=((0, 0, 1), (1, 5, 6)), answer="different")
    datasets = ["a"] * 4 + ["b"] * 4
    table = Boxes.of(video="v", frame_index=[0, 1, 5, 6] * 2, xywh=[[0, 0, 9, 9]] * 8, dataset=datasets)
    labelled = label_boxes(table, np.array([2, 2, 3, 3, 0, 0, 1, 1]), journal.path)
    assert labelled.boxes.polyp.tolist() == [""] * 4 + ["v/1", "v/1", "v/2", "v/2"]
    assert labelled.unused == ()


@pytest.mark.parametrize(("datasets", "labels"), [(["a"] * 4, ["v/1"] * 4), (["a", "a", "b", "b"], [""] * 4)])
def test_answers_on_a_renamed_dataset_label_the_only_procedure_of_that_name(
    tmp_path: Path, datasets: list[str], labels: list[str]
) -> None:
    journal = Journal.open(tmp_path / "answers.jsonl")
    journal.append("answer", "Ada", video="old/v", items=((0, 0, 1), (1, 5, 6)), answer="same")
    table = Boxes.of(video="v", frame_index=[0, 1, 5, 6], xywh=[[0, 0, 9, 9]] * 4, dataset=datasets)
    labelled = label_boxes(table, np.array([0, 0, 1, 1]), journal.path)
    assert labelled.boxes.polyp.tolist() == labels
    assert labelled.unused == (() if labels[0] else ("old/v: no such procedure",))


def test_answers_that_others_or_time_exclude_are_named(tmp_path: Path) -> None:
    path = tmp_path / "lesions.csv"
    rows = ["a,v,0,0,5,1", "a,v,1,4,9,1", "a,v,2,20,29,1"]  # tracks 0 and 1 are visible at the same time
    path.write_text("\n".join(["dataset,video,track,first_frame,last_frame,lesion", *rows]))
    frames, track = [0, 5, 4, 9, 20, 29], np.array([0, 0, 1, 1, 2, 2])
    table = Boxes.of(video="v", frame_index=frames, xywh=[[0, 0, 9, 9]] * 6, dataset=["a"] * 6)
    labelled = label_boxes(table, track, path)
    assert labelled.boxes.polyp.tolist() == ["v/1", "v/1", "v/2", "v/2", "v/2", "v/2"]
    assert labelled.unused == (f"a/v: merge on tracks [0, 1, 2], which {CONTRADICTS}",)


def test_procedures_with_undecided_pairs_stay_unlabelled(
    content: PageContent, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = Journal.open(tmp_path / "answers.jsonl")
    settled, other = (content.workspace.procedure(number) for number in (0, 1))
    pairs = [(settled, 0, 1)]
    apart = [each for each in range(len(other.items)) if each == 0 or other.items[each][1] > other.items[0][2]]
    pairs += [(other, apart[0], apart[1]), (other, apart[2], apart[3])]
    for procedure, *pair in pairs:
        items = tuple(procedure.items[each] for each in pair)
        journal.append("answer", "Ada", video=procedure.key, items=items, answer="different")
    boxes = content.datasets[0].boxes()
    track = link_tracks(boxes, within="video")
    labelled = label_boxes(boxes, track, journal.path)
    assert (labelled.tracks, labelled.polyps) == (2, 2)
    assert set(labelled.boxes.video[labelled.boxes.polyp != ""]) == {settled.key.rpartition("/")[2]}
    assert list(labelled.unsettled) == [other.key]
    everything = label_boxes(boxes, track, journal.path, unlinked_differ=True)
    assert (everything.tracks, everything.polyps, everything.unsettled) == (6, 6, {})

    words = ["prepare", "coco", str(tiny), "--tracks.link", "video", "--crops.size", "16", "--out"]
    with pytest.raises(SystemExit):
        main([*words, str(tmp_path / "data"), "--answers", str(journal.path)])
    message = " ".join(capsys.readouterr().err.split())
    assert "labels 2 tracks of 2 polyps" in message
    assert f"1 procedure with undecided pairs not labelled: {other.key}" in message
    assert "-> continue in 'polyptrace explore'" in message
    journal.append("undo", "Ada", event=1)
    with pytest.raises(SystemExit) as ended:
        main([*words, str(tmp_path / "none"), "--answers", str(journal.path)])
    assert ended.value.code
    assert "undecided pairs in every procedure" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(SystemExit):
        main([*words, str(tmp_path / "all"), "--answers", str(journal.path), "--unlinked-differ"])
    assert "labels 4 tracks of 4 polyps" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(SystemExit) as ended:
        main([*words, str(tmp_path / "unanswered"), "--unlinked-differ"])
    assert "--answers FILE" in capsys.readouterr().err


@pytest.fixture
def unsettled(explored: tuple[Path, Path], tmp_path: Path) -> PageContent:
    """The first procedure after one answer, on two tracks."""
    vectors, data = explored
    workspace = Workspace(vectors, Embeddings.load(vectors).select("track"), Journal.open(tmp_path / "answers.jsonl"))
    procedure = workspace.procedure(0)
    first = procedure.items[0]
    later = next(item for item in procedure.items if item[1] > first[2])
    workspace.journal.append("answer", "Ada", video=procedure.key, items=(first, later), answer="different")
    return PageContent(workspace, [Dataset.open(data)])


@pytest.mark.parametrize("kind", ["csv", "labelstudio"])
def test_suggested_lesions_of_an_export_are_no_labels_unless_the_user_says_so(
    unsettled: PageContent, tmp_path: Path, kind: str
) -> None:
    path = exported(unsettled, kind, tmp_path)
    boxes = unsettled.datasets[0].boxes()
    track = link_tracks(boxes, within="video")
    shown = unsettled.workspace.procedure(0).grouping()
    labelled = label_boxes(boxes, track, path)
    assert (labelled.tracks, labelled.polyps) == (2, 2)
    assert labelled.suggested == len(shown.lesion) - 2
    everything = label_boxes(boxes, track, path, unlinked_differ=True)
    assert (everything.tracks, everything.polyps, everything.suggested) == (len(shown.lesion), shown.confidence.size, 0)


def test_prepare_reports_tracks_of_an_export_that_no_answers_decide_about(
    unsettled: PageContent, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["prepare", "coco", str(tiny), "--tracks.link", "video", "--crops.size", "16", "--answers"]
    tracks = len(unsettled.workspace.procedure(0).items)
    path = exported(unsettled, "csv", tmp_path)
    with pytest.raises(SystemExit):
        main([*words, str(path), "--out", str(tmp_path / "data")])
    message = " ".join(capsys.readouterr().err.split())
    assert "labels 2 tracks of 2 polyps" in message
    assert f"{tracks - 2} tracks not labelled: no answers decide about their lesions -> continue" in message
    unsettled.workspace.journal.append("undo", "Ada", event=1)
    path = exported(unsettled, "csv", tmp_path)
    with pytest.raises(SystemExit) as ended:
        main([*words, str(path), "--out", str(tmp_path / "none")])
    assert ended.value.code
    assert "all lesions are suggestions" in " ".join(capsys.readouterr().err.split())


def test_every_export_says_what_is_only_suggested(content: PageContent, unsettled: PageContent, tmp_path: Path) -> None:
    for kind in ("csv", "mot", "cocovid", "cvat", "labelstudio", "html"):
        assert "unsettled" not in exported(content, kind, tmp_path).name
        assert "-unsettled" in exported(unsettled, kind, tmp_path).name
    lines = list(csv.DictReader(exported(unsettled, "csv", tmp_path).open()))
    assert [line["decided_by"] for line in lines].count("answers") == 2
    assert {line["decided_by"] for line in csv.DictReader(exported(content, "csv", tmp_path).open())} == {"answers"}
    text = exported(unsettled, "cvat", tmp_path).read_text()
    assert (text.count('source="manual"'), text.count('source="auto"')) == (2, len(lines) - 2)
    marks = {(box["track_id"], box["decided_by"]) for box in cocovid_annotations(unsettled, tmp_path)}
    assert sorted(mark for _, mark in marks) == ["answers"] * 2 + ["probability"] * (len(lines) - 2)


def cocovid_annotations(content: PageContent, folder: Path) -> list[dict[str, object]]:
    return list(json.loads(exported(content, "cocovid", folder).read_text())["annotations"])


def test_the_parts_of_a_split_track_have_the_boxes_before_and_after(
    explored: tuple[Path, Path], tmp_path: Path
) -> None:
    vectors, data = explored
    workspace = Workspace(vectors, Embeddings.load(vectors).select("track"), Journal.open(tmp_path / "answers.jsonl"))
    procedure = workspace.procedure(0)
    _, first, last = item = procedure.items[0]
    workspace.journal.append("split", "Ada", video=procedure.key, items=(item,), frame=first + 10)
    boxes = read_cocovid(exported(PageContent(workspace, [Dataset.open(data)]), "cocovid", tmp_path))
    parts = [boxes.frame_index[boxes.track == name] for name in set(boxes.track)]
    spans = sorted((int(part.min()), int(part.max())) for part in parts)
    assert spans[0] == (first, first + 9)
    assert spans[1][0] == first + 10
    assert spans[1][1] >= last
    table = Dataset.open(data).boxes()
    labelled = label_boxes(table, link_tracks(table, within="video"), workspace.journal.path)
    assert (labelled.tracks, labelled.polyps) == (2, 2)
    lines = csv.DictReader(exported(PageContent(workspace, [Dataset.open(data)]), "csv", tmp_path).open())
    assert [line["part"] for line in lines][:3] == ["1", "2", ""]


def test_a_read_back_csv_keeps_notes_harmless(content: PageContent, tmp_path: Path) -> None:
    text = exported(content, "csv", tmp_path).read_text()
    assert "'=1+1" in text
    assert ",none," in text


HEADER = "dataset,video,track,first_frame,last_frame,lesion\n"
UNNAMED_REGION = {"id": "1-0", "value": {"sequence": [{"frame": 1}], "labels": [""]}}


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.csv", "video,track\nv,1\n", "no column"),
        ("a.csv", f"{HEADER}d,v,x,1,2,1\n", "a.csv:2: track"),
        ("a.csv", f"{HEADER}d,v,1,0,10,1\nd,v,2,100,90,1\n", "a.csv:3: last_frame"),
        ("a.csv", f"{HEADER}d,v,1,0,10,\nd,v,2,100,110,\n", "a.csv:2: has no lesion"),
        ("a.csv", f"{HEADER}d,v,1,0,10\nd,v,2,100,110\n", "a.csv:2: has 5 cells"),
        ("a.json", '[{"data": {}}]', "Label Studio"),
        ("a.json", json.dumps([{"data": {}, "annotations": [{"result": [UNNAMED_REGION]}]}]), "empty label"),
        ("a.jsonl", "hello\n", "line 1"),
    ],
)
def test_a_file_that_holds_no_answers_is_an_error(tmp_path: Path, name: str, content: str, problem: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=problem):
        read_answers(tmp_path / name)


def test_prepare_turns_answers_into_polyps(
    content: PageContent, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["prepare", "coco", str(tiny), "--tracks.link", "video", "--crops.size", "16"]
    main_words = [*words, "--answers", str(content.workspace.journal.path), "--out", str(tmp_path / "data")]
    with pytest.raises(SystemExit) as ended:
        main(main_words)
    assert not ended.value.code
    assert "procedure" not in capsys.readouterr().err.partition("labels ")[2].partition("\n")[0], "all are settled"
    table = Dataset.open(tmp_path / "data").tracklets
    procedure = content.workspace.procedure(0)
    own = (table.unit == "track") & (table.video == str(content.workspace.tracks.video[procedure.rows[0]]))
    polyp, lesion = table.polyp[own], procedure.grouping().lesion
    assert (polyp == "").tolist() == (lesion < 0).tolist()
    assert np.array_equal(polyp[:, None] == polyp, lesion[:, None] == lesion)
    assert (table.polyp[(table.unit == "track") & ~own] == "").all(), "no answers about the others"
    with pytest.raises(SystemExit):
        main(["prepare", "coco", str(tiny), "--answers", "x.jsonl", "--out", str(tmp_path / "other")])
    assert "--tracks.link video" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*words, "--answers", str(tmp_path), "--out", str(tmp_path / "other")])
    assert "is a folder -> give the file, for example" in " ".join(capsys.readouterr().err.split())


def test_the_read_only_file_is_one_file_with_all_strips(content: PageContent, tmp_path: Path) -> None:
    text = exported(content, "html", tmp_path).read_text()
    assert '<link rel="stylesheet"' not in text
    assert ' src="' not in text.partition('id="embedded"')[0]
    data = json.loads(text.partition('id="embedded">')[2].partition("</script>")[0])
    assert len(data["strips"]) == len(content.workspace.procedure(0).items)
    assert BytesIO(data["strips"].popitem()[1].encode()).read(23) == b"data:image/jpeg;base64,"
