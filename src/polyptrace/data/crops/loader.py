"""Loads crops from the store to the device, for training and for embedding.

    loader = CropLoader(dataset.crops, torch.device("cuda"))
    for crops in loader.stream(crop_rows):  # (n,) rows of the store -> (n, S, S, 3) uint8 on the device
        ...

If the store fits into GPU memory it is copied there once, and a batch is one indexing operation. Otherwise threads read
batches ahead from the memory map into pinned buffers, and a separate CUDA stream copies them while the GPU computes. A
few buffers are reused in turn:

    read into buffer k    after the previous copy from it has ended (the host waits)
    copy buffer k         after the previous batch in it has been computed (the copy stream waits)
    compute buffer k      after the copy has ended (the compute stream waits)
"""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from polyptrace.core.arrays import Bools, Floats, Ints, Pixels
from polyptrace.core.console import counted
from polyptrace.core.device import usable_cores
from polyptrace.data.crops.regions import CROPS_AT_ONCE, resize_crops

#: Buffers and reader threads. A CPU needs its cores for computing.
GPU_BUFFERS, GPU_READERS = 5, 8
CPU_BUFFERS, CPU_READERS = 2, 1

#: The fewest crops that are worth a thread.
ROWS_PER_THREAD = 16

#: With `auto` the store is held on the GPU if it takes at most this share of the free memory.
GPU_SHARE = 0.4

#: With `auto` on a CPU, a store that must be resized is held at the smaller size if it takes at most this many bytes.
CPU_BYTES = 2**28


class CropLoader:
    """The crop store as seen from one device, at the size that the network takes.

    `where` is `device` (hold the whole store), `host` (read ahead) or `auto` (hold it if it fits). `shared_by` is the
    number of processes that share the GPU. `reason` is a log line that says what was chosen and why.
    """

    def __init__(
        self,
        crops: Pixels,
        device: torch.device,
        size: int | None = None,
        where: Literal["auto", "device", "host"] = "host",
        shared_by: int = 1,
    ) -> None:
        self.crops, self.device, self.size = crops, device, size or crops.shape[1]
        stored, needed = crops.shape[1], len(crops) * self.size**2 * 3
        resizing = "" if self.size == stored else f", resized from {stored} to {self.size} pixels"
        if device.type == "cuda":
            free = torch.cuda.mem_get_info(device)[0]
            hold = where == "device" or (where == "auto" and fits(needed, free, shared_by))
            sharing = f" for {counted(shared_by, 'run')}" if shared_by > 1 else ""
            amount = f"{needed / 2**30:.1f} GiB, {free / 2**30:.1f} GiB free{sharing}"
            location = "on the GPU" if hold else "in the memory map, read ahead into pinned memory"
            self.reason = f"crops: {location} ({where}: {amount}){resizing}"
        else:
            hold = where != "host" and self.size != stored and needed <= CPU_BYTES
            self.reason = f"crops: {'in memory' if hold else 'in the memory map'} (on a CPU){resizing}"
        self.held = self._hold() if hold else None  # (N, S, S, 3)

    def stream(self, parts: Iterable[Ints], pad: int = 0) -> Iterator[Tensor]:
        """The crops (n, S, S, 3) of each part, which are rows of the store.

        If a part has fewer than `pad` rows, zeros are appended. A tensor is valid until the next one is requested.
        """
        if self.held is not None:
            for rows in parts:
                yield _padded(self.held[to_device(rows, self.device)], pad)
            return
        for crops in read_ahead(self.crops, parts, self.device, pad):
            yield resize_crops(crops, self.size)

    def _hold(self) -> Tensor:
        """The whole store on the device, at the size that the network takes."""
        held = torch.empty((len(self.crops), self.size, self.size, 3), dtype=torch.uint8, device=self.device)
        parts = np.split(np.arange(len(held)), range(CROPS_AT_ONCE, len(held), CROPS_AT_ONCE))
        for rows, crops in zip(parts, read_ahead(self.crops, parts, self.device), strict=True):
            held[rows[0] : rows[-1] + 1] = resize_crops(crops, self.size)
        return held


def fits(needed: int, free: int, shared_by: int) -> bool:
    """Whether a store of `needed` bytes may be held on a GPU with `free` bytes that `shared_by` processes share.

    Processes that start together all see the same free memory, so each may take its part of it only.
    """
    return needed <= GPU_SHARE * free / shared_by


def to_device(array: Ints | Floats | Bools, device: torch.device) -> Tensor:
    """A small array on the device; on a GPU the copy is asynchronous."""
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


def read_ahead(crops: Pixels, parts: Iterable[Ints], device: torch.device, pad: int = 0) -> Iterator[Tensor]:
    """The crops of each part at their stored size, read ahead by threads; see `CropLoader.stream`."""
    on_gpu = device.type == "cuda"
    copies = torch.cuda.Stream(device) if on_gpu else None
    threads = min(GPU_READERS, usable_cores()) if on_gpu else CPU_READERS
    free = deque(_Buffer(crops, copies) for _ in range(GPU_BUFFERS if on_gpu else CPU_BUFFERS))
    waiting: deque[_Buffer] = deque()
    source = iter(parts)
    with ThreadPoolExecutor(threads) as readers:
        try:
            while True:
                for rows in islice(source, len(free)):
                    buffer = free.popleft()
                    waiting.append(buffer)
                    buffer.begin(rows, max(len(rows), pad), readers, threads)
                if not waiting:
                    return
                buffer = waiting.popleft()
                yield buffer.on_device()
                buffer.release()
                free.append(buffer)
        finally:
            for buffer in waiting:
                buffer.cancel()


class _Buffer:
    """Memory for one batch, used again and again; for a GPU on both sides, with `copies` as the copy stream."""

    def __init__(self, crops: Pixels, copies: torch.cuda.Stream | None) -> None:
        self._crops, self._copies = crops, copies
        self._host = self._device = torch.empty((0, *crops.shape[1:]), dtype=torch.uint8)
        self._count = 0
        self._reading: list[Future[None]] = []
        self._copied: torch.cuda.Event | None = None
        self._computed: torch.cuda.Event | None = None

    def begin(self, rows: Ints, count: int, readers: ThreadPoolExecutor, threads: int) -> None:
        """Starts reading rows of the store; zeros are appended up to `count` rows."""
        if self._copied is not None:
            self._copied.synchronize()
        if len(self._host) < count:
            self._allocate(count)
        self._count = count
        self._host[len(rows) : count] = 0
        target = self._host.numpy()
        size = max(ROWS_PER_THREAD, -(-len(rows) // threads))
        self._reading = [
            readers.submit(_read, self._crops, rows[start : start + size], target[start : start + size])
            for start in range(0, len(rows), size)
        ]

    def on_device(self) -> Tensor:
        """The batch, once it has been read; the compute stream of a GPU waits for the copy, the host does not."""
        for share in self._reading:
            share.result()
        full = self._count == len(self._device)
        host, device = (memory if full else memory[: self._count] for memory in (self._host, self._device))
        if self._copies is not None:
            assert self._computed is not None
            self._copies.wait_event(self._computed)
            with torch.cuda.stream(self._copies):
                device.copy_(host, non_blocking=True)
            self._copied = self._copies.record_event()
            torch.cuda.current_stream(device.device).wait_event(self._copied)
        return device

    def release(self) -> None:
        """Marks the buffer as reusable after everything that is queued on the compute stream now."""
        if self._copies is not None:
            self._computed = torch.cuda.current_stream(self._device.device).record_event()

    def cancel(self) -> None:
        """Drops reads that have not started."""
        for share in self._reading:
            share.cancel()

    @torch.inference_mode(False)  # a compiled encoder would be compiled again for inference tensors
    def _allocate(self, count: int) -> None:
        shape = (count, *self._crops.shape[1:])
        self._host = self._device = torch.empty(shape, dtype=torch.uint8, pin_memory=self._copies is not None)
        if self._copies is not None:
            self._device = torch.empty(shape, dtype=torch.uint8, device=self._copies.device)
            self.release()  # the memory may belong to another tensor until the compute stream has finished with it


def _read(crops: Pixels, rows: Ints, target: Pixels) -> None:
    """Copies rows of the store; NumPy releases the GIL."""
    assert 0 <= rows.min() <= rows.max() < len(crops)  # checked here: with mode "raise", NumPy copies through a buffer
    np.take(crops, rows, axis=0, out=target[: len(rows)], mode="clip")


def _padded(crops: Tensor, count: int) -> Tensor:
    if len(crops) >= count:
        return crops
    return torch.cat([crops, crops.new_zeros(count - len(crops), *crops.shape[1:])])
