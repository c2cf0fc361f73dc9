"""An encoder made ready once: in parts or at once, compiled or not, the vectors are the same."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from polyptrace.config import Embed
from polyptrace.data import Dataset
from polyptrace.embed import Embedder, embed
from polyptrace.embed import embedder as embedder_module
from polyptrace.encoders import Preprocess, TrackletEncoder, weights_hash

SETTINGS = Embed(batch_frames=37, block_frames=50)


def small() -> TrackletEncoder:
    torch.manual_seed(0)
    return TrackletEncoder("test_resnet", width=16, heads=2, feed_forward=16, layers=1, size=32).eval()


class Clip(nn.Module):
    """An encoder that is not frame by frame: the mean colour, weighted by place in the clip."""

    name, width, preprocess = "clip", 3, Preprocess(32, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))

    def forward(self, frames: Tensor, mask: Tensor | None = None) -> Tensor:
        weight = torch.arange(1, frames.shape[1] + 1) * (1 if mask is None else mask)
        return (frames.mean((-2, -1)) * weight[..., None]).sum(1)


@pytest.mark.parametrize("encoder", [small(), Clip()], ids=["frame by frame", "clips"])
def test_blocks_computed_apart_give_the_same_bytes_as_all_together(encoder: nn.Module, coloured: Dataset) -> None:
    embedder = Embedder(encoder, SETTINGS)
    plan = embedder.plan(coloured, np.arange(len(coloured.tracklets)))
    assert len(plan.blocks) > 4
    whole_order, whole = embedder.vectors(coloured, plan)
    apart = [embedder.vectors(coloured, plan, slice(k, k + 2)) for k in range(0, len(plan.blocks), 2)]
    assert np.concatenate([order for order, _ in apart]).tolist() == whole_order.tolist()
    assert np.concatenate([vectors for _, vectors in apart]).tobytes() == whole.tobytes()


def test_blocks_only_bound_memory(coloured: Dataset) -> None:
    one_block = embed(small(), coloured, settings=replace(SETTINGS, block_frames=10_000)).vectors
    np.testing.assert_allclose(embed(small(), coloured, settings=SETTINGS).vectors, one_block, atol=1e-5, rtol=1e-5)


def test_an_embedder_serves_several_datasets(coloured: Dataset) -> None:
    embedder = Embedder(small(), SETTINGS)
    first = embed(embedder, coloured, ["track"])
    assert embed(embedder, coloured, ["track"]).vectors.tobytes() == first.vectors.tobytes()
    assert len(embed(embedder, coloured, ["tracklet"])) == 48


def test_weights_are_hashed_once_for_any_number_of_datasets(coloured: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, hashed = small(), []
    monkeypatch.setattr(embedder_module, "weights_hash", lambda given: hashed.append(given) or weights_hash(given))
    embedder = Embedder(encoder, SETTINGS)
    found = {embed(embedder, coloured, [unit]).info["model_hash"] for unit in ("track", "tracklet")}
    assert found == {weights_hash(encoder)}
    assert hashed == [encoder]


def test_a_compiled_encoder_is_one_graph_of_one_shape_and_gives_the_same_vectors(
    coloured: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    eager = embed(small(), coloured, settings=SETTINGS).vectors
    shapes = []

    def count(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> torch.fx.GraphModule:
        shapes.extend(tuple(given.shape) for given in inputs if given.dtype == torch.uint8)
        return graph

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=count, fullgraph=True))  # traced, not compiled
    found = embed(small(), coloured, settings=replace(SETTINGS, compile="on")).vectors
    assert shapes == [(37, 32, 32, 3)]
    np.testing.assert_allclose(found, eager, atol=1e-5, rtol=1e-5)
