"""Work spread over a cluster of two nodes gives the same bytes as one machine."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from polyptrace.cli import main
from polyptrace.cluster import connected, embed_on, fill_store_on
from polyptrace.config import Crops, Embed
from polyptrace.core.errors import UserError
from polyptrace.data import Dataset, prepare, read_coco
from polyptrace.data.crops.filling import fill_store
from polyptrace.embed import Embeddings, embed
from polyptrace.embed.partial import partial_blocks, vectors_written
from polyptrace.encoders import TrackletEncoder, save_encoder

ray = pytest.importorskip("ray")
FILES = ("crops.npy", "tracklets.parquet", "boxes.parquet")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A cluster of two nodes with a core each, connected to once: workers load torch once."""
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 100 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    cluster.add_node(**node)
    with connected(cluster.address):
        yield cluster.address
    assert not ray.is_initialized()
    cluster.shutdown()


@pytest.fixture(scope="module")
def alone(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The dataset as one machine prepares it."""
    return prepare(read_coco(tiny), tiny, tmp_path_factory.mktemp("data") / "alone", crops=Crops(size=32))


@pytest.fixture(scope="module")
def encoder() -> TrackletEncoder:
    torch.manual_seed(0)
    return TrackletEncoder("test_resnet", width=16, heads=2, feed_forward=16, layers=1, size=32).eval()


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_no_cluster_is_an_error_that_says_how_to_start_one() -> None:
    with pytest.raises(UserError, match="ray start --head"), connected("127.0.0.1:1"):
        pass


def test_a_dataset_prepared_on_two_nodes_has_the_same_bytes(
    address: str, tiny: Path, alone: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["prepare", "coco", str(tiny), "--out", str(tmp_path / "d"), "--crops.size", "32", "--cluster", address])
    assert not end.value.code
    assert "3 procedures on 2 machines" in capsys.readouterr().err
    for name in FILES:
        assert (tmp_path / "d" / name).read_bytes() == (alone.path / name).read_bytes()
    assert {path.name for path in (tmp_path / "d").iterdir()} == {*FILES, "dataset.json"}


def test_bad_pictures_are_found_where_they_are(address: str, tiny: Path, alone: Dataset, tmp_path: Path) -> None:
    boxes = read_coco(tiny).in_order()
    last = np.array([rows[-1] for rows in alone.tracklets.rows])[alone.select("track")]  # no track is cut in two
    boxes.file[alone.box_of_crop()[last[[0, -1]]]] = "nowhere.jpg"
    for name, fill in (("alone", fill_store), ("cluster", partial(fill_store_on, address))):
        prepare(boxes, tiny, tmp_path / name, crops=Crops(size=32), skip_bad=True, fill=fill)
    for name in (*FILES, "rejected.csv"):
        assert (tmp_path / "cluster" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()
    assert len((tmp_path / "cluster" / "rejected.csv").read_text().splitlines()) == 3


def test_an_error_of_a_worker_is_reported_in_one_line(address: str, tiny: Path, tmp_path: Path) -> None:
    boxes = read_coco(tiny).in_order()
    boxes.file[0] = "../elsewhere.jpg"
    with pytest.raises(UserError, match=r"^'\.\./elsewhere\.jpg': leaves its folder"), connected(address):
        fill_store_on(address, tmp_path / "crops.npy", boxes, tiny, Crops(size=32))


def test_what_prevents_a_worker_from_starting_is_reported_in_one_line(
    address: str, alone: Dataset, encoder: TrackletEncoder
) -> None:
    unseen = replace(alone, path=alone.path / "elsewhere")  # as on a machine without the shared file system
    with pytest.raises(UserError, match=r"elsewhere: no such folder"):
        embed_on(address, encoder, unseen)


def test_vectors_computed_on_two_nodes_have_the_same_bytes(
    address: str, alone: Dataset, encoder: TrackletEncoder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_encoder(encoder, tmp_path / "encoder")
    words = ["embed", tmp_path / "encoder", "--data", alone.path, "--out", tmp_path / "e", "--cluster", address]
    words += ["--embed.batch_frames", 50, "--embed.block_frames", 120]
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    assert not end.value.code
    assert "2 workers on 2 machines" in capsys.readouterr().err
    actual, expected = Embeddings.load(tmp_path / "e"), embed(encoder, alone, settings=Embed(50, block_frames=120))
    assert actual.vectors.tobytes() == expected.vectors.tobytes()
    assert actual.info["model_hash"] == expected.info["model_hash"]
    assert actual.position.tolist() == expected.position.tolist()


KILLED = """
import sys, time
from pathlib import Path
import torch
from polyptrace.cluster import embed_on
from polyptrace.config import Embed
from polyptrace.data import Dataset
from polyptrace.embed import partial
from polyptrace.encoders import ColourGrid
address, data, out, log = sys.argv[1:]

class Slow(ColourGrid):
    def __setstate__(self, state):  # in the worker
        super().__setstate__(state)
        partial.EVERY = 0.1

    def frame_features(self, frames):
        with open(log, "a") as file:
            file.write(".")
        time.sleep(0.05)
        return super().frame_features(frames)

torch.set_num_threads(1)
settings = Embed(batch_frames=8, device="cpu", block_frames=100)
embed_on(address, Slow(), Dataset.open(data), settings=settings, out=Path(out)).save(Path(out))
"""


def test_a_killed_embedding_on_a_cluster_repeats_little_and_gives_the_same_vectors(
    address: str, alone: Dataset, tmp_path: Path
) -> None:
    def start(out: str) -> "subprocess.Popen[bytes]":
        words = [address, alone.path, tmp_path / out, tmp_path / f"{out}.log"]
        return subprocess.Popen([sys.executable, "-c", KILLED, *words])

    def batches(out: str) -> int:
        log = tmp_path / f"{out}.log"
        return log.stat().st_size if log.exists() else 0

    assert start("whole").wait() == 0
    process = start("killed")
    while process.poll() is None and batches("killed") < 0.7 * batches("whole"):
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert list(partial_blocks(tmp_path / "killed").iterdir())
    assert start("killed").wait() == 0
    assert 0 <= batches("killed") - batches("whole") <= 16  # two workers, which were ended some time after the kill
    actual, expected = Embeddings.load(tmp_path / "killed"), Embeddings.load(tmp_path / "whole")
    assert actual.vectors.tobytes() == expected.vectors.tobytes()
    with vectors_written(tmp_path / "killed", overwrite=True):
        pass
    assert not partial_blocks(tmp_path / "killed").exists()


def test_impossible_requests_are_reported_before_workers_start(
    address: str, tiny: Path, alone: Dataset, tmp_path: Path
) -> None:
    larger = TrackletEncoder("test_resnet", width=16, heads=2, feed_forward=16, layers=1, size=48)
    with pytest.raises(UserError, match="32 pixels"):
        embed_on(address, larger, alone)
    with pytest.raises(UserError, match="the cluster has no GPU"):
        fill_store_on(address, tmp_path / "crops.npy", read_coco(tiny), tiny, Crops(decoding="nvjpeg"))
