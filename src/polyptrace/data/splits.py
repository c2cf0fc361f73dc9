"""Splits by polyp and by video, stratified and seeded, and the paper's split of REAL-Colon."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

_TRAIN = {
    "001": (1, 3, 4, 5, 6, 7),
    "002": (2, 3, 4, 5, 6, 7, 8),
    "003": (1, 2, 3, 4, 5, 6, 7, 8),
    "004": (1, 3, 4, 5, 6, 8),
}
_EVALUATION = {
    "001": (9, 10, 14),
    "002": (9, 10, 11, 14),
    "003": (9, 10, 12, 13, 14, 15),
    "004": (9, 11, 12, 13, 14, 15),
}
REAL_COLON = {
    name: tuple(f"{study}-{number:03d}" for study, numbers in studies.items() for number in numbers)
    for name, studies in (("paper-train", _TRAIN), ("paper-eval", _EVALUATION))
}


def split_by(
    group: ArrayLike, *, test_share: float = 0.3, strata: Sequence[ArrayLike] = (), seed: int = 0
) -> NDArray[np.bool_]:
    """True for the rows of the test part: whole groups (polyps or videos), drawn in each stratum.

    A group's stratum is the combination of `strata` of its first row. Every stratum gives round(share x groups) groups
    to the test part; what rounding owes is given by the strata with the largest remainders.
    """
    names, first, member = np.unique(np.asarray(group), return_index=True, return_inverse=True)
    keys = [tuple(np.asarray(stratum)[row] for stratum in strata) for row in first]
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(names))
    by_stratum: dict[tuple[object, ...], list[int]] = {}
    for place in order:
        by_stratum.setdefault(keys[place], []).append(int(place))
    exact = {key: test_share * len(members) for key, members in by_stratum.items()}
    quota = {key: int(share) for key, share in exact.items()}
    owed = round(test_share * len(names)) - sum(quota.values())
    for key in sorted(exact, key=lambda k: (quota[k] - exact[k], str(k)))[:owed]:
        quota[key] += 1
    test = np.zeros(len(names), bool)
    for key, members in by_stratum.items():
        test[members[: quota[key]]] = True
    return test[member]
