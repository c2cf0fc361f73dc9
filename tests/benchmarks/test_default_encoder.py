"""python -m benchmarks default_encoder."""

from collections.abc import Callable
from pathlib import Path

import pytest

import polyptrace
from benchmarks.__main__ import main
from polyptrace.core.files import read_json, write_json

SMALL = [
    *("--encoder.backbone", "test_resnet", "--encoder.width", "16", "--encoder.heads", "2", "--encoder.layers", "1"),
    *("--supervision.bags-per-batch", "2", "--train.loggers", ""),
]


@pytest.fixture
def folders(make_dataset: Callable[..., Path], tmp_path: Path) -> list[Path]:
    """Two prepared datasets."""
    made = [make_dataset(tmp_path / f"d{seed}", [[2, 2], [3, 2]], seed=seed, name=f"d{seed}") for seed in (0, 1)]
    for folder in made:
        settings = {"tracks": {"link": "video"}}
        info = {"generated": True, "counts": {"videos": 2, "tracklets": 18}, "settings": settings}
        write_json(folder / "dataset.json", read_json(folder / "dataset.json") | info)
    return made


def test_the_encoder_is_trained_saved_as_float16_and_measured(folders: list[Path], tmp_path: Path) -> None:
    words = ["--data", folders[0], "--data", folders[1], "--test", folders[0], "--frames", 300, *SMALL]
    main(["default_encoder", *map(str, words), "--work", str(tmp_path / "work"), "--out", str(tmp_path / "out")])
    record = polyptrace.from_pretrained(tmp_path / "out").encoder.record
    assert record.frames >= 300
    assert record.generated
    assert record.licence == "apache-2.0"
    assert "[" in str(record.results["Retrieval mAP"])
    assert "rendered images" in (tmp_path / "out/README.md").read_text()
