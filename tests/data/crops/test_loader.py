"""Crops from the store to the device: read ahead, held, resized."""

import random
from collections.abc import Callable
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from polyptrace.data.crops import loader
from polyptrace.data.crops.loader import GPU_SHARE, CropLoader, fits, read_ahead, to_device

CPU = torch.device("cpu")


def test_parts_come_in_order_with_their_own_rows() -> None:
    crops = np.random.default_rng(0).integers(0, 256, (40, 4, 4, 3), np.uint8)
    parts = [np.array([3, 4, 5]), np.array([39]), np.array([0, 20, 7, 7])]
    for rows, found in zip(parts, read_ahead(crops, parts, CPU), strict=True):
        assert np.array_equal(found.numpy(), crops[rows])


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


def test_a_few_buffers_are_reused_in_turn() -> None:
    parts = [np.arange(n) for n in (9, 4, 9, 7, 9, 9, 2)]
    found = {crops.data_ptr() for crops in read_ahead(np.zeros((9, 2, 2, 3), np.uint8), parts, CPU, pad=9)}
    assert len(found) <= loader.CPU_BUFFERS


class Stream:
    """A queue of a GPU that is worked off later; what waits for something in another queue holds up its own."""

    def __init__(self, gpu: "SimulatedGPU") -> None:
        self.gpu, self.queue, self.device = gpu, [], CPU
        gpu.streams.append(self)

    def push(self, work: Callable[[], object], after: SimpleNamespace | None = None) -> SimpleNamespace:
        self.queue.append(SimpleNamespace(work=work, after=after, done=False))
        return self.queue[-1]

    def wait_event(self, event: SimpleNamespace) -> None:
        self.push(int, event.place)

    def record_event(self) -> SimpleNamespace:
        place = self.push(int)
        return SimpleNamespace(place=place, synchronize=lambda: self.gpu.work_until(lambda: place.done))


class SimulatedGPU:
    """Streams worked off in any order that events allow: what is not waited for goes wrong sooner or later."""

    def __init__(self, seed: int) -> None:
        self.random, self.streams = random.Random(seed), []
        self.current = Stream(self)

    def step(self) -> bool:
        ready = [s for s in self.streams if s.queue and (s.queue[0].after is None or s.queue[0].after.done)]
        if ready:
            first = self.random.choice(ready).queue.pop(0)
            first.work()
            first.done = True
        return bool(ready)

    def work_until(self, enough: Callable[[], bool]) -> None:
        while not enough():
            assert self.step()

    @contextmanager
    def on(self, stream: Stream):
        before, self.current = self.current, stream
        yield
        self.current = before

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype, pin_memory: bool = False, device: object = None):
        assert pin_memory == (device is None and shape[0] > 0)
        memory = torch.full(shape, 255, dtype=dtype)
        return memory if device is None else OnGPU(memory, self)


class OnGPU:
    """A tensor of the simulated GPU: what is copied into it arrives later."""

    def __init__(self, memory: torch.Tensor, gpu: SimulatedGPU) -> None:
        self.memory, self.gpu, self.device = memory, gpu, CPU

    def __len__(self) -> int:
        return len(self.memory)

    def __getitem__(self, part: slice) -> "OnGPU":
        return OnGPU(self.memory[part], self.gpu)

    def copy_(self, source: torch.Tensor, non_blocking: bool) -> None:
        assert non_blocking
        self.gpu.current.push(lambda: self.memory.copy_(source))


@pytest.mark.parametrize("seed", range(20))
def test_on_a_gpu_no_buffer_is_overwritten_before_it_was_used(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimulatedGPU(seed)
    monkeypatch.setattr(torch.cuda, "Stream", lambda _: Stream(gpu))
    monkeypatch.setattr(torch.cuda, "stream", gpu.on)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: gpu.current)
    crops = np.random.default_rng(seed).integers(0, 254, (500, 2, 2, 3), np.uint8)
    parts = [np.sort(gpu.random.sample(range(500), gpu.random.choice([5, 20, 60]))) for _ in range(30)]
    seen: list[np.ndarray] = []
    with monkeypatch.context() as for_a_while:
        for_a_while.setattr(loader.torch, "empty", gpu.empty)
        for found in read_ahead(crops, parts, SimpleNamespace(type="cuda"), pad=gpu.random.choice([0, 60])):
            gpu.current.push(lambda found=found: seen.append(found.memory.numpy().copy()))  # what is computed
            for _ in range(gpu.random.randint(0, 6)):
                gpu.step()
    gpu.work_until(lambda: len(seen) == len(parts))
    for rows, found in zip(parts, seen, strict=True):
        assert np.array_equal(found[: len(rows)], crops[rows])
        assert not found[len(rows) :].any()


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
