"""Fixtures for all tests."""

import fcntl
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from polyptrace.cli import main
from polyptrace.core.files import write_json
from polyptrace.data import Boxes, Dataset
from polyptrace.data.dataset import FORMAT, save_tracklets
from polyptrace.data.tracklets import Tracklets
from polyptrace.encoders import FrameEncoder, TrackletEncoder, save_encoder
from polyptrace.encoders.encoder import OwnEncoder
from polyptrace.synthetic import generate

SIZE = 32

# A shell starts background jobs with SIGINT ignored, and their children inherit that: tests of Ctrl-C would fail.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder `shared` next to the repository: facts, reference results and real clips. Tests skip without it."""
    folder = Path(__file__).parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("needs the folder `shared` (reference results, real clips) next to the repository")
    return folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Generated procedures at the smallest preset, as `polyptrace synth` writes them."""
    folder = tmp_path_factory.mktemp("generated") / "tiny"
    generate(folder, preset="tiny", seed=0)
    return folder


@pytest.fixture(scope="session")
def tiny_videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test procedure of the smallest preset with its video, as `synth --preset tiny --split test --videos`."""
    folder = tmp_path_factory.mktemp("videos") / "generated"
    generate(folder, preset="tiny", seed=0, split="test", videos=True)
    return folder


@pytest.fixture(scope="session")
def make_dataset() -> Callable[..., Path]:
    """Writes a small dataset folder in which each polyp has its own colour, so that training can learn from it."""
    return _make_dataset


@pytest.fixture(scope="session")
def coloured(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """A dataset of three videos with six polyps, 24 tracks and 48 tracklets of 32 pixels."""
    return Dataset.open(_make_dataset(tmp_path_factory.mktemp("data") / "coloured", [[4, 3], [5, 4], [3, 5]]))


def _make_dataset(
    folder: Path,
    tracks_of_polyps: list[list[int]],
    frames: int = 16,
    seed: int = 0,
    name: str = "test",
    length: int = 8,
) -> Path:
    """Writes a dataset folder, given the number of tracks of each polyp of each video and the frames per track.

    `length` is the number of frames in a tracklet.
    """
    random = np.random.default_rng(seed)
    columns: dict[str, list[object]] = {n: [] for n in ("unit", "video", "track", "position", "polyp", "rows")}
    boxes: list[dict[str, object]] = []
    crops, row = [], 0
    for video, polyps in enumerate(tracks_of_polyps):
        frame = track = 0
        for polyp, tracks in enumerate(polyps):
            colour = random.uniform(40, 215, 3)
            for _ in range(tracks):
                rows = np.arange(row, row + frames)
                starts = range(0, frames - length + 1, length)
                pieces = [("track", rows)] + [("tracklet", rows[i : i + length]) for i in starts]
                for unit, part in pieces:
                    columns["unit"].append(unit)
                    columns["video"].append(f"v{video}")
                    columns["track"].append(track)
                    columns["position"].append(frame + 4 * int(part[0] - row))
                    columns["polyp"].append(f"v{video}-p{polyp}")
                    columns["rows"].append(part)
                box = {"dataset": name, "video": f"v{video}", "polyp": f"v{video}-p{polyp}", "xywh": (64, 64, 32, 32)}
                image = {"image_width": 160, "image_height": 160, "fps": 25.0}
                boxes += [box | image | {"frame_index": frame + 4 * number} for number in range(frames)]
                noise = random.normal(0, 25, (frames, SIZE, SIZE, 3))
                crops.append(np.clip(colour + noise, 0, 255).astype(np.uint8))
                frame, track, row = frame + 4 * frames + 20, track + 1, row + frames
    folder.mkdir(parents=True)
    save_tracklets(_table(columns, name), folder / "tracklets.parquet")
    np.save(folder / "crops.npy", np.concatenate(crops))
    Boxes.of_rows(boxes).save(folder / "boxes.parquet", crop=np.arange(row))
    write_json(
        folder / "dataset.json",
        {"format": FORMAT, "source": {}, "settings": {}, "labels": {"polyps": len(set(columns["polyp"]))}},
    )
    return folder


def _table(columns: dict[str, list[object]], name: str) -> Tracklets:
    count = len(columns["unit"])
    order = np.argsort([unit != "tracklet" for unit in columns["unit"]], kind="stable")
    rows = [np.asarray(columns["rows"][i], np.int64) for i in order]
    position = np.array(columns["position"], np.int64)[order]
    return Tracklets(
        unit=np.array(columns["unit"], object)[order],
        dataset=np.full(count, name, object),
        video=np.array(columns["video"], object)[order],
        track=np.array(columns["track"], np.int64)[order],
        position=position,
        last=position + 4 * (np.array([len(r) for r in rows]) - 1),
        fps=np.full(count, 25.0),
        row_index=np.concatenate(rows),
        offset=np.cumsum([0, *map(len, rows)]),
        polyp=np.array(columns["polyp"], object)[order],
        size_mm=np.full(count, np.nan),
        histology=np.full(count, "", object),
    )


def _encoder(kind: str) -> OwnEncoder:
    """A small encoder of 24 pixels."""
    torch.manual_seed(0)
    if kind == "frame":
        return FrameEncoder("test_resnet", projection=24, size=24, name="sfe").eval()
    return TrackletEncoder("test_resnet", width=16, heads=2, layers=2, feed_forward=16, size=24, name="ours").eval()


def _export_once(kind: str, factory: pytest.TempPathFactory, *words: object) -> Path:
    """The folder that `polyptrace export` wrote; processes of pytest-xdist share it."""
    shared = factory.getbasetemp()
    if shared.name.startswith("popen-"):
        shared = shared.parent
    saved, folder = shared / f"saved-{kind}", shared / f"exported-{kind}"
    with (shared / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            save_encoder(_encoder(kind), saved)
            with pytest.raises(SystemExit) as end:
                main(["export", *map(str, (saved, "--to", "onnx", "--out", folder, *words))])
            assert not end.value.code
    return folder


@pytest.fixture(scope="session")
def tracklet_encoder() -> OwnEncoder:
    """The encoder of `exported`."""
    return _encoder("tracklet")


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tracklet encoder as ONNX, float32."""
    return _export_once("tracklet", tmp_path_factory)


@pytest.fixture(scope="session")
def frame_encoder() -> OwnEncoder:
    """The encoder of `exported_frame`."""
    return _encoder("frame")


@pytest.fixture(scope="session")
def exported_frame(tmp_path_factory: pytest.TempPathFactory, coloured: Dataset) -> Path:
    """A frame encoder as ONNX, int8."""
    return _export_once("frame", tmp_path_factory, "--precision", "int8", "--data", coloured.path)
