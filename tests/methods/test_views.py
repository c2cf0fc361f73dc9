"""SFE's augmentation: each frame on its own, within its bounds."""

import torch

from polyptrace.methods.views import augment, jitter, transform


def test_every_frame_is_changed_in_its_own_way_and_stays_a_picture() -> None:
    torch.manual_seed(0)
    frame = 255 * torch.rand(1, 3, 24, 24)
    many = augment(frame.expand(8, -1, -1, -1))
    assert many.shape == (8, 3, 24, 24)
    assert many.min() >= 0
    assert many.max() <= 255
    assert all(not torch.allclose(many[0], other) for other in many[1:])


def test_moving_keeps_colours_and_flips_half_of_the_frames_each_way() -> None:
    torch.manual_seed(0)
    frame = torch.zeros(1, 1, 33, 33)
    frame[..., 8, 20] = 1e3  # a bright dot, above and right of the centre
    dots = transform(frame.expand(400, -1, -1, -1)).flatten(1)
    index = dots.argmax(1)
    below, left = (index // 33) > 16, (index % 33) < 16
    assert 0.4 < below.float().mean() < 0.6
    assert 0.3 < left.float().mean() < 0.7


def test_grey_frames_keep_being_grey_and_change_in_brightness_by_a_fifth_at_most() -> None:
    torch.manual_seed(0)
    grey = jitter(torch.full((200, 3, 4, 4), 100.0))
    assert (grey - grey.mean(1, keepdim=True)).abs().max() < 0.5
    assert 79.5 < grey.min() < 85
    assert 115 < grey.max() < 120.5
