"""The resize of frames, against torchvision's."""

import torch
from torchvision.transforms.v2 import functional as vision

from polyptrace.data.crops import regions as resize
from polyptrace.data.crops.resize import resize_crops, resize_frames

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
