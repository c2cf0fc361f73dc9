"""Backbones: shapes, and weights from files in several layouts."""

import pickle
from pathlib import Path

import huggingface_hub.constants
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torchvision.models import resnet18

from polyptrace.core.errors import UserError
from polyptrace.encoders.backbone import create_backbone, feature_width, load_weights


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in b)


@pytest.fixture(scope="module")
def torchvision_weights() -> dict[str, Tensor]:
    return resnet18(weights=None).state_dict()


def test_a_backbone_gives_one_vector_of_its_stated_width_per_frame() -> None:
    for name in ("test_resnet", "test_vit", "mobilenetv3_small_050"):
        backbone = create_backbone(name, size=64).eval()
        with torch.no_grad():
            assert backbone(torch.zeros(2, 3, 64, 64)).shape == (2, feature_width(backbone))


def test_torchvision_weights_load_from_torch_and_safetensors_without_the_classifier(
    torchvision_weights: dict[str, Tensor], tmp_path: Path
) -> None:
    torch.save({"state_dict": torchvision_weights}, tmp_path / "w.pth")
    save_file({f"module.{k}": v for k, v in torchvision_weights.items()}, tmp_path / "w.safetensors")
    for file in ("w.pth", "w.safetensors"):
        backbone = create_backbone("resnet18", str(tmp_path / file))
        assert same(torchvision_weights, backbone.state_dict())


def test_weights_of_another_network_are_refused_with_the_keys_that_are_wrong(
    torchvision_weights: dict[str, Tensor], tmp_path: Path
) -> None:
    wrong = dict(torchvision_weights)
    wrong["layer5.weight"] = wrong.pop("layer4.1.conv2.weight")
    wrong["bn1.weight"] = torch.ones(3)
    torch.save(wrong, tmp_path / "w.pth")
    with pytest.raises(UserError, match=r"layer4\.1\.conv2\.weight.*layer5\.weight.*bn1\.weight is \(3,\)"):
        create_backbone("resnet18", str(tmp_path / "w.pth"))


def test_a_file_with_code_in_it_is_refused_and_the_code_is_not_run(tmp_path: Path) -> None:
    class Touch:
        def __reduce__(self) -> tuple[object, tuple[Path]]:
            return Path.touch, (tmp_path / "ran",)

    (tmp_path / "w.pth").write_bytes(pickle.dumps({"a": Touch()}))
    with pytest.raises(UserError, match="plain tensors"):
        load_weights(create_backbone("test_resnet"), tmp_path / "w.pth")
    assert not (tmp_path / "ran").exists()


def test_without_a_network_the_error_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=r"resnet50\.tv2_in1k.*--encoder\.weights none"):
        create_backbone("resnet50", "imagenet")


def test_an_unknown_model_gets_the_nearest_names() -> None:
    with pytest.raises(UserError, match="resnet50"):
        create_backbone("resnett50")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere\.pth: no such file"):
        create_backbone("test_resnet", str(tmp_path / "nowhere.pth"))
