"""What embeddings say about the cost of their encoder."""

import torch
from torch import nn

from polyptrace.embed.costs import cost_columns
from polyptrace.encoders import ColourGrid, FrameEncoder, TrackletEncoder
from polyptrace.encoders.foundation import load_foundation


def test_parameters_are_those_that_give_the_vector() -> None:
    encoder = TrackletEncoder("test_resnet", width=16, heads=2, feed_forward=16, layers=1, size=32).eval()
    told = cost_columns(encoder)
    encoder.zero_grad()
    encoder(torch.rand(1, 8, 3, 32, 32)).sum().backward()
    used = sum(p.numel() for p in encoder.parameters() if p.grad is not None)
    assert told["params"] == used
    assert used < sum(p.numel() for p in encoder.parameters())


def test_twice_the_side_is_about_four_times_the_work() -> None:
    small, large = (cost_columns(FrameEncoder("test_resnet", size=size))["flops"] for size in (64, 128))
    for count in ("paper_macs", "flops"):
        assert 3 < large[count] / small[count] <= 4.1


def test_a_foundation_model_is_counted_and_another_module_is_not() -> None:
    told = cost_columns(load_foundation("dinov2-small", None))
    assert 21e6 < told["params"] < 23e6
    assert cost_columns(ColourGrid()) == cost_columns(nn.Identity()) == {}
