"""Damaged copies of the files that polyptrace writes: readers accept them or raise a `UserError`, nothing else."""

import json
import random
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from rich.console import Console

from campaigns.damage import damaged
from polyptrace.cli import check
from polyptrace.config import Config, Crops, Tracks
from polyptrace.core.codec import encode_jpeg
from polyptrace.core.errors import UserError
from polyptrace.data import Boxes, Dataset
from polyptrace.data.crops.filling import fill_store
from polyptrace.data.crops.store import PartialStore, UnfinishedCrops
from polyptrace.data.preparation import PrepareSettings, prepare, refuse_other_content, refuse_other_settings
from polyptrace.explore.strips import read_boxes
from polyptrace.report.curves import load_run
from polyptrace.train.log import discard_after
from polyptrace.train.run_folder import Resumption, begin_run, check_run, thread_note

CASES = 40  # per file
SIZE = 16


def attack(path: Path, read: Callable[[], object], *, restore: Callable[[], None] = lambda: None) -> int:
    """Reads damaged copies of a file; any error but `UserError` is raised. Returns how many were refused."""
    good, rng, refused = path.read_bytes(), random.Random(path.name), 0
    for number in range(CASES):
        content = damaged(path.name, good, rng)
        restore()
        path.write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                read()
            except UserError:
                refused += 1
            except BaseException as error:
                error.add_note(f"case {number} of {path.name}: {content[:300]!r}")
                raise
    restore()
    path.write_bytes(good)
    return refused


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> tuple[Boxes, Path]:
    """A video of 72 pictures with one box in each."""
    root = tmp_path_factory.mktemp("pictures")
    for frame in range(72):
        (root / f"{frame:03}.jpg").write_bytes(
            encode_jpeg(torch.full((3, 48, 64), 40 + frame, dtype=torch.uint8), quality=90)
        )
    boxes = Boxes.of(
        video="v",
        frame_index=np.arange(72),
        xywh=np.tile([20.0, 15.0, 12.0, 10.0], (72, 1)),
        file=np.array([f"{frame:03}.jpg" for frame in range(72)], object),
        image_width=64,
        image_height=48,
        polyp="a",
        fps=25.0,
    )
    return boxes.in_order(), root


@pytest.fixture(scope="module")
def prepared(source: tuple[Boxes, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    boxes, root = source
    return prepare(boxes, root, tmp_path_factory.mktemp("own") / "data", crops=Crops(size=SIZE, workers=1)).path


@pytest.fixture
def copied(prepared: Path, tmp_path: Path) -> Path:
    shutil.copytree(prepared, tmp_path / "data")
    return tmp_path / "data"


@contextmanager
def _quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch, Path("/dev/null").open("w", encoding="utf-8") as nowhere:
        patch.setattr(check, "output", Console(file=nowhere))
        yield


def _use(folder: Path) -> None:
    dataset = Dataset.open(folder)
    check.print_dataset(dataset)
    dataset.boxes()
    dataset.box_of_crop()
    dataset.gather(np.arange(len(dataset.tracklets)))


@pytest.mark.parametrize("name", ["tracklets.parquet", "boxes.parquet", "crops.npy", "dataset.json"])
def test_a_damaged_dataset_is_opened_or_refused(copied: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with _quiet(monkeypatch):
        assert attack(copied / name, lambda: _use(copied))


def test_damaged_boxes_are_explored_or_refused(copied: Path) -> None:
    dataset = Dataset.open(copied)
    assert len(read_boxes(dataset, "", "v")[0]) == 72
    assert attack(copied / "boxes.parquet", lambda: read_boxes(dataset, "", "v"))


def test_a_damaged_dataset_is_reused_or_refused(copied: Path, source: tuple[Boxes, Path]) -> None:
    settings = PrepareSettings(Tracks(), Crops(size=SIZE, workers=1), False, {})

    def reuse() -> None:
        refuse_other_settings(copied, settings)
        refuse_other_content(copied, *source)

    reuse()
    assert attack(copied / "dataset.json", reuse)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("unit", ["clip"]),
        ("track", [-1]),
        ("last", [-1]),
        ("fps", [np.inf]),
        ("fps", [0.0]),
        ("size_mm", [-np.inf]),
        ("rows", [[]]),
        ("rows", [[-1]]),
        ("rows", [[10**6]]),
        ("video", [None]),
        ("position", [0.5]),
    ],
)
def test_tracklets_out_of_range_are_refused(copied: Path, column: str, values: list[Any]) -> None:
    path = copied / "tracklets.parquet"
    table = pq.read_table(path)
    kind = table.schema.field(column).type if column != "position" else pa.float64()
    cells = [*values, *table[column].to_pylist()[1:]]
    pq.write_table(table.set_column(table.column_names.index(column), column, pa.array(cells, kind)), path)
    with pytest.raises(UserError, match="tracklets use" if values == [[10**6]] else f"parquet: {column}:"):
        Dataset.open(copied)


def test_crops_of_another_layout_are_refused(copied: Path) -> None:
    crops = np.load(copied / "crops.npy")
    for other in (crops[:-1], crops.view(np.int8), np.asfortranarray(crops), crops[..., :2], crops[:, 1:]):
        np.save(copied / "crops.npy", other)
        with pytest.raises(UserError, match=r"crops\.npy"):
            Dataset.open(copied)


@pytest.mark.parametrize("ending", [".done", ".npy"])
def test_a_damaged_partial_store_is_never_finished_with_wrong_crops(
    source: tuple[Boxes, Path], prepared: Path, tmp_path: Path, ending: str
) -> None:
    boxes, root = source
    rows, partial, saved = Dataset.open(prepared).box_of_crop(), tmp_path / "d.partial", tmp_path / "saved"
    expected = np.load(prepared / "crops.npy")

    def store() -> PartialStore:
        return PartialStore(partial, boxes, root, Crops(size=SIZE, workers=1), fill_store)

    def restore() -> None:
        shutil.rmtree(partial)
        shutil.copytree(saved, partial)

    def resume() -> None:
        resumed = store()
        assert not resumed.cut(rows)
        resumed.finish(rows)
        crops = np.load(partial / "crops.npy")
        assert crops.shape == expected.shape
        assert ending == ".npy" or np.array_equal(crops, expected)  # the pixels have no checksum

    store().cut(rows)
    (path,) = partial.glob("*.npy")
    marks = np.fromfile(path.with_suffix(".done"), np.uint64)
    marks[8:] = 0  # as if the run had been killed
    marks.tofile(path.with_suffix(".done"))
    crops = np.load(path, "r+")
    crops[8:] = 0
    crops.flush()
    shutil.copytree(partial, saved)
    attack(path.with_suffix(ending), resume, restore=restore)


def test_a_damaged_position_in_a_video_is_not_used(tmp_path: Path) -> None:
    states = np.array([3], np.uint64)
    with UnfinishedCrops.open(tmp_path / "crops.npy", states, SIZE) as crops:
        crops.reached(0, 1206, 617472)

    def resume() -> None:
        with UnfinishedCrops.open(tmp_path / "crops.npy", states, SIZE) as crops:
            assert crops.position(0) in (None, (1206, 617472))

    attack(tmp_path / "crops.positions", resume)


@pytest.fixture
def run(coloured: Dataset, tmp_path: Path) -> Path:
    """A run folder with a checkpoint, without the training."""
    out = tmp_path / "run"
    begin_run(out, Config(), coloured.label_free(), None, Resumption(), 0, "none", [])
    lines = [json.dumps({"step": step, "loss": 1 / step, "tau": 0.3}) + "\n" for step in range(1, 9)]
    (out / "metrics.jsonl").write_text("".join(lines), encoding="utf-8")
    (out / "checkpoints").mkdir()
    (out / "checkpoints/step-00000008.safetensors").touch()
    return out


def test_a_damaged_environment_is_read_or_refused(run: Path, coloured: Dataset) -> None:
    def read() -> None:
        check_run(run, Config(), coloured.label_free(), None)
        thread_note(run, "cpu")
        load_run(run)

    read()
    assert attack(run / "environment.json", read)


def test_damaged_metrics_are_read_or_refused(run: Path) -> None:
    load_run(run)
    assert attack(run / "metrics.jsonl", lambda: load_run(run))
    attack(run / "metrics.jsonl", lambda: discard_after(run, 4))
    (run / "metrics.jsonl").write_bytes(b'{"step": 1}\n\xff\n{"step": 2}\n')
    discard_after(run, 4)
    assert (run / "metrics.jsonl").read_bytes() == b'{"step": 1}\n{"step": 2}\n'
