"""The file of the crop store and its marks."""

import os
from pathlib import Path

import numpy as np
import pytest

from polyptrace.core.errors import PolyptraceWarning
from polyptrace.data.crops import store as store_module
from polyptrace.data.crops.store import MARK, UnfinishedCrops

STATES = np.array([11, 11, 13, 13, 13], np.uint64)


def crop(*values: int) -> np.ndarray:
    return np.tile(np.array(values, np.uint8)[:, None, None, None], (1, 2, 2, 3))


def test_crops_are_written_to_their_rows_and_marked(tmp_path: Path) -> None:
    path = tmp_path / "crops.npy"
    crops = np.arange(36, dtype=np.uint8).reshape(3, 2, 2, 3)
    with UnfinishedCrops.open(path, STATES, 2) as store:
        assert not store.finished.any()
        store.write(np.array([0, 3, 4]), crops)
    actual = np.load(path)
    np.testing.assert_array_equal(actual[[0, 3, 4]], crops)
    assert not actual[[1, 2]].any()
    with UnfinishedCrops.open(path, STATES, 2) as store:
        assert store.finished.tolist() == [True, False, False, True, True]


def test_crops_of_a_replaced_file_are_not_finished(tmp_path: Path) -> None:
    with UnfinishedCrops.open(tmp_path / "crops.npy", STATES, 2) as store:
        store.write(np.arange(5), crop(1, 2, 3, 4, 5))
    with UnfinishedCrops.open(tmp_path / "crops.npy", np.where(STATES == 11, 17, STATES), 2) as store:
        assert store.finished.tolist() == [False, False, True, True, True]


def test_a_crop_is_marked_after_it_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marked_before: list[list[int]] = []

    def synced(_: int) -> None:
        marked_before.append(np.flatnonzero(np.fromfile(tmp_path / "crops.done", np.uint64)).tolist())

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(store_module, "SECONDS_BETWEEN_SYNCS", -1.0)
    with UnfinishedCrops.open(tmp_path / "crops.npy", STATES, 2) as store:
        store.write(np.array([3]), crop(1))
        store.write(np.array([1]), crop(1))
    assert marked_before == [[], [3], [1, 3]]


def test_finished_crops_are_marked_when_the_work_is_interrupted(tmp_path: Path) -> None:
    marks = tmp_path / "crops.done"

    def stopped() -> None:
        with UnfinishedCrops.open(tmp_path / "crops.npy", STATES, 2) as store:
            store.write(np.array([2]), crop(9))
            assert not np.fromfile(marks, np.uint64).any()  # not yet: the crop may be on its way
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert np.flatnonzero(np.fromfile(marks, np.uint64)).tolist() == [2]


def test_the_mark_of_another_crop_of_the_same_file_does_not_count(tmp_path: Path) -> None:
    path, marks = tmp_path / "crops.npy", tmp_path / "crops.done"
    with UnfinishedCrops.open(path, STATES, 2) as store:
        store.write(np.array([3]), crop(1))
    np.roll(np.fromfile(marks, np.uint64), 1).tofile(marks)
    with UnfinishedCrops.open(path, STATES, 2) as store:
        assert not store.finished.any()


def test_the_position_in_a_video_is_kept_until_the_video_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "crops.npy"
    with UnfinishedCrops.open(path, STATES, 2) as store:
        assert store.position(2) is None
        store.reached(2, 40, 1600)
        store.reached(3, 41, 1640)  # the same video
    with UnfinishedCrops.open(path, STATES, 2) as store:
        assert [store.position(row) for row in range(5)] == [None, None, (41, 1640), (41, 1640), (41, 1640)]
    with UnfinishedCrops.open(path, np.where(STATES == 13, 17, STATES), 2) as store:
        assert store.position(2) is None
    (tmp_path / "crops.positions").write_text('{"13": [1]}')
    with UnfinishedCrops.open(path, STATES, 2) as store:
        assert store.position(2) is None


def test_a_damaged_mark_is_the_mark_of_no_crop(tmp_path: Path) -> None:
    with UnfinishedCrops.open(tmp_path / "crops.npy", STATES, 2) as store:
        store.write(np.arange(5), crop(1, 2, 3, 4, 5))
    content = bytearray((tmp_path / "crops.done").read_bytes())
    content[MARK] ^= 1
    (tmp_path / "crops.done").write_bytes(content)
    with UnfinishedCrops.open(tmp_path / "crops.npy", STATES, 2) as store:
        assert store.finished.tolist() == [True, False, True, True, True]


@pytest.mark.parametrize("damage", ["truncated", "header", "other shape", "marks"])
def test_a_damaged_partial_store_is_created_anew(tmp_path: Path, damage: str) -> None:
    path, marks = tmp_path / "crops.npy", tmp_path / "crops.done"
    np.save(path, np.ones((4 if damage == "other shape" else 5, 2, 2, 3), np.uint8))
    np.ones(5, np.uint64).tofile(marks)
    content = path.read_bytes()
    if damage == "truncated":
        path.write_bytes(content[:-1])
    elif damage == "header":
        path.write_bytes(content.replace(b"False", b"True "))
    elif damage == "marks":
        marks.write_bytes(marks.read_bytes()[:-1])
    with (
        pytest.warns(PolyptraceWarning, match="damaged"),
        UnfinishedCrops.open(path, STATES, 2) as store,
    ):
        assert not store.finished.any()
    assert np.load(path).shape == (5, 2, 2, 3)
    assert not np.load(path).any()
