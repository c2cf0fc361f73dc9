"""The content of `dataset.json`."""

from collections.abc import Callable
from pathlib import Path

from polyptrace.config import Crops
from polyptrace.core.codec import JPEG_DECODER
from polyptrace.data import Boxes, prepare
from polyptrace.data.crops.filling import fill_store
from polyptrace.data.crops.store import Failures


def test_a_dataset_names_the_decoder_of_its_crops(
    make_source: Callable[..., tuple[Boxes, Path]], tmp_path: Path
) -> None:
    def on_a_gpu(path: Path, boxes: Boxes, root: Path, settings: Crops, *progress: Callable) -> Failures:
        assert settings.decoding == "nvjpeg"
        return fill_store(path, boxes, root, Crops(size=16), *progress)

    boxes, root = make_source()
    assert prepare(boxes, root, tmp_path / "a", crops=Crops(size=16)).info["decoder"] == JPEG_DECODER
    actual = prepare(boxes, root, tmp_path / "b", crops=Crops(size=16, decoding="nvjpeg"), fill=on_a_gpu)
    assert actual.info["decoder"] == "nvJPEG"
