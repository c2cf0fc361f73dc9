"""JPEG in and out."""

import io
import warnings
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from polyptrace.core import codec
from polyptrace.core.codec import decode_image, decode_jpegs, encode_jpeg

PICTURE = torch.arange(3 * 40 * 56).remainder(251).view(3, 40, 56).to(torch.uint8)


@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_several_jpegs_decode_to_the_pixels_of_each_alone(kind: type[bytes] | type[bytearray]) -> None:
    jpegs = [kind(encode_jpeg(PICTURE[:, :height], quality=90)) for height in (40, 24)]
    several = decode_jpegs(jpegs, torch.device("cpu"))
    assert [tuple(picture.shape) for picture in several] == [(3, 40, 56), (3, 24, 56)]
    for picture, jpeg in zip(several, jpegs, strict=True):
        assert torch.equal(picture, decode_image(jpeg))
    assert (several[0].float() - PICTURE.float()).abs().mean() < 40  # not another image


@pytest.mark.parametrize("content", [b"", bytearray(), b"no image at all"])
def test_what_is_no_picture_is_an_error(content: bytes | bytearray) -> None:
    with pytest.raises((RuntimeError, ValueError)):
        decode_image(content)


@pytest.mark.parametrize("form", ["JPEG", "PNG"])
@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_a_picture_is_decoded_without_touching_the_warnings_of_other_threads(
    form: str, kind: type[bytes] | type[bytearray], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise AssertionError("what warns in another thread would be lost")

    file = io.BytesIO()
    Image.fromarray(PICTURE.permute(1, 2, 0).numpy()).save(file, form)
    monkeypatch.setattr(warnings, "catch_warnings", refuse)
    assert decode_image(kind(file.getvalue())).shape == PICTURE.shape


def jpeg(mode: str, **settings: Any) -> bytes:
    file = io.BytesIO()
    smooth = torch.nn.functional.interpolate(PICTURE[None, :, ::8, ::8].float(), (41, 57), mode="bilinear")[0]
    Image.fromarray(smooth.byte().permute(1, 2, 0).numpy()).convert(mode).save(file, "JPEG", **settings)
    return file.getvalue()


def rotated() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side
    return exif


@pytest.mark.parametrize(
    ("mode", "settings"),
    [
        ("RGB", {"quality": 90}),
        ("RGB", {"quality": 75, "subsampling": "4:2:0"}),
        ("RGB", {"quality": 95, "subsampling": "4:4:4"}),
        ("RGB", {"progressive": True}),
        ("L", {}),
    ],
)
def test_every_kind_of_jpeg_has_the_pixels_of_pil(mode: str, settings: dict[str, Any]) -> None:
    content = jpeg(mode, **settings)
    with Image.open(io.BytesIO(content)) as image:
        expected = torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1)
    assert torch.equal(decode_image(content), expected)


@pytest.mark.parametrize("end", [2, 3, 4, 21, 100, 160])
def test_a_jpeg_that_ends_in_its_header_is_an_error(end: int) -> None:
    with pytest.raises((RuntimeError, ValueError)):
        decode_image(jpeg("RGB")[:end])


def test_a_rotated_picture_is_turned() -> None:
    assert decode_image(jpeg("RGB", exif=rotated())).shape == (3, 57, 41)


def png_of_16_bits() -> bytes:
    file = io.BytesIO()
    levels = np.random.default_rng(0).integers(0, 2**16, (9, 256), np.uint16)
    levels[0] = np.arange(256) * 257 + 128  # the last ones that are rounded down
    Image.fromarray(levels).save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize(
    "content", [jpeg("RGB"), jpeg("L"), jpeg("CMYK"), jpeg("RGB", exif=rotated()), png_of_16_bits()]
)
def test_torchvision_gives_the_pixels_of_torchcodec(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torchcodec")
    expected = decode_image(content)
    monkeypatch.setattr(codec, "_decoders", None)
    monkeypatch.setattr(codec, "_io", pytest.importorskip("torchvision.io"), raising=False)
    actual = decode_image(content)
    assert actual.dtype == expected.dtype == torch.uint8
    assert torch.equal(actual, expected)


def noisy_jpeg(seed: int, height: int, width: int, **settings: Any) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).resize((width, height)).save(file, "JPEG", **settings)
    return file.getvalue()


def test_a_wrong_header_gives_an_error_or_a_picture() -> None:
    content = noisy_jpeg(4, 48, 40)
    size = content.index(b"\xff\xc0") + 5
    for position in range(2, content.index(b"\xff\xda") + 14):
        for value in (0, 1, 255):
            broken = bytearray(content)
            broken[position] = value
            if position not in (size, size + 2) or value < 2:  # else it would be 65,280 pixels wide or high
                with suppress(RuntimeError, ValueError):
                    assert decode_image(broken).shape[0] == 3
