"""`polyptrace prepare` as a user types it: what is printed, and what is refused."""

import errno
import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from polyptrace.cli import main

FRAMES = 40


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    """Two MOT sequences of one polyp, with scores in `det` and identities in `gt`."""
    root = tmp_path / "clips"
    for name in ("a", "b"):
        for folder in ("img1", "gt", "det"):
            (root / name / folder).mkdir(parents=True)
        picture = Image.linear_gradient("L").resize((64, 48)).convert("RGB")
        for frame in range(1, FRAMES + 1):
            picture.save(root / name / "img1" / f"{frame:06d}.jpg")
        for kind, identity, score in (("gt", 1, 1), ("det", -1, 0.75)):
            rows = [f"{frame},{identity},20,20,10,10,{score}\n" for frame in range(1, FRAMES + 1)]
            (root / name / kind / f"{kind}.txt").write_text("".join(rows))
    return root


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as end:
        main(["prepare", *map(str, words), "--crops.size", "16"])
    return int(end.value.code or 0)


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]):
    """What was printed since, in one line."""

    def read() -> str:
        found = capsys.readouterr()
        return " ".join((found.out + found.err).split())

    return read


def test_what_came_out_is_printed_and_recorded(clips: Path, tmp_path: Path, said) -> None:
    assert run("mot", clips, "--identities", "polyp", "--out", tmp_path / "d") == 0
    text = said()
    assert "videos 2 polyps 2 boxes 80 rejected 0 short tracks 0 tracks 2 tracklets 2 crops 20" in text
    assert "frames kept per track: 10 / 10 / 10" in text
    assert json.loads((tmp_path / "d/dataset.json").read_text())["source"]["path"] == "clips"


def test_identities_that_are_missing_are_asked_for_with_every_way_out(clips: Path, tmp_path: Path, said) -> None:
    assert run("mot", clips, "--out", tmp_path / "d") == 2
    assert "--tracks.link video or by the tracks that are there: --tracks.link track" in said()
    assert run("mot", clips, "--boxes", "det", "--out", tmp_path / "d") == 2
    assert said().endswith("link by overlap alone: --tracks.link video")
    assert run("mot", clips, "--boxes", "det", "--tracks.link", "video", "--out", tmp_path / "d") == 0


def test_a_score_that_no_box_has_or_reaches_is_said(clips: Path, tmp_path: Path, said) -> None:
    link = ("--tracks.link", "video", "--out", tmp_path / "d")
    assert run("mot", clips, "--boxes", "det", "--min-score", 0.9, *link) == 2
    assert "--min-score 0.9: no box is left -> the highest score is 0.75" in said()
    assert run("mot", clips, "--boxes", "gt", "--min-score", 0.9, *link) == 0
    assert "--min-score 0.9: no box has a score; all are kept" in said()


def test_a_misspelt_option_is_answered_with_the_right_one(clips: Path, tmp_path: Path, said) -> None:
    assert run("mot", clips, "--identity", "polyp", "--out", tmp_path / "d") == 2
    assert "--identity: no such option -> did you mean --identities?" in said()
    assert run("mot", clips, "--tracks.strid", "2", "--out", tmp_path / "d") == 2
    assert "did you mean 'tracks.stride'?" in said()


def test_an_existing_folder_is_refused_before_anything_is_read(tmp_path: Path, said) -> None:
    (tmp_path / "d").mkdir()
    assert run("mot", tmp_path / "nowhere", "--out", tmp_path / "d") == 2
    assert "d: already exists" in said()


def test_left_out_rows_are_pointed_at(clips: Path, tmp_path: Path, said) -> None:
    (clips / "a/img1/000005.jpg").write_bytes(b"")
    words = ("mot", clips, "--identities", "polyp", "--out", tmp_path / "d")
    assert run(*words) == 2
    assert "a/gt/gt.txt:5: a/img1/000005.jpg: picture cannot be decoded" in said()
    assert run(*words, "--skip-bad") == 0
    assert "d/rejected.csv" in said()


def test_the_papers_counts_stand_beside_a_combination_by_its_name(tmp_path: Path, clips: Path, said) -> None:
    run("mot", clips, "--identities", "polyp", "--out", tmp_path / "d")
    info = json.loads((tmp_path / "d/dataset.json").read_text())
    info["source"] = {"format": "rsp", "path": "rspp", "split": None}
    (tmp_path / "d/dataset.json").write_text(json.dumps(info))
    said()
    with pytest.raises(SystemExit):
        main(["check", str(tmp_path / "d")])
    assert "videos 2 161 polyps 2 189" in said()


@pytest.mark.parametrize(("number", "words"), [(errno.ENOSPC, "the disk is full"), (errno.EROFS, "read-only")])
def test_a_disk_that_refuses_is_one_line(
    clips: Path, tmp_path: Path, said, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr("polyptrace.data.rounds.CropRounds.cut", refuse)
    assert run("mot", clips, "--identities", "polyp", "--out", tmp_path / "d") == 2
    assert words in said()


def test_ctrl_c_says_that_the_command_goes_on(
    clips: Path, tmp_path: Path, said, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("polyptrace.data.rounds.CropRounds.cut", interrupt)
    assert run("mot", clips, "--identities", "polyp", "--out", tmp_path / "d") == 130
    assert "stopped -> start the same command again, and it goes on" in said()


def test_spaces_other_alphabets_and_links_in_paths_are_no_matter(clips: Path, tmp_path: Path) -> None:
    odd = tmp_path / "mes vidéos 日本"
    odd.mkdir()
    shutil.move(clips / "a", odd / "Prozedur ä 1")
    (tmp_path / "link").symlink_to(odd)
    assert run("mot", tmp_path / "link", "--identities", "polyp", "--out", tmp_path / "données ß") == 0
    assert (tmp_path / "données ß" / "crops.npy").exists()
