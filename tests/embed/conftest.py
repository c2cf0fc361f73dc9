"""Encoders exported once for all tests, because an export takes ten seconds."""

import fcntl
from pathlib import Path

import pytest
import torch

from polyptrace.cli import main
from polyptrace.data import Dataset
from polyptrace.encoders import FrameEncoder, OwnEncoder, TrackletEncoder, save_encoder


def make(kind: str) -> OwnEncoder:
    """A small encoder of 24 pixels."""
    torch.manual_seed(0)
    if kind == "frame":
        return FrameEncoder("test_resnet", projection=24, size=24, name="sfe").eval()
    return TrackletEncoder("test_resnet", width=16, heads=2, layers=2, feed_forward=16, size=24, name="ours").eval()


def export_once(kind: str, factory: pytest.TempPathFactory, *words: object) -> Path:
    """The folder that `polyptrace export` wrote; processes of pytest-xdist share it."""
    shared = factory.getbasetemp()
    if shared.name.startswith("popen-"):
        shared = shared.parent
    saved, folder = shared / f"saved-{kind}", shared / f"exported-{kind}"
    with (shared / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            save_encoder(make(kind), saved)
            with pytest.raises(SystemExit) as end:
                main(["export", *map(str, (saved, "--to", "onnx", "--out", folder, *words))])
            assert not end.value.code
    return folder


@pytest.fixture(scope="session")
def tracklet_encoder() -> OwnEncoder:
    """The encoder of `exported`."""
    return make("tracklet")


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tracklet encoder as ONNX, float32."""
    return export_once("tracklet", tmp_path_factory)


@pytest.fixture(scope="session")
def frame_encoder() -> OwnEncoder:
    """The encoder of `exported_frame`."""
    return make("frame")


@pytest.fixture(scope="session")
def exported_frame(tmp_path_factory: pytest.TempPathFactory, coloured: Dataset) -> Path:
    """A frame encoder as ONNX, int8."""
    return export_once("frame", tmp_path_factory, "--precision", "int8", "--data", coloured.path)
