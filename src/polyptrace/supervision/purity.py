"""The purity of bags: whether their members show the anchor's polyp.

It needs labels. It is a diagnostic for figures, which training never calls.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyptrace.core.arrays import Bools, Floats, Ints


@dataclass(frozen=True)
class BagPurity:
    """The bags in which the polyp of every tracklet is known: A of them."""

    anchor: Ints  # (A,) index of the anchor
    members: Ints  # (A,) number of members
    wrong: Bools  # (A, K) members that show another polyp than the anchor

    @property
    def pure(self) -> Bools:
        """Bags whose members all show the anchor's polyp: (A,)."""
        return np.logical_not(self.wrong.any(1))

    @property
    def wrong_share(self) -> Floats:
        """The share of wrong members in each bag: (A,)."""
        return self.wrong.sum(1) / self.members


def bag_purity(bags: Ints, polyp: NDArray[Any]) -> BagPurity:
    """The purity of the bags (N, K) of tracklets with `polyp` (N,); "" is unknown.

    Empty bags, and bags in which a polyp is unknown, are left out.
    """
    same = same_polyp(bags, polyp)
    valid = bags >= 0
    anchor = np.flatnonzero(valid.any(1) & ~(valid & np.isnan(same)).any(1))
    return BagPurity(anchor, valid[anchor].sum(1), same[anchor] == 0)


def same_polyp(bags: Ints, polyp: NDArray[Any]) -> Floats:
    """1 where a member of bags (N, K) shows the anchor's polyp, 0 where it shows another, NaN where it is unknown."""
    if len(bags) != len(polyp):
        raise ValueError(f"{len(bags)} bags of {len(polyp)} tracklets: each tracklet must have one")
    members, anchor = polyp[np.maximum(bags, 0)], polyp[:, None]
    known = (bags >= 0) & (members != "") & (anchor != "")
    return np.where(known, (members == anchor).astype(np.float64), np.nan)
