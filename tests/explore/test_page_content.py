"""What the page shows."""

import numpy as np
import pytest
from sklearn.metrics.cluster import pair_confusion_matrix

from polyptrace.explore.page_content import agreement_with_labels


@pytest.mark.parametrize("seed", range(5))
def test_lesions_and_polyps_agree_on_the_pairs_that_scikit_learn_counts(seed: int) -> None:
    random = np.random.default_rng(seed)
    lesion, polyp = random.integers(-1, 4, 30), random.choice(np.array(["", "a", "b", "c"], object), 30)
    known = (lesion >= 0) & (polyp != "")
    table = pair_confusion_matrix(polyp[known].astype(str), lesion[known])
    expected = {"agreeing": int(np.trace(table)) // 2, "pairs": int(table.sum()) // 2}
    assert agreement_with_labels(lesion, polyp) == expected


def test_one_labelled_track_has_no_pair_to_agree_on() -> None:
    assert agreement_with_labels(np.array([0, 1]), np.array(["a", ""], object)) is None
