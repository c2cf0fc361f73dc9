"""The file of the crop store and its log."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from polyptrace.core.errors import PolyptraceWarning
from polyptrace.data.crops import store as store_module
from polyptrace.data.crops.store import CropFile, JobLog, create_store, finished_jobs, log_line


def test_crops_are_written_to_their_rows(tmp_path: Path) -> None:
    path = tmp_path / "crops.npy"
    begin = create_store(path, tmp_path / "crops.log", (5, 2, 2, 3))
    crops = torch.arange(36, dtype=torch.uint8).view(3, 2, 2, 3)
    with path.open("r+b", buffering=0) as file:
        CropFile(file.fileno(), begin, 2).write_rows(np.array([0, 3, 4]), crops)
    found = np.load(path)
    np.testing.assert_array_equal(found[[0, 3, 4]], crops.numpy())
    assert not found[[1, 2]].any()


def test_a_job_is_logged_after_its_crops_are_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, store = tmp_path / "crops.log", tmp_path / "crops.npy"
    named_before: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda _: named_before.append(log.read_text("utf-8")))
    monkeypatch.setattr(store_module, "SECONDS_BETWEEN_SYNCS", -1.0)
    with store.open("wb") as file, JobLog.open(log, file.fileno()) as finished:
        finished.add("3 of 8")
        finished.add("1 of 8")
    assert named_before == ["", log_line("3 of 8"), log_line("3 of 8") + log_line("1 of 8")]
    assert finished_jobs(log) == {"1 of 8", "3 of 8"}


def test_finished_jobs_are_logged_when_the_work_is_interrupted(tmp_path: Path) -> None:
    log = tmp_path / "crops.log"

    def stopped() -> None:
        with (tmp_path / "crops.npy").open("wb") as file, JobLog.open(log, file.fileno()) as finished:
            finished.add("5 of 8")
            assert finished_jobs(log) == set()  # not yet: its crops may be on their way
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert finished_jobs(log) == {"5 of 8"}


def test_an_incomplete_last_line_is_removed(tmp_path: Path) -> None:
    log = tmp_path / "crops.log"
    log.write_text(log_line("1 of 8") + log_line("2 of 64") + "3 o", "utf-8")
    assert finished_jobs(log) == {"1 of 8", "2 of 64"}
    assert log.read_text("utf-8") == log_line("1 of 8") + log_line("2 of 64")


def test_a_damaged_line_marks_no_job_as_finished(tmp_path: Path) -> None:
    log = tmp_path / "crops.log"
    log.write_bytes(
        log_line("1 of 8").replace("1 of", "2 of").encode() + b"\xff 3 of 8\n\n" + log_line("4 of 8").encode()
    )
    assert finished_jobs(log) == {"4 of 8"}


@pytest.mark.parametrize("damage", ["truncated", "header", "other shape"])
def test_a_damaged_partial_store_is_created_anew(tmp_path: Path, damage: str) -> None:
    path, log = tmp_path / "crops.npy", tmp_path / "crops.log"
    np.save(path, np.ones((4 if damage == "other shape" else 5, 2, 2, 3), np.uint8))
    log.write_text(log_line("0 of 8"), "utf-8")
    content = path.read_bytes()
    if damage == "truncated":
        path.write_bytes(content[:-1])
    elif damage == "header":
        path.write_bytes(content.replace(b"False", b"True "))
    with pytest.warns(PolyptraceWarning, match="damaged"):
        create_store(path, log, (5, 2, 2, 3))
    assert np.load(path).shape == (5, 2, 2, 3)
    assert not np.load(path).any()
    assert finished_jobs(log) == set()
