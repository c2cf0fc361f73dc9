"""Tracks of simulated procedures whose lesions are known."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from polyptrace.embed import Embeddings


def track_table(columns: Mapping[str, Sequence[object]], vectors: Sequence[NDArray[np.float64]]) -> Embeddings:
    """Vectors of whole tracks with the columns video, track, position, last and polyp."""
    count = len(vectors)
    return Embeddings.from_columns(
        {
            "vectors": np.array(vectors, np.float32),
            **{name: np.array(columns[name], object) for name in ("video", "polyp")},
            **{name: np.array(columns[name], np.int64) for name in ("track", "position", "last")},
            "fps": np.full(count, 25.0),
            "dataset": np.full(count, "simulated", object),
            "unit": np.full(count, "track", object),
        },
        info={"fingerprint": "a" * 64},
    )


def _simulate(videos: int = 12, seed: int = 0, *, noise: float = 0.8, again: float = 0.4) -> Embeddings:
    """Each procedure: two to four lesions, each visited for some tracks; some are visited again much later.

    A vector is the sum of a procedure's, a lesion's and a view's part; neighbouring tracks share most of the view.
    """
    random = np.random.default_rng(seed)
    columns: dict[str, list[object]] = {name: [] for name in ("video", "track", "position", "last", "polyp")}
    vectors = []
    for video in range(videos):
        lesions = random.normal(size=(int(random.integers(2, 5)), 24))
        scope = 0.4 * random.normal(size=24)
        visits = [*range(len(lesions)), *(each for each in range(len(lesions)) if random.random() < again)]
        frame = track = 0
        for number, lesion in enumerate(visits):
            view = random.normal(size=24)
            for _ in range(int(random.integers(2, 9)) if number < len(lesions) else 2):
                view = 0.8 * view + 0.6 * random.normal(size=24)
                length = int(random.integers(30, 120))
                for name, value in zip(
                    columns, (f"v{video:02}", track, frame, frame + length - 1, f"v{video}-{lesion}"), strict=True
                ):
                    columns[name].append(value)
                vectors.append(lesions[lesion] + scope + noise * view)
                frame, track = frame + length + int(random.integers(1, 60)), track + 1
            frame += int(random.integers(800, 4000))
    return track_table(columns, vectors)


@pytest.fixture(scope="session")
def simulate() -> Callable[..., Embeddings]:
    """Makes tracks of simulated procedures."""
    return _simulate


@pytest.fixture(scope="session")
def tracks() -> Embeddings:
    """The tracks of twelve simulated procedures."""
    return _simulate()
