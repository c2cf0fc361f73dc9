"""python -m benchmarks head_only."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.__main__ import main
from benchmarks.head_only import train_head
from polyptrace.config import Config, override
from polyptrace.data import Dataset
from polyptrace.methods import METHODS


def test_the_tracks_are_measured_and_the_features_are_stored(
    coloured: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["head_only", "--data", str(coloured.path), "--test", str(coloured.path), "--weights", "none"]
    main([*words, "--features", str(tmp_path), "--train.frames", "1000"])
    measured = json.loads(capsys.readouterr().out)
    assert measured["tracks"] == 24
    assert 50 < measured["mAP"] <= 100  # the polyps have different colours
    assert np.load(tmp_path / f"{coloured.path.name}.npy").shape == (len(coloured.crops), 2048)


def test_training_brings_the_members_of_a_bag_closer_to_their_anchor(coloured: Dataset) -> None:
    stored = torch.randn(len(coloured.crops), 2048, generator=torch.Generator().manual_seed(0))
    plan = METHODS["ours"].plan(coloured.label_free(), Config())
    batch = plan.epoch(0, 1).batch(0)

    def distance(frames: int) -> float:
        """The mean distance of the members of the first bags from their anchors."""
        config = override(Config(), ["--train.frames", str(frames), "--train.epochs", "0", "--optimiser.lr", "1e-3"])
        encoder = train_head(coloured, stored, "ours", config)
        with torch.inference_mode():
            z = encoder.projector(encoder.aggregate(stored[np.array(batch.rows)]))  # (M (1 + K), P)
        bags = torch.nn.functional.normalize(z, dim=1).unflatten(0, (-1, 5))
        return float((1 - (bags[:, :1] * bags[:, 1:]).sum(-1)).mean())

    assert distance(4800) < 0.8 * distance(0)
