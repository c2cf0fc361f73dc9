"""Vectors of a dataset: the same as tracklet by tracklet, in parts or at once, compiled or not."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from polyptrace.config import Embed
from polyptrace.core.errors import UserError
from polyptrace.data import Dataset
from polyptrace.embed import Embedder, Embeddings, embed, embed_files
from polyptrace.embed import embedding as embedding_module
from polyptrace.encoders import FrameEncoder, FrozenBackbone, Preprocess, TrackletEncoder, prepare_crops
from polyptrace.encoders.cost import encoder_cost
from polyptrace.encoders.encoder import OwnEncoder
from polyptrace.encoders.weights import fingerprint, weights_hash

SETTINGS = Embed(batch_frames=13, block_frames=50)


def small() -> TrackletEncoder:
    torch.manual_seed(0)
    return TrackletEncoder("test_resnet", width=16, heads=2, feed_forward=16, layers=1, size=32).eval()


class Clip(nn.Module):
    """An encoder that is not frame by frame: the mean colour, weighted by position in the clip."""

    name, width, preprocess = "clip", 3, Preprocess(32, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))

    def forward(self, frames: Tensor, mask: Tensor | None = None) -> Tensor:
        weight = torch.arange(1, frames.shape[1] + 1) * (1 if mask is None else mask)
        return (frames.mean((-2, -1)) * weight[..., None]).sum(1)


@torch.no_grad()
@pytest.mark.parametrize(
    "encoder",
    [small(), FrameEncoder("test_resnet", size=32), FrozenBackbone("test_resnet", "none"), Clip()],
    ids=["ours", "sfe", "frozen", "clip"],
)
def test_vectors_are_those_of_each_tracklet_alone(encoder: OwnEncoder | Clip, coloured: Dataset) -> None:
    encoder.eval()
    table = embed(encoder, coloured, settings=Embed(batch_frames=13))
    assert table.vectors.shape == (len(coloured.tracklets), encoder.width)
    for i in (0, 5, 47, 48, 60, 71):
        frames, _ = coloured.gather([i])
        alone = encoder(prepare_crops(frames, encoder.preprocess))[0]
        torch.testing.assert_close(torch.from_numpy(table.vectors[i]), alone, atol=1e-4, rtol=1e-4)
    assert table.unit.tolist() == coloured.tracklets.unit.tolist()
    assert table.polyp.tolist() == coloured.tracklets.polyp.tolist()


def test_a_frame_goes_through_the_backbone_once(coloured: Dataset) -> None:
    encoder, seen = small(), 0

    def count(_: nn.Module, inputs: tuple[Tensor]) -> None:
        nonlocal seen
        seen += len(inputs[0])

    encoder.backbone.register_forward_pre_hook(count)
    embed(encoder, coloured)
    assert seen == len(coloured.crops)
    seen = 0
    first = embed(encoder, coloured, ["track"])
    assert seen == len(coloured.crops)
    assert set(first.unit) == {"track"}


@pytest.mark.parametrize("enlarge", [False, True])
def test_the_cost_in_the_table_is_that_of_the_frames_that_the_encoder_was_given(
    enlarge: bool, coloured: Dataset, tmp_path: Path
) -> None:
    table = embed_files(
        "frozen:test_resnet", coloured.path, tmp_path / "v", "none", Embed(device="cpu", enlarge=enlarge)
    )
    encoder = FrozenBackbone("test_resnet", "none")
    assert encoder.preprocess.size > coloured.crops.shape[1] == 32
    counted = encoder_cost(encoder, encoder.preprocess.size if enlarge else 32)
    assert counted is not None
    assert table.info["method"]["flops"] == {"paper_macs": counted.paper_macs, "flops": counted.flops}


def test_the_table_says_which_weights_made_it(coloured: Dataset, tmp_path: Path) -> None:
    encoder = small()
    table = embed(encoder, coloured, ["track"])
    assert table.info["model_hash"] == weights_hash(encoder)
    assert table.info["fingerprint"] == fingerprint(encoder)
    table.save(tmp_path / "e")
    assert type(table).load(tmp_path / "e").info["encoder"] == "tracklet"


def test_crops_smaller_than_the_encoder_s_are_refused_unless_enlarging_is_allowed(
    make_dataset: Callable[..., Path], tmp_path: Path
) -> None:
    data = Dataset.open(make_dataset(tmp_path / "d", [[1, 1]]))
    encoder = TrackletEncoder("test_resnet", width=16, heads=2, feed_forward=16, layers=1, size=48)
    with pytest.raises(UserError, match="32 pixels"):
        embed(encoder, data)
    assert len(embed(encoder, data, settings=Embed(enlarge=True))) == 6


def test_a_vector_that_is_not_finite_is_refused_by_name(coloured: Dataset) -> None:
    encoder = small()
    with torch.no_grad():
        encoder.adapter.bias[0] = torch.nan
    with pytest.raises(UserError, match=r"tracklet 0 \(video v0\) is not finite"):
        embed(encoder, coloured, ["tracklet"])


@pytest.mark.parametrize("generated", [True, False])
def test_the_table_says_whether_the_data_is_generated(
    generated: bool, make_dataset: Callable[..., Path], tmp_path: Path
) -> None:
    folder = make_dataset(tmp_path / "d", [[1, 1]])
    info = json.loads((folder / "dataset.json").read_text())
    (folder / "dataset.json").write_text(json.dumps({**info, "generated": generated}))
    embed(small(), Dataset.open(folder)).save(tmp_path / "e")
    assert Embeddings.load(tmp_path / "e").info["generated"] is generated


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
    monkeypatch.setattr(embedding_module, "weights_hash", lambda given: hashed.append(given) or weights_hash(given))
    embedder = Embedder(encoder, SETTINGS)
    actual = {embed(embedder, coloured, [unit]).info["model_hash"] for unit in ("track", "tracklet")}
    assert actual == {weights_hash(encoder)}
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
    actual = embed(small(), coloured, settings=replace(SETTINGS, compile="on")).vectors
    assert shapes == [(13, 32, 32, 3)]
    np.testing.assert_allclose(actual, eager, atol=1e-5, rtol=1e-5)


def test_a_large_encoder_gets_small_batches_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a batch takes seconds, which is what an interrupted run repeats."""
    encoder = TrackletEncoder("test_resnet", width=16, heads=2, feed_forward=16, layers=1, size=32)
    weights = sum(parameter.numel() for parameter in encoder.parameters())
    assert Embedder(encoder, Embed(device="cpu")).batch_frames == embedding_module.CPU_BATCH
    monkeypatch.setattr(embedding_module, "CPU_BATCH_WEIGHTS", 5 * weights - 1)
    assert Embedder(encoder, Embed(device="cpu")).batch_frames == 4
    monkeypatch.setattr(embedding_module, "CPU_BATCH_WEIGHTS", weights // 2)
    assert Embedder(encoder, Embed(device="cpu")).batch_frames == 1
