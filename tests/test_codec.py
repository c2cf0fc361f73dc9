"""JPEG in and out."""

import io
import warnings

import pytest
import torch
from PIL import Image

from polyptrace.codec import decode, decode_jpegs, encode_jpeg

PICTURE = torch.arange(3 * 40 * 56).remainder(251).view(3, 40, 56).to(torch.uint8)


@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_several_jpegs_decode_to_the_pixels_of_each_alone(kind: type[bytes] | type[bytearray]) -> None:
    jpegs = [kind(encode_jpeg(PICTURE[:, :height], quality=90)) for height in (40, 24)]
    several = decode_jpegs(jpegs, torch.device("cpu"))
    assert [tuple(picture.shape) for picture in several] == [(3, 40, 56), (3, 24, 56)]
    for picture, jpeg in zip(several, jpegs, strict=True):
        assert torch.equal(picture, decode(jpeg))
    assert (several[0].float() - PICTURE.float()).abs().mean() < 40  # not another picture


@pytest.mark.parametrize("content", [b"", bytearray(), b"no picture at all"])
def test_what_is_no_picture_is_an_error(content: bytes | bytearray) -> None:
    with pytest.raises((RuntimeError, ValueError)):
        decode(content)


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
    assert decode(kind(file.getvalue())).shape == PICTURE.shape
