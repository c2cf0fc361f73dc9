"""Running tracks: each frame through the backbone once, and after every frame the vector of the whole track."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from polyptrace.config import Embed
from polyptrace.core.errors import UserError
from polyptrace.embed import OnlineEncoder, online
from polyptrace.encoders import ColourGrid, FrameEncoder, TrackletEncoder, prepare_crops
from polyptrace.encoders.encoder import OwnEncoder
from polyptrace.encoders.foundation import load_foundation


def small() -> TrackletEncoder:
    torch.manual_seed(0)
    return TrackletEncoder("test_resnet", width=16, heads=2, feed_forward=16, layers=2, size=32).eval()


def some_crops(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 32, 32, 3), np.uint8)


@torch.no_grad()
def offline(encoder: nn.Module, crops: np.ndarray) -> np.ndarray:
    frames = prepare_crops(torch.from_numpy(crops)[None], encoder.preprocess)
    vector: Tensor = encoder(frames)[0]
    return vector.numpy()


@pytest.mark.parametrize(
    "make", [small, lambda: FrameEncoder("test_resnet", size=32).eval(), ColourGrid], ids=["ours", "sfe", "colours"]
)
def test_after_every_frame_the_vector_is_that_of_the_whole_track(make: Callable[[], OwnEncoder]) -> None:
    encoder, crops = make(), some_crops(19)
    track = OnlineEncoder(encoder).track()
    np.testing.assert_allclose(track.add(crops[:8]), offline(encoder, crops[:8]), atol=1e-5)
    for count in range(9, 18):
        np.testing.assert_allclose(track.add(crops[count - 1]), offline(encoder, crops[:count]), atol=1e-5)
    np.testing.assert_allclose(track.add(torch.from_numpy(crops[17:])), offline(encoder, crops), atol=1e-5)
    assert len(track) == 19


def test_a_frame_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ready, seen = OnlineEncoder(small()), []
    features = ready._encoder.frame_features
    monkeypatch.setattr(ready._encoder, "frame_features", lambda frames: seen.append(len(frames)) or features(frames))
    track = ready.track()
    for crops in (some_crops(8), some_crops(1), some_crops(11)):
        track.add(crops)
    assert seen == [8, 1, 8, 1, 1, 1]


def test_tracks_that_run_at_once_do_not_mix() -> None:
    encoder, one, other = small(), some_crops(5, 1), some_crops(5, 2)
    ready = OnlineEncoder(encoder)
    first, second = ready.track(), ready.track()
    for a, b in zip(one, other, strict=True):
        vector, another = first.add(a), second.add(b)
    np.testing.assert_allclose(vector, offline(encoder, one), atol=1e-5)
    np.testing.assert_allclose(another, offline(encoder, other), atol=1e-5)


def test_a_short_track_sees_nothing_of_a_longer_one_before_it() -> None:
    encoder, short = small(), some_crops(9, 2)
    ready = OnlineEncoder(encoder)
    ready.track().add(some_crops(16, 1))
    np.testing.assert_allclose(ready.track().add(short), offline(encoder, short), atol=1e-5)


@pytest.mark.parametrize("on_gpu", [True, False])
def test_weights_rounded_once_give_the_bytes_of_weights_rounded_at_every_call(
    on_gpu: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if on_gpu:  # where torch's layers do not take their fused way under autocast
        monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: True)
    once = OnlineEncoder(small(), Embed(precision="bf16")).track().add(some_crops(19))
    monkeypatch.setattr(online, "_round_weights", lambda _: None)
    assert OnlineEncoder(small(), Embed(precision="bf16")).track().add(some_crops(19)).tobytes() == once.tobytes()


def test_of_a_very_long_track_the_last_frames_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(online, "LENGTHS", (8, 16))
    encoder, crops = small(), some_crops(21)
    track = OnlineEncoder(encoder).track()
    np.testing.assert_allclose(track.add(crops), offline(encoder, crops[5:]), atol=1e-5)


def test_larger_crops_are_made_smaller_as_offline() -> None:
    encoder = small()
    crops = np.random.default_rng(0).integers(0, 256, (3, 48, 48, 3), np.uint8)
    vector = OnlineEncoder(encoder, crop_size=48).track().add(crops)
    np.testing.assert_allclose(vector, offline(encoder, crops), atol=1e-5)


def test_the_encoder_that_was_given_stays_as_it_was() -> None:
    encoder = small()
    before = [parameter.dtype for parameter in encoder.parameters()]
    vector = OnlineEncoder(encoder, Embed(precision="bf16")).track().add(some_crops(8))
    assert [parameter.dtype for parameter in encoder.parameters()] == before
    assert vector.dtype == np.float32
    exact = offline(encoder, some_crops(8))
    assert vector @ exact / np.linalg.norm(vector) / np.linalg.norm(exact) > 0.999


def test_what_does_not_fit_is_refused() -> None:
    track = OnlineEncoder(small()).track()
    for wrong in (
        np.zeros((32, 32, 3), np.float32),
        np.zeros((16, 16, 3), np.uint8),
        np.zeros((0, 32, 32, 3), np.uint8),
    ):
        with pytest.raises(ValueError, match=r"give uint8 \(32, 32, 3\)"):
            track.add(wrong)
    with torch.device("meta"), pytest.raises(UserError, match="takes clips"):
        OnlineEncoder(load_foundation("endofm", None))
