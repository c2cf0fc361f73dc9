"""Brings crops from the store to where the network is.

On a GPU the whole store is held there as uint8 when it fits, and a batch is one indexing; otherwise a thread reads the
next batches from the memory map into pinned memory and copies them while the GPU computes. On a CPU the memory map is
read directly. Where the network sees smaller crops than are stored, they are made smaller on the way.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from polyptrace.core.errors import UserError
from polyptrace.methods import Batch, Targets

#: Batches that are read ahead of the one in use.
AHEAD = 2

#: The store is held on the GPU when it takes at most this share of the memory that is free, or of a run's part of it.
SHARE = 0.4

#: On a CPU a store that has to be resized is held at the smaller size when that takes at most so many bytes.
HELD_ON_CPU = 2**28

#: Crops that are moved or resized at a time.
CHUNK = 128


@dataclass(frozen=True)
class Loaded:
    """A batch on the device: the crops that this process encodes, and what the loss needs about all."""

    batch: Batch
    part: slice  # of the B, this process's own
    crops: Tensor  # (n, S, S, 3) uint8, real frames only
    shape: tuple[int, int]  # (B of this process, L)
    place: Tensor | None  # (n,) where each crop stands in B * L; None: all frames are real
    mask: Tensor | None  # (B of this process, L)
    targets: Targets

    def tensors(self) -> Iterator[Tensor]:
        """All that was put on the device."""
        several = (self.crops, self.place, self.mask, *(getattr(self.targets, f.name) for f in fields(self.targets)))
        return (tensor for tensor in several if tensor is not None)


class Feed:
    """The crop store, as seen from one device."""

    def __init__(
        self,
        crops: NDArray[np.uint8],
        size: int,
        device: torch.device,
        where: Literal["auto", "device", "host"] = "auto",
        process: int = 0,
        processes: int = 1,
        compiled: bool = False,
        shared_by: int = 1,
    ) -> None:
        self.crops, self.size, self.device = crops, size, device
        self.process, self.processes = process, processes
        self.compiled = compiled  # so is what the batches go to
        self.held: Tensor | None = None
        if size > crops.shape[1]:
            raise UserError(
                f"train.crop_size: {size} pixels, the stored crops have {crops.shape[1]}"
                f" -> prepare them at --crops.size {size}, or give a smaller one"
            )
        needed = len(crops) * size * size * 3
        if device.type == "cuda":
            free = torch.cuda.mem_get_info(device)[0]
            if where == "device" or (where == "auto" and fits(needed, free, shared_by)):
                self.held = self._hold()
            sharing = f" for {shared_by} runs" if shared_by > 1 else ""
            reason = f"{needed / 2**30:.1f} GiB, {free / 2**30:.1f} GiB free{sharing}"
            place = "on the GPU as uint8" if self.held is not None else "in the memory map, pinned and read ahead"
            self.reason = f"crops: {place} ({where}: {reason})"
        elif size != crops.shape[1] and needed <= HELD_ON_CPU:
            self.held = self._hold()
            self.reason = f"crops: in memory, resized once from {crops.shape[1]} to {size} pixels"
        else:
            resizing = "" if size == crops.shape[1] else f", resized from {crops.shape[1]} to {size} pixels as needed"
            self.reason = f"crops: in the memory map (on a CPU){resizing}"

    def stream(self, batches: Iterable[Batch]) -> Iterator[Loaded]:
        """The batches, loaded; where they have to be copied from the host, some are loaded ahead."""
        if self.device.type == "cpu" or self.held is not None:
            yield from map(self.load, batches)
            return
        copies = torch.cuda.Stream(self.device)
        with ThreadPoolExecutor(1) as reader:
            waiting: deque[Future[tuple[Loaded, torch.cuda.Event]]] = deque()
            source = iter(batches)
            try:
                while True:
                    while len(waiting) < AHEAD and (batch := next(source, None)) is not None:
                        waiting.append(reader.submit(self._load_aside, batch, copies))
                    if not waiting:
                        return
                    loaded, copied = waiting.popleft().result()
                    here = torch.cuda.current_stream(self.device)
                    here.wait_event(copied)
                    for tensor in loaded.tensors():
                        tensor.record_stream(here)  # or its memory could be given away too early
                    yield loaded
            finally:
                for future in waiting:
                    future.cancel()

    def load(self, batch: Batch) -> Loaded:
        """One batch on the device."""
        part = batch.part(self.process, self.processes)
        rows = batch.rows[part]  # (B of this process, L)
        there = rows >= 0
        real = torch.from_numpy(batch.rows >= 0)
        crops, place, mask = self._crops(rows[there]), None, None
        if not there.all():
            place = self._to_device(torch.from_numpy(np.flatnonzero(there)))
            mask = self._to_device(torch.from_numpy(there))
            if self.compiled:
                mark_varying(crops, place)
        return Loaded(
            batch,
            part,
            crops,
            (rows.shape[0], rows.shape[1]),
            place,
            mask,
            Targets(
                self._to_device(real),
                self._to_device(torch.from_numpy(batch.tracklet)),
                self._to_device(torch.from_numpy(batch.group)),
                self._to_device(torch.from_numpy(batch.position)),
            ),
        )

    def _load_aside(self, batch: Batch, copies: torch.cuda.Stream) -> tuple[Loaded, torch.cuda.Event]:
        with torch.cuda.stream(copies):
            loaded = self.load(batch)
            event = torch.cuda.Event()
            event.record(copies)
        return loaded, event

    def _crops(self, rows: NDArray[np.int64]) -> Tensor:
        if self.held is not None:
            return self.held[self._to_device(torch.from_numpy(rows))]
        return self._read(rows)

    def _hold(self) -> Tensor:
        """The whole store (n, S, S, 3) on the device, at the size that the network sees."""
        held = torch.empty((len(self.crops), self.size, self.size, 3), dtype=torch.uint8, device=self.device)
        for begin in range(0, len(held), CHUNK):
            some = np.arange(begin, min(begin + CHUNK, len(held)))
            held[begin : begin + CHUNK] = self._read(some)
        return held

    def _read(self, rows: NDArray[np.int64]) -> Tensor:
        """Crops (n, S, S, 3) uint8 from the memory map to the device, at the size that the network sees."""
        side = self.crops.shape[1]
        found = torch.empty((len(rows), side, side, 3), dtype=torch.uint8, pin_memory=self.device.type == "cuda")
        np.take(self.crops, rows, axis=0, out=found.numpy(), mode="clip")
        found = self._to_device(found)
        return found if side == self.size else torch.cat([resized(part, self.size) for part in found.split(CHUNK)])

    def _to_device(self, tensor: Tensor) -> Tensor:
        if self.device.type == "cpu":
            return tensor
        return tensor.pin_memory().to(self.device, non_blocking=True)


def fits(needed: int, free: int, shared_by: int) -> bool:
    """Whether a store of so many bytes may be held on a GPU with so many free that so many runs share.

    Runs that start together all see the same memory free: each takes its part only.
    """
    return needed <= SHARE * free / shared_by


def mark_varying(*tensors: Tensor) -> None:
    """Says that others of these will have another length: the network is then compiled once for all lengths."""
    for tensor in tensors:
        torch._dynamo.maybe_mark_dynamic(tensor, 0)


def resized(crops: Tensor, size: int) -> Tensor:
    """Crops (n, S, S, 3) uint8 made (n, size, size, 3), bilinear and antialiased, as `prepare` makes them."""
    frames = crops.permute(0, 3, 1, 2).to(torch.float32)
    frames = functional.interpolate(frames, size=(size, size), mode="bilinear", antialias=True)
    return frames.round_().clamp_(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()
