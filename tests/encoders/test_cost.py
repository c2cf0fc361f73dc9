"""Counts against arithmetic by hand, and our own encoder's row of the paper's table."""

import pytest
import torch
from torch import nn

from polyptrace.encoders import ColourGrid, FrameEncoder, FrozenBackbone, TrackletEncoder
from polyptrace.encoders.cost import cost, encoder_cost
from polyptrace.encoders.foundation import load_foundation


def test_layers_are_counted_as_by_hand() -> None:
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, groups=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16, 5)
    ).eval()
    pictures = torch.randn(2, 3, 4, 4)
    counted = cost(network, lambda: network(pictures))
    convolution, linear = 2 * 8 * 16 * 27, 2 * 5 * 128
    assert counted.params == (27 * 8 + 8) + 16 + (128 * 5 + 5)
    assert counted.paper_macs == convolution + linear + 4 * (2 * 8 * 16)
    assert counted.flops == 2 * (convolution + linear)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_attention_counts_in_true_flops_alone(device: str) -> None:
    length, width = 9, 16
    layer = nn.TransformerEncoderLayer(width, 4, 32, batch_first=True, device=device).eval()
    tokens = torch.empty(1, length, width, device=device)
    counted = cost(layer, lambda: layer(tokens))
    projections, products, feed_forward = 4 * length * width**2, 2 * length**2 * width, 2 * length * width * 32
    assert counted.flops == 2 * (projections + products + feed_forward)
    assert counted.paper_macs == feed_forward + 4 * 2 * length * width


def test_the_count_leaves_no_hooks_and_no_switch_behind() -> None:
    layer = nn.Linear(2, 3)
    before = torch.backends.mha.get_fastpath_enabled()
    cost(layer, lambda: layer(torch.ones(1, 2)))
    assert not layer._forward_hooks
    assert torch.backends.mha.get_fastpath_enabled() == before


def test_our_encoder_costs_what_the_table_says() -> None:
    with torch.device("meta"):
        encoder, frames = TrackletEncoder("resnet50").eval(), torch.empty(1, 8, 3, 224, 224)
    counted = cost(encoder, lambda: encoder(frames))
    assert round(counted.params / 1e6, 2) == 26.50  # 26.40 without the projector; the paper's 25.6 is not explained
    assert f"{counted.paper_macs / 1e9:.1f}" == "33.1"
    assert f"{counted.flops / 1e9:.1f}" == "65.4"


def test_parameters_are_those_that_contribute_to_the_vector() -> None:
    encoder = TrackletEncoder("test_resnet", width=16, heads=2, feed_forward=16, layers=1, size=32).eval()
    counted = encoder_cost(encoder, 32)
    encoder.zero_grad()
    encoder(torch.randn(1, 8, 3, 32, 32)).sum().backward()
    used = sum(p.numel() for p in encoder.parameters() if p.grad is not None)
    assert counted is not None
    assert counted.params == used
    assert used < sum(p.numel() for p in encoder.parameters())


def test_twice_the_side_is_about_four_times_the_work() -> None:
    small, large = (encoder_cost(FrameEncoder("test_resnet", size=size), size) for size in (64, 128))
    assert small is not None
    assert large is not None
    assert 3 < large.flops / small.flops <= 4.1
    assert 3 < large.paper_macs / small.paper_macs <= 4.1


def test_frozen_encoders_are_counted_and_other_modules_are_not() -> None:
    counted = encoder_cost(load_foundation("dinov2-small", None), 224)
    assert counted is not None
    assert 21e6 < counted.params < 23e6
    frozen = FrozenBackbone("test_resnet", "none")
    counted = encoder_cost(frozen, 224)
    assert counted is not None
    assert counted.params == sum(p.numel() for p in frozen.parameters())
    assert counted.flops > 0
    assert encoder_cost(ColourGrid(), 8) is encoder_cost(nn.Identity(), 8) is None
