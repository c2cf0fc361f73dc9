"""All twelve through the command that a user types."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from polyptrace.cli import main
from polyptrace.data import Dataset
from polyptrace.embed import Embeddings
from polyptrace.encoders import prepare_crops
from polyptrace.encoders.foundation import FOUNDATION_MODELS
from polyptrace.encoders.foundation.foundation_encoder import Architecture


@pytest.fixture(scope="module")
def data(make_dataset: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three tracks of 11 frames, with a tracklet of 8 each."""
    return make_dataset(tmp_path_factory.mktemp("data") / "d", [[2, 1]], frames=11)


@pytest.mark.parametrize("name", list(FOUNDATION_MODELS))
def test_embed_writes_the_vectors_of_tracklets_and_tracks(
    name: str, small: dict[str, Architecture], data: Path, tmp_path: Path, scramble: Callable
) -> None:
    model, architecture = FOUNDATION_MODELS[name], small[name]
    backbone = scramble(architecture.build(model.preprocess.size))
    save_file(backbone.state_dict(), tmp_path / "model.safetensors")
    words = ["embed", name, "--weights", str(tmp_path), "--data", str(data), "--out", str(tmp_path / "e")]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--embed.pooling", "mean", "--embed.device", "cpu"])
    assert ended.value.code == 0
    actual, dataset = Embeddings.load(tmp_path / "e"), Dataset.open(data)
    tracklets = np.flatnonzero(actual.unit == "tracklet")
    assert len(tracklets) == 3
    for i in tracklets:
        frames = prepare_crops(dataset.gather([i])[0], model.preprocess)[0]
        length = architecture.clip_length
        with torch.no_grad():
            if length is None:
                expected = architecture.tokens(backbone, frames).mean((0, 1))
            else:
                starts = (0, 8 - length) if length < 8 else (0,)
                clips = [architecture.tokens(backbone, frames[None, s : s + length]).mean((0, 1)) for s in starts]
                expected = torch.stack(clips).mean(0)
        np.testing.assert_allclose(actual.vectors[i], expected.numpy(), atol=2e-4, rtol=1e-3)
