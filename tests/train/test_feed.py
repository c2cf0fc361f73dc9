"""Batches on the device: crops, masks and targets."""

import numpy as np
import pytest
import torch

from polyptrace.data.crops.loader import CropLoader
from polyptrace.encoders import TrackletEncoder
from polyptrace.methods import Batch
from polyptrace.train.feed import load_batches
from polyptrace.train.loop import Learner


@pytest.fixture
def crops() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (20, 8, 8, 3), np.uint8)


def batch(rows: list[list[int]]) -> Batch:
    table = np.array(rows)
    each = np.arange(len(table))
    return Batch(table, each, each // 2, each * 0.5, together=2)


def test_a_whole_batch_needs_no_mask(crops: np.ndarray) -> None:
    (loaded,) = load_batches([batch([[3, 1], [0, 19]])], CropLoader(crops, torch.device("cpu")))
    assert loaded.crops.numpy().tobytes() == crops[[3, 1, 0, 19]].tobytes()
    assert loaded.shape == (2, 2)
    assert loaded.flat_index is None
    assert loaded.mask is None
    assert loaded.targets.mask.all()


def test_only_valid_frames_are_loaded_each_with_its_index(crops: np.ndarray) -> None:
    given = batch([[3, -1], [-1, -1], [5, 6], [7, -1]])
    (loaded,) = load_batches([given], CropLoader(crops, torch.device("cpu")))
    assert loaded.crops.numpy().tobytes() == crops[[3, 5, 6, 7]].tobytes()
    assert loaded.flat_index is not None
    assert loaded.mask is not None
    assert loaded.flat_index.tolist() == [0, 4, 5, 6]
    assert loaded.mask.flatten().nonzero().flatten().tolist() == [0, 4, 5, 6]


def test_a_compiled_network_is_compiled_once_however_many_frames_are_real(crops: np.ndarray) -> None:
    graphs = []

    def count(graph: torch.fx.GraphModule, _: list[torch.Tensor]) -> torch.fx.GraphModule:
        graphs.append(graph)
        return graph

    loader = CropLoader(crops, torch.device("cpu"))
    torch.compiler.reset()
    learner = Learner(TrackletEncoder("test_resnet", width=16, heads=2, layers=1, size=32))
    learner.compile(backend=count)
    tables = ([[3, -1, 4], [5, 6, -1]], [[1, 2, 3], [5, -1, -1]], [[3, 4, 5], [6, 7, -1]])
    for loaded in load_batches((batch(rows) for rows in tables), loader):
        assert learner(loaded.crops, loaded.shape, loaded.flat_index, loaded.mask).shape[:2] == (2, 4)
    assert len(graphs) == 1


def test_a_process_loads_its_own_part_and_knows_the_targets_of_all(crops: np.ndarray) -> None:
    given = batch([[3], [4], [5], [-1]])
    (second,) = load_batches([given], CropLoader(crops, torch.device("cpu")), process=1, processes=2)
    assert second.crops.numpy().tobytes() == crops[[5]].tobytes()
    assert second.targets.group.tolist() == [0, 0, 1, 1]
    assert second.targets.mask.flatten().tolist() == [True, True, True, False]


def test_batches_that_are_read_ahead_keep_their_own_crops_and_targets(crops: np.ndarray) -> None:
    batches, loader = [batch([[i, -1], [i + 1, i + 2]]) for i in range(9)], CropLoader(crops, torch.device("cpu"))
    for given, loaded in zip(batches, load_batches(batches, loader), strict=True):
        assert loaded.batch is given
        assert loaded.crops.numpy().tobytes() == crops[given.rows[given.rows >= 0]].tobytes()
