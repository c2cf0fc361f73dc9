"""Cutting and resizing of crops, compared with torchvision and with the authors' crops."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional
from torchvision.transforms.v2 import functional as vision

from polyptrace.data.boxes import crop_regions
from polyptrace.data.crops import resize
from polyptrace.data.crops.resize import cut_crop, resize_crops, resize_frames

CROPS = torch.randint(0, 256, (7, 24, 24, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_frames_are_resized_with_antialiasing() -> None:
    frames = CROPS.permute(0, 3, 1, 2).float()
    torch.testing.assert_close(resize_frames(frames, 10), vision.resize(frames, [10, 10], antialias=True))


def test_crops_are_rounded_to_the_nearest_grey_level() -> None:
    exact = resize_frames(CROPS.permute(0, 3, 1, 2).double(), 10).permute(0, 2, 3, 1)
    resized = resize_crops(CROPS, 10)
    assert resized.dtype == torch.uint8
    assert (resized - exact).abs().max() <= 0.5 + 1e-4


def test_chunks_do_not_change_the_result(monkeypatch) -> None:
    whole = resize_crops(CROPS, 10)
    monkeypatch.setattr(resize, "CROPS_AT_ONCE", 3)
    assert torch.equal(resize_crops(CROPS, 10), whole)


def test_crops_of_the_right_size_are_not_copied() -> None:
    assert resize_crops(CROPS, 24) is CROPS


def test_the_crops_are_those_of_the_authors(shared: Path) -> None:
    oracle = np.load(shared / "oracles/f_anchor_crop.npz")
    picture = torch.from_numpy(oracle["image_uint8_chw"])
    boxes = oracle["boxes_int_xywh"].astype(float)
    width, height = np.full(3, picture.shape[2]), np.full(3, picture.shape[1])
    regions = crop_regions(boxes, width, height, float(oracle["scale"]))
    np.testing.assert_array_equal(regions, oracle["anchors_xywh"])
    for cut, expected in zip(regions, oracle["crop48"], strict=True):
        ours = cut_crop(picture, cut, 48).permute(2, 0, 1).numpy()
        difference = np.abs(ours - expected * 255)
        assert difference.mean() < 0.4
        assert difference.max() < 2


@pytest.mark.parametrize("width", [240, 241, 242])
@pytest.mark.parametrize(
    "region", [(0, 0, 240, 200), (7, 3, 221, 190), (30, 5, 60, 180), (11, 20, 203, 31), (9, 9, 8, 1)]
)
def test_a_crop_of_any_shape_is_the_rounded_float_result(width: int, region: tuple[int, ...]) -> None:
    picture = torch.randint(0, 256, (200, width, 3), generator=torch.Generator().manual_seed(width)).to(torch.uint8)
    x, y, w, h = region
    for chw in (picture.permute(2, 0, 1), picture.permute(2, 0, 1).contiguous()):  # as JPEGs and as PNGs are decoded
        ours = cut_crop(chw, np.array(region), 40)
        cut = chw[None, :, y : y + h, x : x + w].float()
        exact = functional.interpolate(cut, (40, 40), mode="bilinear", antialias=True)[0].permute(1, 2, 0)
        assert ours.is_contiguous()
        assert (ours - exact).abs().max() < 1.1  # rounded after the rows and after the columns
        assert (ours - exact).abs().mean() < 0.35
