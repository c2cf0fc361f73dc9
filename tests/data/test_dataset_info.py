"""The content of `dataset.json`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from polyptrace.config import Crops
from polyptrace.core.codec import JPEG_DECODER, PNG_DECODER
from polyptrace.data import Boxes, prepare
from polyptrace.data.crops.cutting import fill_store
from polyptrace.data.crops.store import BadPicture
from polyptrace.data.preparation import decoders


@pytest.mark.parametrize(
    ("files", "decoding", "named"),
    [
        (["a/1.jpg", "a/2.JPEG"], "full", [JPEG_DECODER]),
        (["a/1.jpg", "a/2.JPEG"], "nvjpeg", ["nvJPEG"]),
        (["a.mp4", "a.mp4"], "nvjpeg", ["FFmpeg (PyAV)"]),
        (["a.tar.gz::1.jpg"], "nvjpeg", [JPEG_DECODER]),
        (["a/1.jpg", "b.tar::1.jpg", "c.mkv"], "nvjpeg", ["FFmpeg (PyAV)", JPEG_DECODER, "nvJPEG"]),
        (["a/1.PNG", "a.tar::1.png"], "nvjpeg", [PNG_DECODER]),
        (["a/1.jpg"], "scaled", [JPEG_DECODER]),
        (["a.mp4"], "scaled", ["FFmpeg (PyAV)"]),
    ],
)
def test_the_decoder_of_the_pictures_is_named_for_every_setting(
    files: list[str], decoding: str, named: list[str]
) -> None:
    assert decoders(files, decoding) == ", ".join(named)


def test_a_dataset_names_the_decoder_of_its_crops(
    make_source: Callable[..., tuple[Boxes, Path]], tmp_path: Path
) -> None:
    def on_a_gpu(path: Path, boxes: Boxes, root: Path, **settings: object) -> list[BadPicture]:
        assert settings.pop("decoding") == "nvjpeg"
        return fill_store(path, boxes, root, size=16)

    boxes, root = make_source()
    assert prepare(boxes, root, tmp_path / "a", crops=Crops(size=16)).info["decoder"] == JPEG_DECODER
    found = prepare(boxes, root, tmp_path / "b", crops=Crops(size=16, decoding="nvjpeg"), fill=on_a_gpu)
    assert found.info["decoder"] == "nvJPEG"
