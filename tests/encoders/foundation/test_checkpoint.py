"""Files of weights: read without running anything, and refused with a reason."""

import argparse
import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from polyptrace.core.errors import UserError
from polyptrace.encoders.foundation.checkpoint import read_checkpoint

WEIGHTS = {"a.weight": torch.arange(4.0), "b": torch.ones(2, 3)}


class Harmful:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.folder),)


@pytest.mark.parametrize("container", ["teacher", "model", "state_dict", "encoder"])
def test_weights_come_out_of_their_container_without_prefixes(container: str, tmp_path: Path) -> None:
    inner = {f"module.backbone.{name}": tensor for name, tensor in WEIGHTS.items()}
    arguments = argparse.Namespace(lr=0.1)
    torch.save({container: inner, "optimizer": {"lr": 1}, "args": arguments}, tmp_path / "c.pth")
    found = read_checkpoint(tmp_path / "c.pth")
    assert found.keys() == WEIGHTS.keys()
    assert torch.equal(found["a.weight"], WEIGHTS["a.weight"])


def test_the_teacher_goes_before_the_student(tmp_path: Path) -> None:
    torch.save({"student": {"w": torch.zeros(1)}, "teacher": {"w": torch.ones(1)}}, tmp_path / "c.pth")
    assert read_checkpoint(tmp_path / "c.pth")["w"] == 1


def test_pickled_code_is_not_run(tmp_path: Path) -> None:
    torch.save({"model": WEIGHTS, "args": Harmful(tmp_path / "harm")}, tmp_path / "c.pth")
    with pytest.raises(UserError, match=r"c\.pth: not a whole file of plain tensors"):
        read_checkpoint(tmp_path / "c.pth")
    assert not (tmp_path / "harm").exists()


def test_a_folder_is_read_whole_or_in_the_parts_of_its_index(tmp_path: Path) -> None:
    save_file({"a.weight": WEIGHTS["a.weight"]}, tmp_path / "1.safetensors")
    save_file({"b": WEIGHTS["b"]}, tmp_path / "2.safetensors")
    index = {"weight_map": {"a.weight": "1.safetensors", "b": "2.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert read_checkpoint(tmp_path).keys() == WEIGHTS.keys()
    save_file({"c": torch.ones(1)}, tmp_path / "model.safetensors")
    assert read_checkpoint(tmp_path).keys() == {"c"}


@pytest.mark.parametrize("ending", ["pth", "safetensors"])
def test_a_file_that_was_cut_short_is_named(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"c.{ending}"
    (torch.save if ending == "pth" else save_file)(WEIGHTS, path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UserError, match=rf"c\.{ending}: not a whole file"):
        read_checkpoint(path)


def test_content_that_is_no_weights_is_refused(tmp_path: Path) -> None:
    torch.save({"epoch": 3, "w": torch.ones(1)}, tmp_path / "mixed.pth")
    with pytest.raises(UserError, match="holds epoch where weights are expected"):
        read_checkpoint(tmp_path / "mixed.pth")
    torch.save({"w": torch.ones(1), "module.w": torch.zeros(1)}, tmp_path / "twice.pth")
    with pytest.raises(UserError, match="some weights twice"):
        read_checkpoint(tmp_path / "twice.pth")
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(UserError, match="holds a list"):
        read_checkpoint(tmp_path / "list.pth")
    with pytest.raises(UserError, match="holds none of"):
        read_checkpoint(tmp_path)
    with pytest.raises(UserError, match="no such file"):
        read_checkpoint(tmp_path / "nothing.pth")
