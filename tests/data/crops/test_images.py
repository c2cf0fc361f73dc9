"""Images on their own: which JPEGs are whole."""

import io

import pytest
import torch
from PIL import Image
from torch import Tensor

from polyptrace.data.crops.images import decode_complete


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
    found = decode_complete(jpeg(thumbnail=thumbnail)[:-lost] + after)
    assert isinstance(found, str)
    assert "image is truncated" in found
