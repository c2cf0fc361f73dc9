"""Images on their own: which JPEGs are whole."""

import io
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import Tensor

from polyptrace.core import codec
from polyptrace.data.crops.images import decode_complete, read_images


def jpeg(*, thumbnail: bool = False) -> bytes:
    """A noisy JPEG, as some cameras write it with a small one of itself in the header."""
    pixels = torch.randint(0, 256, (48, 64, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    file = io.BytesIO()
    Image.fromarray(pixels.numpy()).save(file, "JPEG")
    content = file.getvalue()
    small = b"\xff\xe2" + (len(content) + 2).to_bytes(2, "big") + content
    return content[:2] + small + content[2:] if thumbnail else content


@pytest.mark.parametrize("thumbnail", [False, True])
@pytest.mark.parametrize("after", [b"", bytes(5000), b"what a device writes after its image " * 9])
def test_a_complete_jpeg_is_decoded_even_with_bytes_after_it(thumbnail: bool, after: bytes) -> None:
    whole, expected = decode_complete(jpeg(thumbnail=thumbnail) + after), decode_complete(jpeg())
    assert isinstance(whole, Tensor)
    assert isinstance(expected, Tensor)
    assert torch.equal(whole, expected)


@pytest.mark.parametrize("thumbnail", [False, True])
@pytest.mark.parametrize("lost", [2, 3, 500, 1500])
@pytest.mark.parametrize("after", [b"", bytes(5000), b"what a device writes after its image " * 9])
def test_a_jpeg_that_ends_early_is_truncated_even_with_bytes_after_it(thumbnail: bool, lost: int, after: bytes) -> None:
    actual = decode_complete(jpeg(thumbnail=thumbnail)[:-lost] + after)
    assert isinstance(actual, str)
    assert "image is truncated" in actual


def test_a_rotated_jpeg_is_turned_where_a_decoder_of_many_ignores_exif(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side
    Image.new("RGB", (64, 48)).save(tmp_path / "turned.jpg", exif=exif)
    exif[0x0112] = 1
    Image.new("RGB", (64, 48)).save(tmp_path / "upright.jpg", exif=exif)
    monkeypatch.setattr(codec, "_decoders", None)
    monkeypatch.setattr(codec, "_io", pytest.importorskip("torchvision.io"), raising=False)
    together: list[int] = []
    decode = codec.decode_jpegs
    monkeypatch.setattr(
        codec, "decode_jpegs", lambda contents, device: together.append(len(contents)) or decode(contents, device)
    )
    images = read_images(tmp_path, [("turned.jpg", 0), ("upright.jpg", 1)], device=torch.device("cpu"))
    shapes = [picture.shape for _, _, picture in images if isinstance(picture, Tensor)]
    assert shapes == [(3, 64, 48), (3, 48, 64)]
    assert together == [1]  # the upright one
