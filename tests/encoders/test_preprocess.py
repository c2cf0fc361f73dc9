"""From crops to an encoder's input, and what an encoder accepts."""

import warnings

import pytest
import torch
from torchvision.transforms.v2 import functional as vision

from polyptrace.core.errors import PolyptraceWarning, UserError
from polyptrace.encoders import ColourGrid, FrameEncoder, FrozenBackbone, TrackletEncoder
from polyptrace.encoders.foundation import load_foundation
from polyptrace.encoders.preprocess import RELEASE, CropPreparation, Preprocess, prepare_crops

ODD = Preprocess(16, (0.1, 0.2, 0.3), (0.5, 0.25, 2.0))


def crops(side: int) -> torch.Tensor:
    return torch.randint(0, 256, (2, 3, side, side, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_a_pixel_becomes_its_share_of_white_less_the_mean_over_the_deviation_of_its_channel() -> None:
    stored = crops(16)
    prepared = prepare_crops(stored, ODD)
    assert prepared.shape == (2, 3, 3, 16, 16)
    for channel in range(3):
        value = stored[1, 2, 5, 7, channel].item()
        expected = (value / 255 - ODD.mean[channel]) / ODD.std[channel]
        assert prepared[1, 2, channel, 5, 7].item() == pytest.approx(expected, abs=1e-6)


def test_larger_crops_are_made_smaller_with_antialiasing() -> None:
    stored = crops(40)
    expected = vision.resize(stored[1, 0].permute(2, 0, 1) / 255, [16, 16], antialias=True)
    expected = vision.normalize(expected, list(ODD.mean), list(ODD.std))
    torch.testing.assert_close(prepare_crops(stored, ODD)[1, 0], expected, atol=1e-5, rtol=1e-5)


def test_smaller_crops_are_refused_with_the_size_to_prepare_unless_enlarging_is_allowed() -> None:
    with pytest.raises(UserError, match=r"12 pixels.*--crops.size 16"):
        prepare_crops(crops(12), ODD)
    assert CropPreparation(ODD, enlarge=True)(crops(12)).shape == (2, 3, 3, 16, 16)


def test_the_release_transform_is_232_pixels_with_mean_045_and_deviation_0225() -> None:
    white = torch.full((1, 1, 240, 240, 3), 255, dtype=torch.uint8)
    prepared = prepare_crops(white, RELEASE)
    assert prepared.shape == (1, 1, 3, 232, 232)
    assert prepared.dtype == torch.float32
    torch.testing.assert_close(prepared, torch.full_like(prepared, 0.55 / 0.225), atol=1e-5, rtol=0)


ENCODERS = {
    "tracklet": lambda: TrackletEncoder("test_resnet", width=16, heads=2, feed_forward=16, layers=1, size=32),
    "frame": lambda: FrameEncoder("test_resnet", size=32),
    "colour grid": ColourGrid,
    "frozen": lambda: FrozenBackbone("test_resnet", "none"),
    "frame model": lambda: load_foundation("surgenet", None, preprocess=Preprocess(32, RELEASE.mean, RELEASE.std)),
    "video model": lambda: load_foundation("endofm", None, preprocess=Preprocess(32, RELEASE.mean, RELEASE.std)),
}


@torch.no_grad()
@pytest.mark.parametrize("kind", ENCODERS)
def test_an_encoder_takes_uint8_crops_or_prepared_floats_and_warns_of_floats_that_are_not_normalised(kind: str) -> None:
    torch.manual_seed(0)
    encoder, stored = ENCODERS[kind]().eval(), crops(32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = encoder(prepare_crops(stored, encoder.preprocess))
        torch.testing.assert_close(encoder(stored), expected, atol=0, rtol=0)
    with pytest.warns(PolyptraceWarning, match=r"all in \[0, 1\].*give uint8 crops"):
        encoder(stored.permute(0, 1, 4, 2, 3) / 255)
    with pytest.raises(UserError, match=r"int64 -> give uint8 crops"):
        encoder(stored.permute(0, 1, 4, 2, 3).long())
    with pytest.raises(UserError, match=r"uint8 of shape \(2, 3, 3, 32, 32\) -> give uint8 of shape"):
        encoder(stored.permute(0, 1, 4, 2, 3))


def test_crops_that_are_no_pixels_are_refused() -> None:
    with pytest.raises(UserError, match=r"float32 of shape .* -> give uint8 of shape"):
        prepare_crops(crops(16) / 255, ODD)
