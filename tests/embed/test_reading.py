"""Crops on their way to the device."""

import random
from collections.abc import Callable
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from polyptrace.embed import reading
from polyptrace.embed.reading import read_ahead, to_device

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
    asked: list[int] = []

    class Parts(list[np.ndarray]):
        def __iter__(self):
            for number, part in enumerate(super().__iter__()):
                asked.append(number)
                yield part

    stream = read_ahead(np.zeros((9, 2, 2, 3), np.uint8), Parts([np.arange(9)] * 50), CPU)
    next(stream)
    assert len(asked) <= 3
    stream.close()


def test_a_few_buffers_go_round() -> None:
    parts = [np.arange(n) for n in (9, 4, 9, 7, 9, 9, 2)]
    found = {crops.data_ptr() for crops in read_ahead(np.zeros((9, 2, 2, 3), np.uint8), parts, CPU, pad=9)}
    assert len(found) <= reading.CPU_SLOTS


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
        for_a_while.setattr(reading.torch, "empty", gpu.empty)
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
