"""Pretrained encoders: called with tracklets of any size and length, saved as the hub expects."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

import polyptrace
from polyptrace.config import Embed
from polyptrace.core.errors import PolyptraceWarning, UserError
from polyptrace.core.files import read_json
from polyptrace.data import Dataset
from polyptrace.embed import PretrainedEncoder, embed
from polyptrace.encoders import ColourGrid, FrameEncoder, FrozenBackbone, TrackletEncoder
from polyptrace.encoders.foundation import FoundationEncoder
from polyptrace.encoders.foundation.families import Endofm, Surgenet
from polyptrace.encoders.foundation.foundation_encoder import (
    Architecture,
    FrameModelEncoder,
    VideoModelEncoder,
)
from polyptrace.encoders.preprocess import RELEASE

CPU = Embed(device="cpu", batch_frames=40)


def tracklet_encoder() -> TrackletEncoder:
    torch.manual_seed(0)
    return TrackletEncoder("test_resnet", width=16, heads=2, layers=1, feed_forward=16, size=24, name="ours")


def foundation(name: str, architecture: Architecture) -> FoundationEncoder:
    kind = FrameModelEncoder if architecture.clip_length is None else VideoModelEncoder
    return kind(name, architecture, architecture.build(32), replace(RELEASE, size=32), "mean")


ENCODERS = {
    "ours": tracklet_encoder,
    "sfe": lambda: FrameEncoder("test_resnet", size=24, name="sfe"),
    "frozen": lambda: FrozenBackbone("test_resnet", "none"),  # takes 32-pixel crops at their own size
    "colour-grid": ColourGrid,
    "surgenet": lambda: foundation("surgenet", Surgenet(widths=(8, 16, 32, 64), depths=(1, 1, 2, 1))),
    "endofm": lambda: foundation("endofm", Endofm(clip_length=4, width=24, layers=2, heads=2, native=32)),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_the_vectors_are_those_of_embed(name: str, coloured: Dataset) -> None:
    encoder: nn.Module = ENCODERS[name]()
    table = embed(encoder, coloured, settings=CPU)
    tracklets = [coloured.crops[rows] for rows in coloured.tracklets.rows]
    assert {len(each) for each in tracklets} == {8, 16}
    vectors = PretrainedEncoder(encoder, CPU)(tracklets)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, table.vectors, atol=1e-5, rtol=0)


def pictures(*shape: int, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (*shape, 3), np.uint8)


def test_tracklets_of_any_size_and_length_are_independent_of_each_other() -> None:
    encoder = PretrainedEncoder(tracklet_encoder(), CPU)
    tracklets = [
        pictures(length, *size) for length, size in ((1, (24, 24)), (90, (30, 47)), (8, (64, 25)), (3, (24, 24)))
    ]
    together = encoder(tracklets)
    assert together.shape == (4, 16) == (len(tracklets), encoder.width)
    alone = np.concatenate([encoder([each]) for each in tracklets])
    np.testing.assert_allclose(together, alone, atol=1e-5, rtol=0)
    assert np.abs(together[0] - together[3]).max() > 1e-3


def test_flexible_encoders_take_small_crops_of_different_sizes_at_their_own_size() -> None:
    encoder = PretrainedEncoder(FrozenBackbone("test_resnet", "none"), CPU)
    tracklets = [pictures(2, 40, 40), pictures(3, 64, 64), pictures(2, 40, 40, seed=1)]
    alone = np.concatenate([encoder([each]) for each in tracklets])
    np.testing.assert_allclose(encoder(tracklets), alone, atol=1e-5, rtol=0)


def test_a_stretched_crop_is_resized_as_prepare_resizes_it() -> None:
    encoder = PretrainedEncoder(ColourGrid(), CPU)
    image = np.zeros((1, 64, 32, 3), np.uint8)
    image[:, :32] = 255  # the upper half is white, whatever the side ratio
    square = np.zeros((1, 32, 32, 3), np.uint8)
    square[:, :16] = 255
    stretched, expected = encoder([image, square]).reshape(2, 3, 8, 8)
    np.testing.assert_allclose(stretched[:, [0, 1, 6, 7]], expected[:, [0, 1, 6, 7]], atol=1e-5)


def test_arrays_and_tensors_give_the_same_vectors() -> None:
    encoder, array = PretrainedEncoder(tracklet_encoder(), CPU), pictures(4, 24, 24)
    array.setflags(write=False)
    np.testing.assert_array_equal(encoder([array]), encoder([torch.tensor(array)]))
    np.testing.assert_array_equal(encoder([array]), encoder(array[None]))


def test_no_tracklets_give_no_vectors() -> None:
    assert PretrainedEncoder(tracklet_encoder(), CPU)([]).shape == (0, 16)


def test_enlarged_crops_are_reported() -> None:
    encoder = PretrainedEncoder(tracklet_encoder(), CPU)
    with pytest.warns(PolyptraceWarning, match=r"1 of 2 have frames that are smaller than .* \(24 pixels\)"):
        encoder([pictures(2, 20, 20), pictures(2, 30, 20)])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.zeros((2, 24, 24, 3), np.float32), r"tracklets\[1\]: float32 of shape \(2, 24, 24, 3\)"),
        (torch.zeros(2, 24, 24, 3), r"tracklets\[1\]: float32"),
        (np.zeros((24, 24, 3), np.uint8), r"tracklets\[1\]: uint8 of shape \(24, 24, 3\) -> give each"),
        (np.zeros((2, 3, 24, 24), np.uint8), r"tracklets\[1\]: uint8 of shape \(2, 3, 24, 24\)"),
        (np.zeros((0, 24, 24, 3), np.uint8), "at least one frame"),
    ],
)
def test_a_tracklet_of_another_type_or_shape_is_refused_by_its_index(wrong: object, message: str) -> None:
    encoder = PretrainedEncoder(tracklet_encoder(), CPU)
    with pytest.raises(UserError, match=message):
        encoder([pictures(2, 24, 24), wrong])


def test_an_encoder_is_saved_with_its_record_and_loaded_with_the_same_fingerprint(tmp_path: Path) -> None:
    polyptrace.save_pretrained(tracklet_encoder(), tmp_path / "a", licence="mit")
    first = polyptrace.from_pretrained(tmp_path / "a", settings=CPU)
    first.save_pretrained(tmp_path / "b", results={"mAP": "0.5"})
    second = polyptrace.from_pretrained(str(tmp_path / "b"), settings=CPU)
    content = read_json(tmp_path / "b" / "config.json")
    assert first.fingerprint == second.fingerprint == content["fingerprint"]
    assert (content["training"]["licence"], content["training"]["results"]) == ("mit", {"mAP": "0.5"})
    np.testing.assert_array_equal(first([pictures(2, 24, 24)]), second([pictures(2, 24, 24)]))
    with pytest.raises(UserError, match="already exists"):
        first.save_pretrained(tmp_path / "b")


def test_names_and_weights_are_those_of_the_command_line(tmp_path: Path) -> None:
    weights = FrozenBackbone("test_resnet", "none").backbone.state_dict()
    torch.save(weights, tmp_path / "w.pth")
    encoder = polyptrace.from_pretrained("frozen:test_resnet", weights=tmp_path / "w.pth", settings=CPU)
    assert encoder.name == "frozen:test_resnet"
    assert encoder([pictures(2, 64, 64)]).shape == (1, encoder.width)
    with pytest.raises(UserError, match="was not trained here"):
        encoder.save_pretrained(tmp_path / "e")


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import sys, polyptrace; early = 'torch' in sys.modules; polyptrace.from_pretrained; print(early)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_package_has_no_other_names() -> None:
    with pytest.raises(AttributeError, match="from_pretrain"):
        polyptrace.from_pretrain  # noqa: B018
