"""What all twelve promise: any number of frames, padding that is never seen, vectors in float32."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from polyptrace.encoders.foundation import FOUNDATION_MODELS, load_foundation
from polyptrace.encoders.foundation import foundation_encoder as module
from polyptrace.encoders.foundation.foundation_encoder import Architecture, clip_starts

NAMES = list(FOUNDATION_MODELS)
VIDEO = ("vjepa2", "endofm", "endofm-lv")


@pytest.mark.parametrize("name", NAMES)
def test_padding_is_never_seen_and_each_tracklet_is_as_if_alone(
    name: str, small: dict[str, Architecture], frames: Callable
) -> None:
    encoder = load_foundation(name, "none")
    lengths = (3, 11, 1, 8)
    pictures = frames(4, 11, encoder.preprocess.size)
    mask = torch.arange(11) < torch.tensor(lengths)[:, None]
    actual = encoder(pictures.masked_fill(~mask[..., None, None, None], torch.nan), mask)
    assert actual.shape == (4, encoder.width) == (4, small[name].width)
    alone = torch.cat([encoder(pictures[i : i + 1, :length]) for i, length in enumerate(lengths)])
    torch.testing.assert_close(actual, alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in VIDEO])
def test_a_model_of_pictures_sees_each_real_frame_once(
    name: str, small: dict[str, Architecture], frames: Callable
) -> None:
    assert name in small
    encoder, seen = load_foundation(name, None), []
    encoder.backbone.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    mask = torch.tensor([[True, False, True, True], [False, True, False, False]])
    encoder(frames(2, 4, encoder.preprocess.size), mask)
    assert sum(seen) == 4


@pytest.mark.parametrize("name", [n for n in NAMES if n not in VIDEO])
def test_frames_embedded_before_are_joined_to_the_same_vector(
    name: str, small: dict[str, Architecture], frames: Callable
) -> None:
    assert name in small
    encoder, pictures = load_foundation(name, None), frames(2, 4, FOUNDATION_MODELS[name].preprocess.size)
    mask = torch.tensor([[True, False, True, True], [False, True, False, False]])
    features = encoder.frame_features(pictures.flatten(0, 1)).reshape(2, 4, -1)
    torch.testing.assert_close(encoder.aggregate(features, mask), encoder(pictures, mask), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", VIDEO)
def test_a_model_of_clips_averages_over_the_clips_of_a_long_track(
    name: str, small: dict[str, Architecture], frames: Callable
) -> None:
    encoder, clip_length = load_foundation(name, None), small[name].clip_length
    assert clip_length is not None
    pictures = frames(1, 2 * clip_length + 3, 32)
    starts = clip_starts(pictures.shape[1], clip_length)
    assert len(starts) == 3
    alone = torch.cat([encoder(pictures[:, start : start + clip_length]) for start in starts])
    torch.testing.assert_close(encoder(pictures), alone.mean(0, keepdim=True), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["dinov2-small", "endofm"])
def test_memory_does_not_grow_with_the_track(
    name: str, small: dict[str, Architecture], frames: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert name in small
    encoder, seen = load_foundation(name, None), []
    pictures = frames(1, 50, encoder.preprocess.size)
    expected = encoder(pictures)
    encoder.backbone.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].flatten(0, -4).shape[0]))
    monkeypatch.setattr(module, "FRAMES_AT_ONCE", 8)
    torch.testing.assert_close(encoder(pictures), expected, atol=1e-5, rtol=1e-5)
    assert max(seen) <= 8


@pytest.mark.parametrize("name", [n for n in NAMES if n != "surgenet"])
def test_at_a_side_that_is_no_multiple_of_the_patch_the_last_rows_and_columns_are_not_seen(
    name: str, small: dict[str, Architecture], frames: Callable
) -> None:
    assert name in small
    exact = load_foundation(name, None)
    side = exact.preprocess.size
    larger = load_foundation(name, None, preprocess=replace(exact.preprocess, size=side + 8))  # as 232 is to 224
    pictures = frames(2, 4, side + 8)
    torch.testing.assert_close(larger(pictures), exact(pictures[..., :side, :side]), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_half_weights_and_autocast_give_about_the_same_vectors_in_float32(
    name: str, small: dict[str, Architecture], frames: Callable
) -> None:
    assert name in small
    encoder = load_foundation(name, None)
    pictures = frames(2, 4, encoder.preprocess.size)
    exact = encoder(pictures)
    with torch.autocast("cpu", torch.bfloat16):
        automatic = encoder(pictures)
    half = encoder.bfloat16()(pictures)
    for actual in (automatic, half):
        assert actual.dtype == torch.float32
        assert nn.functional.cosine_similarity(actual, exact).min() > 0.99


def test_a_compiled_encoder_gives_the_same_vectors(small: dict[str, Architecture], frames: Callable) -> None:
    assert "endovit" in small
    encoder = load_foundation("endovit", None)
    pictures, mask = frames(2, 4, 32), torch.tensor([[True] * 4, [True, True, False, False]])
    expected = encoder(pictures, mask)
    encoder.compile(backend="eager")
    torch.testing.assert_close(encoder(pictures, mask), expected, atol=1e-5, rtol=1e-5)


def test_weights_are_frozen_and_random_ones_are_always_the_same(
    small: dict[str, Architecture], frames: Callable
) -> None:
    assert "endovit" in small
    before = torch.random.get_rng_state()
    first, again = (load_foundation("endovit", None) for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not any(parameter.requires_grad for parameter in first.parameters())
    pictures: Tensor = frames(1, 2, 32)
    assert torch.equal(first(pictures), again(pictures))


def test_frames_of_another_side_and_tracklets_without_frames_are_refused(
    small: dict[str, Architecture], frames: Callable
) -> None:
    assert "vjepa2" in small
    encoder = load_foundation("vjepa2", None)
    with pytest.raises(ValueError, match="vjepa2 takes frames of 32 pixels"):
        encoder(frames(1, 2, 48))
    with pytest.raises(ValueError, match="without a valid frame"):
        encoder(frames(2, 2, 32), torch.tensor([[True, True], [False, False]]))
