"""The results of a comparison in a small form."""

from pathlib import Path

import numpy as np

from benchmarks import collect
from polyptrace.evaluate import Results
from polyptrace.evaluate.results import Method, Metric, Task


def test_metrics_and_draws_are_kept_and_vectors_are_not(tmp_path: Path) -> None:
    draws = np.linspace(0.4, 0.6, 50)
    tasks = {"retrieval": Task("track", "tracks", metrics={"map": Metric(0.5, 0.4, 0.6, 9, "queries")}, drawn=4)}
    arrays = {"retrieval/draws/map": draws, "tracks/plane_vectors": np.ones((9, 256))}
    row = tmp_path / "compared/rows/ours/seed1/results"
    Results(Method("Ours"), tasks, arrays).save(row)
    (row.parent / "row.json").write_text("{}")
    collect.main([str(tmp_path / "compared"), "--out", str(tmp_path / "small")])
    small = Results.load(tmp_path / "small/rows/ours/seed1/results")
    assert small.tasks == tasks
    assert list(small.arrays) == ["retrieval/draws/map"]
    np.testing.assert_allclose(small.arrays["retrieval/draws/map"], draws, rtol=1e-6)
    assert (tmp_path / "small/rows/ours/seed1/row.json").read_text() == "{}"
