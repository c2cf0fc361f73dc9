"""The crop store on its own: what it tells on the way, and what it makes of what an earlier run left."""

from collections.abc import Callable
from pathlib import Path

from polyptrace.data import Boxes
from polyptrace.data.store import fill_store

Source = Callable[..., tuple[Boxes, Path]]


def test_progress_moves_within_a_video_and_counts_every_picture_once(make_source: Source, tmp_path: Path) -> None:
    boxes, root = make_source(videos=1)
    told: list[int] = []
    fill_store(tmp_path / "a.npy", boxes, root, size=16, advance=told.append)
    assert told == [1] * 72
    again: list[int] = []
    fill_store(tmp_path / "a.npy", boxes, root, size=16, advance=again.append)
    assert sum(again) == 72


def test_a_line_of_the_log_that_was_cut_off_is_not_continued(make_source: Source, tmp_path: Path) -> None:
    boxes, root = make_source()
    fill_store(tmp_path / "a.npy", boxes, root, size=16)
    whole, log = (tmp_path / "a.npy").read_bytes(), tmp_path / "a.log"
    jobs = {int(line) for line in log.read_text().splitlines()}
    log.write_text("0\n1")
    fill_store(tmp_path / "a.npy", boxes, root, size=16, workers=1)
    assert {int(line) for line in log.read_text().splitlines()} == jobs
    assert (tmp_path / "a.npy").read_bytes() == whole


def test_a_store_that_was_cut_off_while_it_was_made_is_made_again(make_source: Source, tmp_path: Path) -> None:
    boxes, root = make_source(videos=1)
    fill_store(tmp_path / "a.npy", boxes, root, size=16)
    (tmp_path / "b.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:64])
    fill_store(tmp_path / "b.npy", boxes, root, size=16)
    assert (tmp_path / "b.npy").read_bytes() == (tmp_path / "a.npy").read_bytes()
