"""Crops of a batch on a GPU, compared with one crop at a time on a CPU."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from polyptrace.config import Crops
from polyptrace.core import codec
from polyptrace.core.codec import encode_jpeg
from polyptrace.data import Boxes
from polyptrace.data.crops import filling
from polyptrace.data.crops.filling import fill_store
from polyptrace.data.crops.images import read_images
from polyptrace.data.crops.resize import cut_crop, resize_crops

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


@pytest.mark.parametrize("picture", [noise(50, 61, 0), noise(64, 80, 1)])
@pytest.mark.parametrize("region", REGIONS)
def test_a_crop_resized_in_floats_is_that_resized_in_8_bits(picture: Tensor, region: tuple[int, int, int, int]) -> None:
    x, y, w, h = region
    cut = picture[None, :, y : y + h, x : x + w]
    crop = resize_crops(cut.permute(0, 2, 3, 1), SIZE)[0]
    exact = functional.interpolate(cut.double(), (SIZE, SIZE), mode="bilinear", antialias=True)[0].permute(1, 2, 0)
    assert (crop - exact).abs().max() < 0.501
    assert (crop.int() - cut_crop(picture, np.array(region), SIZE).int()).abs().max() <= 1


def test_the_gpu_is_synchronised_after_a_broken_jpeg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jpg").write_bytes(encode_jpeg(noise(16, 24, 0)))
    waited: list[torch.device] = []

    def decode_jpegs(_: list[bytearray], __: torch.device) -> list[Tensor]:
        raise RuntimeError("Failed to decode jpeg stream")

    monkeypatch.setattr(codec, "decode_jpegs", decode_jpegs)
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    ((_, _, pixels),) = read_images(tmp_path, [("a.jpg", 0)], device=torch.device("cuda", 1))
    assert isinstance(pixels, Tensor)  # decoded alone
    assert pixels.shape == (3, 16, 24)
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
    monkeypatch.setattr(filling, "find_gpu", lambda: torch.device("cpu"))  # runs the GPU code on the CPU
    monkeypatch.setattr(filling, "_own_stream", nullcontext)
    advances: list[int] = []
    together = fill_store(
        tmp_path / "b.npy", boxes, root, Crops(size=SIZE, decoding="nvjpeg", workers=2), advance=advances.append
    )
    assert together == plain
    assert list(plain) == np.flatnonzero(np.isin(rows, (7, 8, 9))).tolist()
    assert sum(advances) == 72
    difference = np.abs(np.load(tmp_path / "a.npy").astype(int) - np.load(tmp_path / "b.npy"))
    assert difference.max() <= 1
    assert difference.mean() < 0.3
