"""Crops from the store to the device: read ahead, held, resized."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from polyptrace.data.crops import loader
from polyptrace.data.crops.loader import GPU_SHARE, CropLoader, fits, read_ahead, to_device

CPU = torch.device("cpu")


def test_parts_come_in_order_with_their_own_rows() -> None:
    crops = np.random.default_rng(0).integers(0, 256, (40, 4, 4, 3), np.uint8)
    parts = [np.array([3, 4, 5]), np.array([39]), np.array([], np.int64), np.array([0, 20, 7, 7])]
    for rows, actual in zip(parts, read_ahead(crops, parts, CPU), strict=True):
        assert np.array_equal(actual.numpy(), crops[rows])


def test_padding_is_zeros_behind_the_rows() -> None:
    crops = np.full((6, 2, 2, 3), 9, np.uint8)
    whole, last = read_ahead(crops, [np.arange(4), np.arange(4, 6)], CPU, pad=4)
    assert whole.shape == last.shape == (4, 2, 2, 3)
    assert (last[:2] == 9).all()
    assert (last[2:] == 0).all()


def test_only_some_parts_are_read_ahead() -> None:
    requested: list[int] = []

    class Parts(list[np.ndarray]):
        def __iter__(self):
            for number, part in enumerate(super().__iter__()):
                requested.append(number)
                yield part

    stream = read_ahead(np.zeros((9, 2, 2, 3), np.uint8), Parts([np.arange(9)] * 50), CPU)
    next(stream)
    assert len(requested) <= 3
    stream.close()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_no_batch_is_overwritten_before_it_was_used() -> None:
    random = np.random.default_rng(0)
    crops = random.integers(0, 256, (500, 32, 32, 3), np.uint8)
    parts = [random.integers(0, 500, random.integers(100, 400)) for _ in range(100)]
    work = torch.rand(2048, 2048, device="cuda")
    sums = []
    for batch in read_ahead(crops, parts, torch.device("cuda"), pad=300):
        work = (work @ work).clamp(0, 1)  # the GPU is busy while the next batches are read
        sums.append(batch.double().sum((1, 2, 3)))
    for rows, actual in zip(parts, sums, strict=True):
        expected = np.zeros(max(300, len(rows)))
        expected[: len(rows)] = crops[rows].sum((1, 2, 3))
        assert np.array_equal(actual.cpu().numpy(), expected)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_reading_ahead_to_the_second_gpu_does_not_use_the_first() -> None:
    script = """
import numpy as np
import torch
from polyptrace.data.crops.loader import read_ahead
torch.cuda.set_device(1)
for batch in read_ahead(np.zeros((9, 2, 2, 3), np.uint8), [np.arange(9)] * 5, torch.device("cuda", 1)):
    assert batch.device.index == 1
assert not torch._C._cuda_hasPrimaryContext(0)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_an_array_on_the_cpu_is_not_copied() -> None:
    array = np.arange(3)
    assert to_device(array, CPU).data_ptr() == array.ctypes.data


@pytest.fixture
def store() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (20, 8, 8, 3), np.uint8)


def test_a_resized_store_is_held_and_gives_the_same_crops_as_one_that_is_too_large(
    store: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [np.array([3, 1, 0, 19]), np.array([7])]
    held = CropLoader(store, CPU, 4, "auto")
    assert held.held is not None
    assert "in memory (on a CPU), resized from 8 to 4" in held.reason
    expected = [crops.clone() for crops in held.stream(parts)]
    monkeypatch.setattr(loader, "CPU_BYTES", 20 * 4 * 4 * 3 - 1)
    streamed = CropLoader(store, CPU, 4, "auto")
    assert streamed.held is None
    assert "in the memory map (on a CPU), resized from 8 to 4" in streamed.reason
    for crops, same in zip(streamed.stream(parts), expected, strict=True):
        assert torch.equal(crops, same)


def test_held_crops_are_padded_as_streamed_ones(store: np.ndarray) -> None:
    for where in ("auto", "host"):
        crops = next(iter(CropLoader(store, CPU, 4, where).stream([np.arange(3)], pad=5)))
        assert crops.shape == (5, 4, 4, 3)
        assert crops[:3].any()
        assert not crops[3:].any()


@pytest.mark.parametrize("processes", [1, 2, 3, 10])
def test_processes_that_share_a_gpu_together_hold_no_more_than_one_alone(processes: int) -> None:
    free = 10**9
    largest = max(needed for needed in range(0, free, 10**6) if fits(needed, free, processes))
    assert 0.9 * GPU_SHARE * free < processes * largest <= GPU_SHARE * free
