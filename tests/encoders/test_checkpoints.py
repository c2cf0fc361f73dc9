"""Encoders saved and loaded again."""

import json
from pathlib import Path

import pytest
import torch

from polyptrace.core.errors import UserError
from polyptrace.encoders import FrameEncoder, OwnEncoder, TrackletEncoder, from_pretrained, save_encoder, weights_hash


def small(kind: str) -> OwnEncoder:
    if kind == "frame":
        return FrameEncoder("test_resnet", size=32, name="sfe")
    return TrackletEncoder("test_resnet", width=32, heads=4, feed_forward=48, output_norm=True, size=32)


@pytest.mark.parametrize("kind", ["tracklet", "frame"])
def test_a_saved_encoder_gives_the_same_vectors_when_loaded(kind: str, tmp_path: Path) -> None:
    encoder = small(kind).eval()
    save_encoder(encoder, tmp_path / "e", trained="by nobody")
    loaded = from_pretrained(tmp_path / "e")
    frames = torch.randn(2, 3, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(loaded(frames), encoder(frames), atol=0, rtol=0)
    assert (loaded.name, loaded.width, loaded.preprocess) == (encoder.name, encoder.width, encoder.preprocess)
    assert weights_hash(loaded) == weights_hash(encoder)
    assert not loaded.training


def test_the_hash_follows_the_weights() -> None:
    encoder = small("tracklet")
    before = weights_hash(encoder)
    with torch.no_grad():
        encoder.token[0, 0, 0] += 1
    assert weights_hash(encoder) != before


def test_the_card_says_how_it_was_trained_and_what_goes_in(tmp_path: Path) -> None:
    save_encoder(small("tracklet"), tmp_path / "e", trained="ours, 50 epochs")
    card = (tmp_path / "e" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: polyptrace")
    assert "ours, 50 epochs" in card
    assert "32 x 32 pixels" in card


def test_a_folder_that_is_no_encoder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"kind": "resnet"}))
    with pytest.raises(UserError, match=r"config\.json: not an encoder of polyptrace"):
        from_pretrained(tmp_path)


def test_weights_that_do_not_fit_the_config_are_listed(tmp_path: Path) -> None:
    save_encoder(small("tracklet"), tmp_path / "e")
    config = json.loads((tmp_path / "e" / "config.json").read_text())
    config["encoder"]["layers"] = 4
    (tmp_path / "e" / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"missing: layers\.3"):
        from_pretrained(tmp_path / "e")
