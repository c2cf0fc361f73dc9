"""What is an adenoma: the names of the public datasets (and of generated procedures) as 1, 0 or left out.

Size has its rule here too: above 5.0 mm is 1, diminutive is 0.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polyptrace.core.errors import UserError
from polyptrace.data.sources import HISTOLOGY

DIMINUTIVE_MM = 5.0


def adenoma(histology: ArrayLike, more: Mapping[str, int] | None = None) -> NDArray[np.int64]:
    """1 adenoma, 0 not, -1 left out or unknown (""), for names of the known datasets or of `more`."""
    table = {_plain(name): label for name, label in {**HISTOLOGY, **(more or {})}.items()} | {"": -1}
    names, place = np.unique(np.asarray(histology, dtype=str), return_inverse=True)
    strange = [name for name in names.tolist() if _plain(name) not in table]
    if strange:
        raise UserError(
            f"histology: unknown name {', '.join(map(repr, strange))} -> known are {', '.join(HISTOLOGY)};"
            " map others with --histology NAME=1 (adenoma), 0 (not) or -1 (left out)"
        )
    return np.array([table[_plain(name)] for name in names.tolist()], dtype=np.int64)[place.reshape(-1)]


def larger(size_mm: ArrayLike) -> NDArray[np.int64]:
    """1 above 5.0 mm, 0 up to it, -1 where the size is unknown (NaN)."""
    size = np.asarray(size_mm, dtype=np.float64)
    return np.where(np.isnan(size), -1, (size > DIMINUTIVE_MM).astype(np.int64))


def _plain(name: str) -> str:
    return " ".join(name.casefold().split())
