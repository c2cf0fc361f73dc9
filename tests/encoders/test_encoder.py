"""The tracklet encoder (parts, padding, order of frames, parameters), the frame encoder and the colour grid."""

import subprocess
import sys
from pathlib import Path

import huggingface_hub.constants
import pytest
import timm
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from polyptrace.core.errors import UserError
from polyptrace.encoders import ColourGrid, FrameEncoder, FrozenBackbone, TrackletEncoder, load_encoder, prepare_crops
from polyptrace.encoders.encoder import create_backbone, feature_width, most_labels


@pytest.fixture
def encoder() -> TrackletEncoder:
    torch.manual_seed(0)
    return TrackletEncoder("test_resnet", width=32, heads=4, feed_forward=48, layers=2, projection=8, size=32).eval()


@pytest.fixture
def frames() -> Tensor:
    return torch.randn(3, 6, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def test_timm_and_transformers_are_loaded_when_they_are_needed() -> None:
    code = "import sys, polyptrace.encoders, polyptrace.evaluate; print({'timm', 'transformers'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@torch.no_grad()
def test_a_padded_batch_gives_the_vectors_of_the_tracklets_alone(encoder: TrackletEncoder, frames: Tensor) -> None:
    lengths = (2, 6, 3)
    mask = torch.arange(6) < torch.tensor(lengths)[:, None]
    frames[~mask] = torch.nan  # the values of masked frames must not matter
    padded, tokens = encoder(frames, mask), encoder.tokens(frames, mask)
    for i, length in enumerate(lengths):
        alone = encoder.tokens(frames[i : i + 1, :length])
        torch.testing.assert_close(padded[i], alone[0, 0], atol=1e-5, rtol=0)
        torch.testing.assert_close(tokens[i, : 1 + length], alone[0], atol=1e-5, rtol=0)
        assert (tokens[i, 1 + length :] == 0).all()


def test_padding_never_goes_through_the_backbone(encoder: TrackletEncoder, frames: Tensor) -> None:
    seen: list[int] = []
    encoder.backbone.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    mask = torch.tensor([[1, 1, 0, 0, 0, 0], [0] * 6, [1, 0, 1, 0, 0, 1]], dtype=torch.bool)
    encoder(frames, mask)
    assert seen == [5]


@torch.no_grad()
def test_the_tracklet_encoder_computes_what_the_design_writes_out(encoder: TrackletEncoder, frames: Tensor) -> None:
    stack = nn.TransformerEncoder(encoder.layers[0], 2, enable_nested_tensor=False).eval()
    stack.layers = encoder.layers
    features = encoder.backbone(frames.reshape(18, 3, 32, 32)).reshape(3, 6, -1)
    linear = features @ encoder.adapter.weight.T + encoder.adapter.bias
    expected = stack(torch.cat([encoder.token.repeat(3, 1, 1), linear], 1))
    torch.testing.assert_close(encoder.tokens(frames), expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(encoder(frames), expected[:, 0], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_the_vector_does_not_depend_on_the_order_of_frames(encoder: TrackletEncoder, frames: Tensor) -> None:
    torch.testing.assert_close(encoder(frames), encoder(frames.flip(1)), atol=1e-5, rtol=0)


@torch.no_grad()
def test_features_then_aggregation_is_the_whole_encoder(encoder: TrackletEncoder, frames: Tensor) -> None:
    mask = torch.rand(3, 6, generator=torch.Generator().manual_seed(2)) < 0.6
    features = encoder.frame_features(frames.flatten(0, 1)).reshape(3, 6, -1)
    torch.testing.assert_close(encoder.aggregate(features, mask), encoder(frames, mask), atol=1e-5, rtol=0)


def test_the_projector_sees_every_token_and_every_weight_gets_a_gradient(
    encoder: TrackletEncoder, frames: Tensor
) -> None:
    projected = encoder.projector(encoder.tokens(frames))
    assert projected.shape == (3, 7, 8)
    projected[:, 0].pow(2).sum().backward()
    assert all(p.grad is not None for p in encoder.parameters())
    after = [p for name, p in encoder.named_parameters() if not name.startswith("backbone.")]
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in after)


def test_transformer_layers_start_from_different_weights(encoder: TrackletEncoder) -> None:
    first, second = (layer.linear1.weight for layer in encoder.layers)
    assert not torch.equal(first, second)


def test_a_width_that_the_heads_cannot_share_is_an_error() -> None:
    with pytest.raises(UserError, match=r"--encoder.heads 7: 32 .* not a multiple of it -> change one"):
        TrackletEncoder("test_resnet", width=32, heads=7)


def test_the_paper_s_encoder_has_the_parameters_that_the_release_has() -> None:
    encoder = TrackletEncoder()
    projector = sum(p.numel() for p in encoder.projector.parameters())
    total = sum(p.numel() for p in encoder.parameters())
    assert round(total / 1e6, 2) == 26.50
    assert round((total - projector) / 1e6, 2) == 26.40


@torch.no_grad()
def test_the_vector_of_the_frame_encoder_is_the_mean_of_the_head_over_real_frames() -> None:
    torch.manual_seed(0)
    encoder = FrameEncoder("test_resnet", projection=8, size=32).eval()
    frames = torch.randn(2, 4, 3, 32, 32)
    mask = torch.tensor([[True, True, False, True], [True, True, True, True]])
    frames[0, 2] = torch.nan
    real = encoder.head(encoder.backbone(frames[0, [0, 1, 3]])).mean(0)
    vectors = encoder(frames, mask)
    torch.testing.assert_close(vectors[0], real, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(vectors[1:], encoder(frames[1:]), atol=1e-6, rtol=1e-5)
    assert encoder.tokens(frames, mask).shape == (2, 5, 8)
    assert encoder.projector(vectors) is vectors


def test_the_frame_encoder_has_the_parameters_of_the_table() -> None:
    assert round(sum(p.numel() for p in FrameEncoder().parameters()) / 1e6, 1) == 28.0


def test_each_number_of_the_colour_grid_is_the_mean_colour_of_its_cell_over_the_real_frames():
    frames = torch.rand(2, 3, 3, 32, 32)
    mask = torch.tensor([[True, True, True], [True, True, False]])
    actual = ColourGrid()(frames, mask).view(2, 3, 8, 8)
    for number, real in ((0, 3), (1, 2)):
        for colour, row, column in ((0, 0, 0), (1, 3, 7), (2, 7, 4)):
            cell = frames[number, :real, colour, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4]
            torch.testing.assert_close(actual[number, colour, row, column], cell.mean())


def test_padding_that_is_not_a_number_does_not_reach_the_colour_grid():
    frames = torch.rand(1, 2, 3, 32, 32)
    frames[0, 1] = float("nan")
    assert torch.isfinite(ColourGrid()(frames, torch.tensor([[True, False]]))).all()


def test_without_a_mask_every_frame_is_in_the_colour_grid():
    frames = torch.rand(2, 3, 3, 40, 40)
    torch.testing.assert_close(ColourGrid()(frames), ColourGrid()(frames, torch.ones(2, 3, dtype=torch.bool)))


def test_the_colour_grid_is_loaded_by_name_and_describes_its_input():
    encoder = load_encoder("colour-grid")
    assert isinstance(encoder, ColourGrid)
    assert encoder.width == 192
    assert encoder.preprocess.size == 32


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
        with pytest.raises(UserError, match=r"no model '' -> give one of timm.list_models\(\)"):
            make("")


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
    with pytest.raises(UserError, match=rf"48 pixels, but the encoder takes {fixed.preprocess.size}"):
        prepare_crops(crops, fixed.preprocess)


def test_the_normalisation_can_be_chosen() -> None:
    inception, imagenet = (FrozenBackbone("test_vit", "none", p).preprocess for p in ("own", "imagenet"))
    assert inception.mean == (0.5, 0.5, 0.5)
    assert imagenet.mean == (0.485, 0.456, 0.406)
    with pytest.raises(UserError, match="give own, imagenet or release"):
        FrozenBackbone("test_vit", "none", "theirs")


@pytest.mark.parametrize(
    ("uses", "most"),
    [
        (("label-free", "label-free given tracks"), "label-free given tracks"),
        (("labels", "label-free"), "labels"),
        (("label-free", ""), ""),
        (("", "labels"), "labels"),
    ],
)
def test_an_encoder_used_the_labels_of_all_its_trainings(uses: tuple[str, ...], most: str) -> None:
    assert most_labels(*uses) == most
