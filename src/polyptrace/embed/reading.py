"""Brings crops from the store to the device, some batches ahead of the one that is computed.

For a GPU several threads copy rows of the memory map into pinned memory, from where a stream of its own fetches them
while the GPU computes: reading costs nothing as long as it is faster than computing.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyptrace.cores import usable_cores
from polyptrace.embed.plan import Ints

#: Batches that are read ahead, and threads that read, for a GPU; a CPU needs one of each.
AHEAD, READERS = 8, 4


def read_ahead(crops: NDArray[np.uint8], parts: Sequence[Ints], device: torch.device, pad: int = 0) -> Iterator[Tensor]:
    """The crops (n, S, S, 3) of each part, rows of the store, on the device; n is at least `pad`, filled with zeros."""
    on_gpu = device.type == "cuda"
    ahead = AHEAD if on_gpu else 1
    copies = torch.cuda.Stream(device) if on_gpu else None
    computed: deque[torch.cuda.Event] = deque()
    waiting: deque[Future[tuple[Tensor, torch.cuda.Event | None]]] = deque()
    source = iter(parts)
    with ThreadPoolExecutor(min(READERS, usable_cores()) if on_gpu else 1) as readers:
        try:
            while True:
                for rows in islice(source, ahead + 1 - len(waiting)):
                    waiting.append(readers.submit(_load, crops, rows, device, pad, copies))
                if not waiting:
                    return
                loaded, copied = waiting.popleft().result()
                if copied is None:
                    yield loaded
                    continue
                here = torch.cuda.current_stream(device)
                here.wait_event(copied)
                loaded.record_stream(here)  # or its memory could be given away too early
                yield loaded
                computed.append(here.record_event())
                if len(computed) > ahead:  # no more batches on the GPU than that; it has enough to do until then
                    computed.popleft().synchronize()
        finally:
            for future in waiting:
                future.cancel()


def to_device(array: NDArray[np.int64] | NDArray[np.bool_], device: torch.device) -> Tensor:
    """An array on the device, without waiting for it."""
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


def _load(
    crops: NDArray[np.uint8], rows: Ints, device: torch.device, pad: int, copies: torch.cuda.Stream | None
) -> tuple[Tensor, torch.cuda.Event | None]:
    """Rows of the store on the device, and when they are there, where that is not at once."""
    shape = (max(len(rows), pad), *crops.shape[1:])
    found = torch.empty(shape, dtype=torch.uint8, pin_memory=copies is not None)
    np.take(crops, rows, axis=0, out=found[: len(rows)].numpy(), mode="clip")
    found[len(rows) :] = 0
    if copies is None:
        return found, None
    with torch.cuda.stream(copies):
        return found.to(device, non_blocking=True), copies.record_event()
