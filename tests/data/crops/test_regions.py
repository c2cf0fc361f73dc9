"""Crop geometry and pixels."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from polyptrace.data.boxes import crop_regions
from polyptrace.data.crops.resize import cut_crop


def region(box: tuple[float, ...], scale: float = 5.0, size: tuple[int, int] = (320, 256)) -> list[int]:
    return crop_regions(np.array([box]), np.array([size[0]]), np.array([size[1]]), scale)[0].tolist()


def test_a_crop_is_the_box_scaled_about_its_centre() -> None:
    assert region((150, 110, 30, 24)) == [90, 62, 150, 120]


def test_a_crop_stops_at_the_edges_of_its_image() -> None:
    assert region((3, 5, 40, 33)) == [0, 0, 123, 104]
    assert region((290, 230, 28, 25)) == [234, 180, 86, 76]


def test_numbers_are_truncated_not_rounded() -> None:
    assert region((100.9, 100.9, 10.9, 10.9), scale=1.0) == [100, 100, 10, 10]


def test_a_tiny_box_in_the_last_corner_has_one_pixel() -> None:
    assert region((319.9, 255.9, 0.05, 0.05), scale=1.0) == [319, 255, 1, 1]


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
