"""Batches on the device: the crops that this process encodes, and the targets of the whole batch."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from polyptrace.core.arrays import Bools, Ints
from polyptrace.data.crops.loader import CropLoader, to_device
from polyptrace.methods import Batch, Targets


@dataclass(frozen=True)
class Loaded:
    """A batch on the device."""

    batch: Batch
    crops: Tensor  # (n, S, S, 3) uint8, valid frames only
    shape: tuple[int, int]  # (B of this process, L)
    flat_index: Tensor | None  # (n,) position of each crop in B * L; None: all frames are valid
    mask: Tensor | None  # (B of this process, L)
    targets: Targets


def load_batches(
    batches: Iterable[Batch], loader: CropLoader, process: int = 0, processes: int = 1
) -> Iterator[Loaded]:
    """The batches, loaded for one of the processes; crops that come from the host are read ahead."""
    pending: deque[tuple[Batch, Bools]] = deque()

    def crop_rows() -> Iterator[Ints]:
        for batch in batches:
            rows = batch.rows[batch.part(process, processes)]
            valid = rows >= 0  # (B of this process, L)
            pending.append((batch, valid))
            yield rows[valid]

    for crops in loader.stream(crop_rows()):
        batch, valid = pending.popleft()
        flat_index = mask = None
        if not valid.all():
            flat_index, mask = to_device(np.flatnonzero(valid), loader.device), to_device(valid, loader.device)
            for tensor in (crops, flat_index):  # so that a network is compiled once for all lengths
                torch._dynamo.maybe_mark_dynamic(tensor, 0)
        arrays = (batch.rows >= 0, batch.tracklet, batch.group, batch.position)
        targets = Targets(*(to_device(array, loader.device) for array in arrays))
        yield Loaded(batch, crops, (valid.shape[0], valid.shape[1]), flat_index, mask, targets)
