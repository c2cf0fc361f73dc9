"""Brings crops from the store to the device, some batches ahead of the one that is computed.

Threads fill one batch after the other, each its share of the rows, so that the first batch is there soon and a GPU is
fed as fast as several cores can copy. A few buffers go round: nothing is allocated on the way. For a GPU they are
pinned, and a stream of its own fetches them while the GPU computes the batches before:

    read into slot k      once the copy of what it held has ended (the host waits: the GPU has enough to do until then)
    copy slot k           once what it held on the GPU is computed (its stream waits)
    compute slot k        once the copy has ended (the GPU's own stream waits)
"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyptrace.core.device import usable_cores
from polyptrace.embed.plan import Ints

#: Batches in memory and threads that read, for a GPU; a CPU needs its cores for computing.
GPU_SLOTS, GPU_READERS = 5, 8
CPU_SLOTS, CPU_READERS = 2, 1

#: Rows that are worth a thread of their own.
LEAST_ROWS = 16


def read_ahead(crops: NDArray[np.uint8], parts: Sequence[Ints], device: torch.device, pad: int = 0) -> Iterator[Tensor]:
    """The crops (n, S, S, 3) of each part, rows of the store, on the device; n is at least `pad`, filled with zeros.

    What comes is valid until the next is asked for.
    """
    on_gpu = device.type == "cuda"
    copies = torch.cuda.Stream(device) if on_gpu else None
    threads = min(GPU_READERS, usable_cores()) if on_gpu else CPU_READERS
    free = deque(_Slot(crops, copies) for _ in range(GPU_SLOTS if on_gpu else CPU_SLOTS))
    waiting: deque[_Slot] = deque()
    source = iter(parts)
    with ThreadPoolExecutor(threads) as readers:
        try:
            while True:
                for rows in islice(source, len(free)):
                    slot = free.popleft()
                    waiting.append(slot)
                    slot.begin(rows, max(len(rows), pad), readers, threads)
                if not waiting:
                    return
                slot = waiting.popleft()
                yield slot.on_device()
                slot.release()
                free.append(slot)
        finally:
            for slot in waiting:
                slot.cancel()


def to_device(array: NDArray[np.int64] | NDArray[np.bool_], device: torch.device) -> Tensor:
    """An array on the device, without waiting for it."""
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


class _Slot:
    """Memory for one batch, used again and again; for a GPU (`copies`: the stream that copies) here and there."""

    def __init__(self, crops: NDArray[np.uint8], copies: torch.cuda.Stream | None) -> None:
        self._crops, self._copies = crops, copies
        self._here = self._there = torch.empty((0, *crops.shape[1:]), dtype=torch.uint8)
        self._count = 0
        self._reading: list[Future[None]] = []
        self._copied: torch.cuda.Event | None = None
        self._computed: torch.cuda.Event | None = None

    def begin(self, rows: Ints, count: int, readers: ThreadPoolExecutor, shares: int) -> None:
        """Has rows of the store read, and zeros behind them until there are `count`."""
        if self._copied is not None:
            self._copied.synchronize()
        if len(self._here) < count:
            self._allocate(count)
        self._count = count
        self._here[len(rows) : count] = 0
        found = self._here.numpy()
        size = max(LEAST_ROWS, -(-len(rows) // shares))
        self._reading = [
            readers.submit(_read, self._crops, rows[place : place + size], found[place : place + size])
            for place in range(0, len(rows), size)
        ]

    def on_device(self) -> Tensor:
        """The batch, once it has been read; the current stream of a GPU is told to wait for the copy."""
        for share in self._reading:
            share.result()
        whole = self._count == len(self._there)
        here, there = (held if whole else held[: self._count] for held in (self._here, self._there))
        if self._copies is not None:
            assert self._computed is not None
            self._copies.wait_event(self._computed)
            with torch.cuda.stream(self._copies):
                there.copy_(here, non_blocking=True)
            self._copied = self._copies.record_event()
            torch.cuda.current_stream(there.device).wait_event(self._copied)
        return there

    def release(self) -> None:
        """Whatever was to be computed of the batch has been asked for."""
        if self._copies is not None:
            self._computed = torch.cuda.current_stream(self._there.device).record_event()

    def cancel(self) -> None:
        """Nobody wants the batch any more."""
        for share in self._reading:
            share.cancel()

    @torch.inference_mode(False)  # a compiled encoder would be compiled once more for tensors of the other kind
    def _allocate(self, count: int) -> None:
        shape = (count, *self._crops.shape[1:])
        self._here = self._there = torch.empty(shape, dtype=torch.uint8, pin_memory=self._copies is not None)
        if self._copies is not None:
            self._there = torch.empty(shape, dtype=torch.uint8, device=self._copies.device)
            self.release()  # the memory may be another tensor's until the current stream is done with that


def _read(crops: NDArray[np.uint8], rows: Ints, found: NDArray[np.uint8]) -> None:
    """Copies rows of the store, without Python's lock."""
    np.take(crops, rows, axis=0, out=found[: len(rows)], mode="clip")
