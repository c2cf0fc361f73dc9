"""Crops of a batch by matrix products, compared with one crop at a time."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor
from torch.nn import functional

from polyptrace.config import Crops
from polyptrace.core import codec
from polyptrace.core.arrays import Ints
from polyptrace.core.codec import encode_jpeg
from polyptrace.data import Boxes
from polyptrace.data.crops import cutting
from polyptrace.data.crops import regions as regions_module
from polyptrace.data.crops.cutting import fill_store, to_host
from polyptrace.data.crops.images import read_images
from polyptrace.data.crops.regions import cut_crop, cut_crops, triangle_weights

Source = Callable[..., tuple[Boxes, Path]]
SIZE = 24
REGIONS = [  # x, y, w, h
    (0, 0, 61, 50),  # all of an image
    (10, 5, 40, 30),
    (3, 7, 9, 11),  # made larger
    (60, 49, 1, 1),
    (0, 0, 1, 50),
    (0, 49, 61, 1),
    (30, 20, 24, 24),  # as it is
]


def noise(height: int, width: int, seed: int) -> Tensor:
    return torch.randint(0, 256, (3, height, width), generator=torch.Generator().manual_seed(seed)).to(torch.uint8)


def all_crops(pictures: list[Tensor], of: Ints, regions: Ints, dtype: torch.dtype) -> Tensor:
    crops = torch.zeros(len(regions), SIZE, SIZE, 3, dtype=torch.uint8)
    for places, some in cut_crops(pictures, of, regions, SIZE, dtype):
        crops[torch.from_numpy(places)] = to_host(some)
    return crops


def float_path(picture: Tensor, region: Ints) -> Tensor:
    x, y, w, h = region.tolist()
    cut = picture[None, :, y : y + h, x : x + w].float()
    return functional.interpolate(cut, (SIZE, SIZE), mode="bilinear", antialias=True)[0].permute(1, 2, 0)


@pytest.mark.parametrize(("dtype", "furthest"), [(torch.float32, 0.501), (torch.float16, 0.8)])
def test_the_crops_of_a_batch_are_those_cut_one_by_one(dtype: torch.dtype, furthest: float) -> None:
    pictures = [noise(50, 61, 0), noise(64, 80, 1), noise(50, 61, 2)]
    regions = np.array(REGIONS * 3)
    of = np.arange(len(regions)) // len(REGIONS)  # several boxes in each image, images of two sizes
    crops = all_crops(pictures, of, regions, dtype)
    for crop, picture, region in zip(crops, of, regions, strict=True):
        exact = float_path(pictures[picture], region)
        assert (crop - exact).abs().max() < furthest
        assert (crop - exact).abs().mean() < 0.3
        assert (crop.int() - cut_crop(pictures[picture], region, SIZE).int()).abs().max() <= 1 + (
            dtype != torch.float32
        )


def test_white_stays_white_in_half_precision() -> None:
    white = torch.full((3, 300, 400), 255, dtype=torch.uint8)
    regions = np.array([(0, 0, 400, 300), (7, 3, 331, 97), (5, 5, 13, 290)])
    assert (all_crops([white], np.zeros(3, int), regions, torch.float16) == 255).all()


def test_a_small_memory_budget_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pictures, regions, of = [noise(50, 61, 0)], np.array(REGIONS), np.zeros(len(REGIONS), int)
    whole = all_crops(pictures, of, regions, torch.float32)
    monkeypatch.setattr(regions_module, "BYTES_AT_ONCE", 2 * 3 * 50 * 61 * 4)
    parts = [len(places) for places, _ in cut_crops(pictures, of, regions, SIZE)]
    assert parts == [2, 2, 2, 1]
    assert torch.equal(all_crops(pictures, of, regions, torch.float32), whole)


@settings(max_examples=50, deadline=None)
@given(length=st.integers(1, 90), begin=st.integers(0, 89), extent=st.integers(1, 90), size=st.integers(1, 40))
def test_weights_sum_to_one_and_stay_inside_their_region(length: int, begin: int, extent: int, size: int) -> None:
    begin = min(begin, length - 1)
    extent = min(extent, length - begin)
    weights = triangle_weights(torch.tensor([float(begin)]), torch.tensor([float(extent)]), length, size)[0]
    torch.testing.assert_close(weights.sum(1), torch.ones(size))
    assert not weights[:, :begin].any()
    assert not weights[:, begin + extent :].any()
    line = torch.arange(length).float()[None, None, None, begin : begin + extent]
    expected = functional.interpolate(line, (1, size), mode="bilinear", antialias=True)[0, 0, 0]
    torch.testing.assert_close(weights @ torch.arange(length).float(), expected, atol=1e-3, rtol=1e-4)


def test_the_gpu_is_synchronised_after_a_broken_jpeg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jpg").write_bytes(encode_jpeg(noise(16, 24, 0)))
    waited: list[torch.device] = []

    def decode_jpegs(_: list[bytearray], __: torch.device) -> list[Tensor]:
        raise RuntimeError("Failed to decode jpeg stream")

    monkeypatch.setattr(codec, "decode_jpegs", decode_jpegs)
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    (image,) = read_images(tmp_path, [("a.jpg", 0)], device=torch.device("cuda", 1))
    assert isinstance(image.pixels, Tensor)  # decoded alone
    assert image.pixels.shape == (3, 16, 24)
    assert waited == [torch.device("cuda", 1)]  # or nvJPEG could write into what is copied there next


def test_a_store_filled_in_batches_holds_the_same_crops_and_names_the_same_bad_images(
    make_source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boxes, root = make_source(videos=1)
    rows = np.r_[np.arange(72), 3, 3, 40][::-1]  # several boxes in an image, in no order
    boxes = boxes.take(rows)
    (root / "v0_0007.jpg").unlink()
    (root / "v0_0008.jpg").write_bytes((root / "v0_0008.jpg").read_bytes()[:200])
    (root / "v0_0009.jpg").write_bytes(encode_jpeg(noise(8, 8, 0)))  # of another size than stated
    with Image.open(root / "v0_0010.jpg") as picture:
        picture.save(root / "v0_0010.jpg", "PNG")  # not a JPEG: decoded separately
    plain = fill_store(tmp_path / "a.npy", boxes, root, Crops(size=SIZE))
    monkeypatch.setattr(cutting, "find_gpu", lambda: torch.device("cpu"))  # runs the GPU code on the CPU
    advances: list[int] = []
    together = fill_store(
        tmp_path / "b.npy", boxes, root, Crops(size=SIZE, decoding="nvjpeg", workers=2), advance=advances.append
    )
    assert together == plain
    assert [bad.row for bad in plain] == np.flatnonzero(np.isin(rows, (7, 8, 9))).tolist()
    assert sum(advances) == 72
    difference = np.abs(np.load(tmp_path / "a.npy").astype(int) - np.load(tmp_path / "b.npy"))
    assert difference.max() <= 1
    assert difference.mean() < 0.3
