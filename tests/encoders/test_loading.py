"""Encoders found by whatever a user calls them."""

from pathlib import Path

import huggingface_hub.constants
import pytest

from polyptrace.core.errors import UserError
from polyptrace.encoders import TrackletEncoder, load_encoder, save_encoder


def test_a_run_and_its_encoder_folder_are_both_found(tmp_path: Path) -> None:
    encoder = TrackletEncoder("test_resnet", width=16, heads=2, feed_forward=16, layers=1, size=32, name="ours")
    save_encoder(encoder, tmp_path / "run" / "encoder")
    for path in (tmp_path / "run", tmp_path / "run" / "encoder"):
        assert load_encoder(path).name == "ours"


def test_an_unfinished_run_says_so(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(UserError, match="has not finished"):
        load_encoder(tmp_path)


def test_a_folder_without_an_encoder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no encoder"):
        load_encoder(tmp_path)


def test_a_name_that_is_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    for name in ("somebody/something", "no such thing at all"):
        with pytest.raises(UserError, match="neither a folder nor"):
            load_encoder(name)
