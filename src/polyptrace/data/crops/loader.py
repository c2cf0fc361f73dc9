"""Loads crops from the store to the device, for training and for embedding.

    loader = CropLoader(dataset.crops, torch.device("cuda"))
    for crops in loader.stream(crop_rows):  # (n,) rows of the store -> (n, S, S, 3) uint8 on the device
        ...

If the store fits into GPU memory it is copied there once, and a batch is one indexing operation. Otherwise threads read
batches ahead from the memory map into pinned memory, and a separate CUDA stream copies them while the GPU computes.
"""

from collections.abc import Iterable, Iterator
from functools import cache, partial
from itertools import starmap
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from polyptrace.core.arrays import Bools, Floats, Ints
from polyptrace.core.console import counted
from polyptrace.core.device import usable_cores
from polyptrace.core.read_ahead import map_ahead
from polyptrace.data.crops.resize import CROPS_AT_ONCE, resize_crops
from polyptrace.data.crops.store import CropStore

#: Batches that are read ahead, and the most threads that read them. A CPU needs its cores for computing.
GPU_AHEAD, CPU_AHEAD = 4, 1

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
        crops: CropStore,
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

        If a part has fewer than `pad` rows, zeros are appended.
        """
        if self.held is not None:
            for rows in parts:
                crops, missing = self.held[to_device(rows, self.device)], pad - len(rows)
                yield functional.pad(crops, (0, 0) * 3 + (0, missing)) if missing > 0 else crops
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


def read_ahead(crops: CropStore, parts: Iterable[Ints], device: torch.device, pad: int = 0) -> Iterator[Tensor]:
    """The crops of each part at their stored size, read ahead by threads; see `CropLoader.stream`."""
    copies = _copy_stream(device) if device.type == "cuda" else None
    ahead, threads = (GPU_AHEAD, min(GPU_AHEAD, usable_cores())) if copies else (CPU_AHEAD, CPU_AHEAD)
    yield from starmap(_usable, map_ahead(partial(_read, crops, pad, copies), parts, threads, ahead))


@cache
def _copy_stream(device: torch.device) -> torch.cuda.Stream:
    """The stream of all copies to a GPU: one, because torch does not reuse freed memory of one stream for another."""
    return torch.cuda.Stream(device)


def _read(
    crops: CropStore, pad: int, copies: torch.cuda.Stream | None, rows: Ints
) -> tuple[Tensor, torch.cuda.Event | None]:
    """Rows of the store, with zeros up to `pad` rows; on a GPU with the end of their copy on the stream `copies`.

    NumPy releases the GIL. torch does not reuse pinned memory before the copy from it has ended.
    """
    batch = torch.empty((max(len(rows), pad), *crops.shape[1:]), dtype=torch.uint8, pin_memory=copies is not None)
    assert ((rows >= 0) & (rows < len(crops))).all()  # checked here: with mode "raise", NumPy copies through a buffer
    crops.take(rows, 0, batch.numpy()[: len(rows)], "clip")
    batch[len(rows) :] = 0
    if copies is None:
        return batch, None
    # the device too: a thread starts on GPU 0, and leaving the stream would create a context there
    with torch.cuda.device(copies.device), torch.cuda.stream(copies):
        return batch.to(copies.device, non_blocking=True), copies.record_event()


def _usable(batch: Tensor, copied: torch.cuda.Event | None) -> Tensor:
    """The batch, for which the compute stream waits. Its memory is not reused before that stream has used it."""
    if copied is not None:
        compute = torch.cuda.current_stream(batch.device)
        compute.wait_event(copied)
        batch.record_stream(compute)
    return batch
