"""NT-Xent, the loss of SimCLR (SFE, MVE and TPC of the comparison).

Each of the 2B vectors of two views is an anchor; its positive is the other view of its item, against 2B - 2 negatives:

    L = -1/2B Σ_i log [ e^{s(z_i, z_i')} / Σ_{j≠i} e^{s(z_i, z_j)} ],  s = cos / temperature.

That is the symmetric noise-aware loss on bags of two, and computed as such.
"""

import torch
from torch import Tensor

from polyptrace.losses.noise_aware_symmetric import noise_aware_symmetric


def nt_xent(a: Tensor, b: Tensor, temperature: float, *, rows: slice | None = None) -> Tensor:
    """The mean loss of two views a (B, D), b (B, D) of the same items: a scalar.

    rows: the items that this process answers for; a and b are then those of all processes.
    """
    item = torch.arange(len(a), device=a.device)
    z = torch.stack([a, b], 1).flatten(0, 1)  # (2B, D), the views of an item side by side
    if rows is not None:
        start, stop, _ = rows.indices(len(a))
        rows = slice(2 * start, 2 * stop)
    return noise_aware_symmetric(z, item.repeat_interleave(2), temperature, rows=rows)
