"""Backbones: shapes, weights, and a frozen one as an encoder."""

from pathlib import Path

import huggingface_hub.constants
import pytest
import timm
import torch
from safetensors.torch import save_file

from polyptrace.core.errors import UserError
from polyptrace.encoders import FrozenBackbone, load_encoder, prepare_crops
from polyptrace.encoders.backbones import create_backbone, feature_width


def test_a_backbone_gives_one_vector_of_its_stated_width_per_frame() -> None:
    for name in ("test_resnet", "test_vit", "mobilenetv3_small_050"):
        backbone = create_backbone(name, size=64).eval()
        with torch.no_grad():
            assert backbone(torch.zeros(2, 3, 64, 64)).shape == (2, feature_width(backbone))


@pytest.mark.parametrize(("make", "option"), [(create_backbone, "--encoder.weights"), (FrozenBackbone, "--weights")])
def test_without_a_network_the_error_says_what_to_do(make, option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=rf"{option} imagenet: resnet50\.tv2_in1k.*{option} none"):
        make("resnet50", "imagenet")


def test_an_unknown_model_gets_the_nearest_names() -> None:
    for make in (create_backbone, FrozenBackbone):
        with pytest.raises(UserError, match="resnet50"):
            make("resnett50")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere\.pth: no such weights file"):
        create_backbone("test_resnet", str(tmp_path / "nowhere.pth"))


@torch.no_grad()
@pytest.mark.parametrize("name", ["test_resnet", "test_vit", "mobilenetv3_small_050"])
def test_the_vector_of_a_frozen_backbone_is_the_mean_of_its_frame_features(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    reference = timm.create_model(name, num_classes=10).eval()
    save_file(reference.state_dict(), tmp_path / "weights")
    encoder = load_encoder(f"frozen:{name}", tmp_path / "weights")
    size, mean, std = encoder.preprocess.size, reference.pretrained_cfg["mean"], reference.pretrained_cfg["std"]
    crops = torch.randint(0, 256, (2, 3, size, size, 3), dtype=torch.uint8)
    mask = torch.tensor([[True, True, True], [True, False, True]])
    pixels = crops.permute(0, 1, 4, 2, 3) / 255
    frames = (pixels - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
    vectors = encoder(crops, mask)
    assert vectors.shape == (2, encoder.width)
    for vector, some, valid in zip(vectors, frames, mask, strict=True):
        features = reference.forward_head(reference.forward_features(some[valid]), pre_logits=True)
        torch.testing.assert_close(vector, features.mean(0), atol=1e-4, rtol=1e-4)


def test_a_frozen_backbone_has_no_gradients_and_stays_in_evaluation_mode() -> None:
    encoder = FrozenBackbone("test_resnet", "none").train()
    assert not any(parameter.requires_grad for parameter in encoder.parameters())
    assert not any(module.training for module in encoder.backbone.modules())


def test_smaller_crops_keep_their_size_unless_the_backbone_has_a_fixed_one() -> None:
    crops = torch.zeros(1, 2, 48, 48, 3, dtype=torch.uint8)
    flexible, fixed = FrozenBackbone("test_resnet", "none"), FrozenBackbone("test_vit", "none")
    assert prepare_crops(crops, flexible.preprocess).shape[-2:] == (48, 48)
    with pytest.raises(UserError, match=rf"stored at 48 pixels, but the encoder takes {fixed.preprocess.size}"):
        prepare_crops(crops, fixed.preprocess)


def test_the_normalisation_can_be_chosen() -> None:
    inception, imagenet = (FrozenBackbone("test_vit", "none", p).preprocess for p in ("own", "imagenet"))
    assert inception.mean == (0.5, 0.5, 0.5)
    assert imagenet.mean == (0.485, 0.456, 0.406)
    with pytest.raises(UserError, match="give own, imagenet or release"):
        FrozenBackbone("test_vit", "none", "theirs")
