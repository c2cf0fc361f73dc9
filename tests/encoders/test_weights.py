"""Weights files: read without running pickled code, recognised by content, and refused with a reason."""

import argparse
import errno
import json
import os
import pickle
import resource
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torchvision.models import resnet18

from polyptrace.core.errors import UserError
from polyptrace.encoders import FrameEncoder, TrackletEncoder
from polyptrace.encoders.encoder import create_backbone
from polyptrace.encoders.weights import (
    fill_network,
    fingerprint,
    load_weights,
    read_content,
    read_tensors,
    weights_hash,
    write_safetensors,
)

WEIGHTS = {"a.weight": torch.arange(4.0), "b": torch.ones(2, 3)}


class Harmful:
    """Creates a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.folder),)


def refused(path: Path, message: str) -> None:
    """Reading the path raises an error with the message, without torch's advice and without terminal codes."""
    with pytest.raises(UserError, match=message) as caught:
        read_tensors(path)
    text = str(caught.value)
    assert text.startswith(str(path.parent))
    assert "weights_only" not in text
    assert "\x1b" not in text
    assert " -> " in text


@pytest.mark.parametrize("container", ["teacher", "student", "model", "state_dict", "encoder", "target_encoder"])
def test_weights_are_taken_out_of_their_container(container: str, tmp_path: Path) -> None:
    content = {container: WEIGHTS, "optimizer": {"lr": np.float64(1)}, "args": argparse.Namespace(lr=0.1), "epoch": 3}
    torch.save(content, tmp_path / "c.pth")
    tensors = read_tensors(tmp_path / "c.pth")
    assert tensors.keys() == WEIGHTS.keys()
    assert torch.equal(tensors["a.weight"], WEIGHTS["a.weight"])


@pytest.mark.parametrize(("first", "second"), [("teacher", "student"), ("encoder", "target_encoder")])
def test_one_container_is_preferred_to_the_other(first: str, second: str, tmp_path: Path) -> None:
    torch.save({second: {"w": torch.zeros(1)}, first: {"w": torch.ones(1)}}, tmp_path / "c.pth")
    assert read_tensors(tmp_path / "c.pth")["w"] == 1


@pytest.mark.parametrize("name", ["w.pth", "w", "w.bin", "w.safetensors"])
@pytest.mark.parametrize("write", [torch.save, save_file], ids=["torch", "safetensors"])
def test_the_format_is_recognised_by_content_whatever_the_file_is_called(write, name: str, tmp_path: Path) -> None:
    write(WEIGHTS, tmp_path / name)
    assert torch.equal(read_tensors(tmp_path / name)["b"], WEIGHTS["b"])


def test_pickled_code_is_not_run_and_the_object_is_named(tmp_path: Path) -> None:
    torch.save({"model": WEIGHTS, "args": Harmful(tmp_path / "harm")}, tmp_path / "c.pth")
    refused(tmp_path / "c.pth", r"c\.pth: contains the pickled object posix\.mkdir")
    (tmp_path / "plain.pth").write_bytes(pickle.dumps({"a": Harmful(tmp_path / "harm")}))
    refused(tmp_path / "plain.pth", r"plain\.pth: ")
    assert not (tmp_path / "harm").exists()


def test_numpy_scalars_are_read_as_inert_objects(tmp_path: Path) -> None:
    scalars = {"lr": np.float64(0.1), "step": np.int64(3), "half": np.float16(2), "type": np.dtype("float32")}
    torch.save({"model": WEIGHTS, "optimizer": scalars}, tmp_path / "c.pth")
    content = read_content(tmp_path / "c.pth")
    assert torch.equal(content["model"]["b"], WEIGHTS["b"])
    assert {type(value).__module__ for value in content["optimizer"].values()} == {"polyptrace.encoders.weights"}


def test_a_numpy_array_is_not_accepted(tmp_path: Path) -> None:
    torch.save({"model": WEIGHTS, "schedule": np.arange(3)}, tmp_path / "c.pth")
    refused(tmp_path / "c.pth", r"pickled object numpy.*_reconstruct")


@pytest.mark.parametrize("ending", ["pth", "safetensors"])
@pytest.mark.parametrize("size", [0, 5, 9, 100])
def test_a_truncated_file_is_named(ending: str, size: int, tmp_path: Path) -> None:
    path = tmp_path / f"c.{ending}"
    (torch.save if ending == "pth" else save_file)(WEIGHTS, path)
    path.write_bytes(path.read_bytes()[:size])
    refused(path, rf"c\.{ending}: not a complete")


def test_content_without_weights_is_refused(tmp_path: Path) -> None:
    torch.save({"epoch": 3}, tmp_path / "epoch.pth")
    refused(tmp_path / "epoch.pth", r"contains no weights \(only epoch\)")
    torch.save([1, 2], tmp_path / "list.pth")
    refused(tmp_path / "list.pth", "contains a list")
    refused(tmp_path / "nothing.pth", "no such weights file")
    with pytest.raises(UserError, match="contains none of"):
        read_tensors(tmp_path)


def test_a_folder_is_read_from_its_safetensors_file_if_it_has_one(tmp_path: Path) -> None:
    torch.save(WEIGHTS, tmp_path / "pytorch_model.bin")
    assert read_tensors(tmp_path).keys() == WEIGHTS.keys()
    save_file({"c": torch.ones(1)}, tmp_path / "model.safetensors")
    assert read_tensors(tmp_path).keys() == {"c"}


def test_an_index_of_sharded_weights_is_refused_and_the_files_that_it_names_are_not_read(tmp_path: Path) -> None:
    save_file(WEIGHTS, tmp_path / "outside.safetensors")
    index = tmp_path / "hub" / "model.safetensors.index.json"
    index.parent.mkdir()
    index.write_text(json.dumps({"weight_map": dict.fromkeys(WEIGHTS, "../outside.safetensors")}))
    refused(index, r"index\.json: not a complete torch or safetensors file")
    with pytest.raises(UserError, match=r"hub: contains none of"):
        read_tensors(index.parent)


@pytest.fixture(scope="module")
def torchvision_weights() -> dict[str, Tensor]:
    return resnet18(weights=None).state_dict()


def test_torchvision_weights_load_with_any_prefix_and_without_the_classifier(
    torchvision_weights: dict[str, Tensor], tmp_path: Path
) -> None:
    torch.save({"state_dict": torchvision_weights}, tmp_path / "w.pth")
    save_file({f"module.backbone.{k}": v for k, v in torchvision_weights.items()}, tmp_path / "w.safetensors")
    for file in ("w.pth", "w.safetensors"):
        state = create_backbone("resnet18", str(tmp_path / file)).state_dict()
        assert all(torch.equal(torchvision_weights[name], state[name]) for name in state)


def test_weights_of_another_network_are_refused_with_every_name(
    torchvision_weights: dict[str, Tensor], tmp_path: Path
) -> None:
    wrong = dict(torchvision_weights)
    wrong["layer5.weight"] = wrong.pop("layer4.1.conv2.weight")
    wrong["bn1.weight"] = torch.ones(3)
    torch.save(wrong, tmp_path / "w.pth")
    with pytest.raises(
        UserError,
        match=r"1 missing: layer4\.1\.conv2\.weight; 1 unexpected: layer5\.weight; "
        r"1 of another shape: bn1\.weight is \(3,\), not \(64,\)",
    ):
        create_backbone("resnet18", str(tmp_path / "w.pth"))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.int64, torch.uint8, torch.bool])
def test_weights_that_are_not_real_numbers_are_refused(dtype: torch.dtype) -> None:
    network = nn.Linear(2, 2)
    tensors = {name: tensor.detach() for name, tensor in network.state_dict().items()}
    with pytest.raises(UserError, match=rf"not real numbers: weight is {str(dtype).removeprefix('torch.')}"):
        fill_network(network, tensors | {"weight": torch.ones(2, 2).to(dtype)}, "w.pth")
    fill_network(network, tensors | {"weight": torch.full((2, 2), 3.0, dtype=torch.float16)}, "w.pth")
    assert network.weight[0, 0] == 3


def test_integer_counters_are_not_weights(tmp_path: Path) -> None:
    network = nn.BatchNorm2d(2)
    network.num_batches_tracked += 7
    save_file(network.state_dict(), tmp_path / "w.safetensors")
    other = nn.BatchNorm2d(2)
    load_weights(other, tmp_path / "w.safetensors", "w")
    assert other.num_batches_tracked == 7


def small(**settings: object) -> TrackletEncoder:
    torch.manual_seed(0)
    return TrackletEncoder("test_resnet", **{"width": 32, "heads": 4, "feed_forward": 48, "size": 32, **settings})


def test_the_hash_follows_the_weights_in_any_precision() -> None:
    encoder = small()
    before = weights_hash(encoder)
    assert weights_hash(encoder.bfloat16()) != before
    encoder = small()
    with torch.no_grad():
        encoder.token[0, 0, 0] += 1
    assert weights_hash(encoder) != before


def test_the_fingerprint_follows_weights_preprocessing_and_architecture_but_not_the_name() -> None:
    base = fingerprint(small())
    assert fingerprint(small(name="another")) == base
    assert fingerprint(small(heads=2)) != base
    assert fingerprint(small(size=64)) != base
    changed = small()
    with torch.no_grad():
        changed.token += 1
    assert fingerprint(changed) != base
    assert fingerprint(FrameEncoder("test_resnet", size=32)) != base


def test_a_full_disk_is_an_error_of_the_file_system(tmp_path: Path) -> None:
    """A limit on the size of files simulates a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as error:
            write_safetensors(tmp_path / "a.safetensors", {"a": torch.zeros(1000)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert error.value.errno == errno.EFBIG
