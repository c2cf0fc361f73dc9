"""The tracklet encoder (parts, padding, order of frames, parameters), the frame encoder and the colour grid."""

import pytest
import torch
from torch import Tensor, nn

from polyptrace.encoders import ColourGrid, FrameEncoder, TrackletEncoder, load_encoder


@pytest.fixture
def encoder() -> TrackletEncoder:
    torch.manual_seed(0)
    return TrackletEncoder("test_resnet", width=32, heads=4, feed_forward=48, layers=2, projection=8, size=32).eval()


@pytest.fixture
def frames() -> Tensor:
    return torch.randn(3, 6, 3, 32, 32, generator=torch.Generator().manual_seed(1))


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
    projected = encoder.project(encoder.tokens(frames))
    assert projected.shape == (3, 7, 8)
    projected[:, 0].pow(2).sum().backward()
    assert all(p.grad is not None for p in encoder.parameters())
    after = [p for name, p in encoder.named_parameters() if not name.startswith("backbone.")]
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in after)


def test_transformer_layers_start_from_different_weights(encoder: TrackletEncoder) -> None:
    first, second = (layer.linear1.weight for layer in encoder.layers)
    assert not torch.equal(first, second)


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
    assert encoder.project(vectors) is vectors


def test_the_frame_encoder_has_the_parameters_of_the_table() -> None:
    assert round(sum(p.numel() for p in FrameEncoder().parameters()) / 1e6, 1) == 28.0


def test_each_number_of_the_colour_grid_is_the_mean_colour_of_its_cell_over_the_real_frames():
    frames = torch.rand(2, 3, 3, 32, 32)
    mask = torch.tensor([[True, True, True], [True, True, False]])
    found = ColourGrid()(frames, mask).view(2, 3, 8, 8)
    for number, real in ((0, 3), (1, 2)):
        for colour, row, column in ((0, 0, 0), (1, 3, 7), (2, 7, 4)):
            cell = frames[number, :real, colour, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4]
            torch.testing.assert_close(found[number, colour, row, column], cell.mean())


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
