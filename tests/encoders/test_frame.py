"""The single-frame encoder: a tracklet's vector is the mean over its frames."""

import torch

from polyptrace.encoders import FrameEncoder


@torch.no_grad()
def test_the_vector_is_the_mean_of_the_head_over_real_frames() -> None:
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


def test_the_published_encoder_has_the_parameters_of_the_table() -> None:
    assert round(sum(p.numel() for p in FrameEncoder().parameters()) / 1e6, 1) == 28.0
