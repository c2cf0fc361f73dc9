"""Vectors of a dataset: the same as tracklet by tracklet, each frame through the backbone once."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from polyptrace.config import Embed
from polyptrace.core.errors import UserError
from polyptrace.data import Dataset
from polyptrace.embed import embed
from polyptrace.encoders import FrameEncoder, OwnEncoder, Preprocess, TrackletEncoder, prepare_crops, weights_hash


def small() -> TrackletEncoder:
    torch.manual_seed(0)
    return TrackletEncoder("test_resnet", width=16, heads=2, feed_forward=16, layers=1, size=32).eval()


class Clip(nn.Module):
    """An encoder that is not frame by frame: the mean colour, weighted by place in the clip."""

    name, width, preprocess = "clip", 3, Preprocess(32, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))

    def forward(self, frames: Tensor, mask: Tensor | None = None) -> Tensor:
        weight = torch.arange(1, frames.shape[1] + 1) * (1 if mask is None else mask)
        return (frames.mean((-2, -1)) * weight[..., None]).sum(1)


@torch.no_grad()
@pytest.mark.parametrize(
    "encoder", [small(), FrameEncoder("test_resnet", size=32), Clip()], ids=["ours", "sfe", "clip"]
)
def test_vectors_are_those_of_each_tracklet_alone(encoder: OwnEncoder | Clip, coloured: Dataset) -> None:
    encoder.eval()
    table = embed(encoder, coloured, settings=Embed(batch_frames=37))
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


def test_the_table_says_which_weights_made_it(coloured: Dataset, tmp_path: Path) -> None:
    encoder = small()
    table = embed(encoder, coloured, ["track"])
    assert table.info["model_hash"] == weights_hash(encoder)
    table.save(tmp_path / "e")
    assert type(table).load(tmp_path / "e").info["encoder"] == "tracklet"


def test_crops_smaller_than_the_encoder_s_are_refused_unless_enlarging_is_allowed(
    make_dataset: Callable[..., Path], tmp_path: Path
) -> None:
    data = Dataset.open(make_dataset(tmp_path / "d", [[1, 1]]))
    encoder = TrackletEncoder("test_resnet", width=16, heads=2, feed_forward=16, layers=1, size=48)
    with pytest.raises(UserError, match="stored at 32 pixels"):
        embed(encoder, data)
    assert len(embed(encoder, data, settings=Embed(enlarge=True))) == 6


def test_a_vector_that_is_not_finite_is_refused_by_name(coloured: Dataset) -> None:
    encoder = small()
    with torch.no_grad():
        encoder.adapter.bias[0] = torch.nan
    with pytest.raises(UserError, match=r"tracklet 0 \(video v0\) is not finite"):
        embed(encoder, coloured, ["tracklet"])
