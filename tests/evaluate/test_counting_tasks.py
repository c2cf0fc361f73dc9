"""Counting as a task: whose setting stands."""

import numpy as np
import pytest

from polyptrace.config import Evaluate
from polyptrace.embed import Embeddings
from polyptrace.evaluate import evaluate


def four_tracks(polyp: str = "") -> Embeddings:
    """Two videos of two tracks each whose cosine is 0.8."""
    vectors = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]])
    columns = {"vectors": vectors, "video": np.array(["a", "a", "b", "b"]), "track": np.arange(4) % 2}
    return Embeddings.from_columns({**columns, "position": np.arange(4) * 100, "polyp": np.full(4, polyp)})


@pytest.mark.parametrize(("threshold", "polyps", "said"), [(None, 1, "default, 0.5"), (0.9, 2, "yours, 0.9")])
def test_without_labels_the_users_setting_stands_or_else_the_default(
    threshold: float | None, polyps: int, said: str
) -> None:
    settings = Evaluate(bootstrap=20, count_threshold=threshold)
    task = evaluate({"counting": four_tracks()}, ["counting"], settings).tasks["counting.threshold"]
    assert task.metrics["clusters"].value == polyps
    assert said in task.reason
    assert task.protocol["given"] == threshold


def test_a_given_setting_is_not_tuned_even_where_labels_are_known() -> None:
    settings = Evaluate(bootstrap=20, count_threshold=0.9)
    results = evaluate({"counting": four_tracks("p")}, ["counting"], settings)
    assert results.tasks["counting.threshold"].protocol["tuning"] == "none"
    assert (results.arrays["counting.threshold/setting"] == 0.9).all()
