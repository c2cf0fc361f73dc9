"""Batches on the device: the crops that this process encodes, and the targets of the whole batch."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from polyptrace.core.arrays import Ints
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


@dataclass(frozen=True)
class Feed:
    """Batches of one process, loaded to its device."""

    loader: CropLoader
    process: int = 0
    processes: int = 1
    compiled: bool = False  # whether the network is compiled

    def stream(self, batches: Iterable[Batch]) -> Iterator[Loaded]:
        """The batches, loaded; crops that come from the host are read ahead."""
        pending: deque[Batch] = deque()

        def crop_rows() -> Iterator[Ints]:
            for batch in batches:
                pending.append(batch)
                rows = batch.rows[batch.part(self.process, self.processes)]
                yield rows[rows >= 0]

        for crops in self.loader.stream(crop_rows()):
            yield self._loaded(pending.popleft(), crops)

    def _loaded(self, batch: Batch, crops: Tensor) -> Loaded:
        valid = batch.rows[batch.part(self.process, self.processes)] >= 0  # (B of this process, L)
        device, flat_index, mask = self.loader.device, None, None
        if not valid.all():
            flat_index, mask = to_device(np.flatnonzero(valid), device), to_device(valid, device)
            for tensor in (crops, flat_index) if self.compiled else ():  # compile once for all lengths
                torch._dynamo.maybe_mark_dynamic(tensor, 0)
        arrays = (batch.rows >= 0, batch.tracklet, batch.group, batch.position)
        targets = Targets(*(to_device(array, device) for array in arrays))
        return Loaded(batch, crops, (valid.shape[0], valid.shape[1]), flat_index, mask, targets)
