"""A session on simulated procedures whose lesions are known."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from polyptrace.embed import Embeddings
from polyptrace.explore import Journal, Workspace


def simulate(videos: int = 2, lesions: int = 3, tracks: int = 5, seed: int = 0, width: int = 16) -> Embeddings:
    """Each lesion is visited in turn, and again at the end; its tracks look alike."""
    random = np.random.default_rng(seed)
    columns: dict[str, list[object]] = {name: [] for name in ("video", "track", "position", "last", "polyp")}
    vectors = []
    for video in range(videos):
        looks = random.normal(size=(lesions, width))
        frame = track = 0
        for lesion in [*range(lesions), 0]:
            for _ in range(tracks if frame or lesion else tracks - 1):
                length = int(random.integers(30, 90))
                row = (f"v{video}", track, frame, frame + length - 1, f"v{video}-{lesion}")
                for name, value in zip(columns, row, strict=True):
                    columns[name].append(value)
                vectors.append(looks[lesion] + 0.3 * random.normal(size=width))
                frame, track = frame + length + int(random.integers(1, 40)), track + 1
            frame += 2000
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
        info={"model_hash": "a" * 64},
    )


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """An empty journal on two simulated procedures."""
    return Workspace(tmp_path / "vectors", simulate(), Journal.open(tmp_path / "answers.jsonl"))


@pytest.fixture
def answer(workspace: Workspace) -> Callable[..., None]:
    """Answers about two items of the first procedure, by their numbers."""

    def give(first: int, second: int, said: str = "same", who: str = "Ada") -> None:
        procedure = workspace.procedure(0)
        items = tuple(procedure.state().items[each] for each in (first, second))
        workspace.append("answer", who, video=procedure.key, items=items, answer=said)

    return give
