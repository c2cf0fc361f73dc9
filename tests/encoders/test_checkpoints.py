"""Encoders saved and loaded: folders, the authors' checkpoint, and names."""

import json
import runpy
import sys
from pathlib import Path

import huggingface_hub.constants
import numpy as np
import pytest
import torch

from polyptrace.core.errors import UserError
from polyptrace.encoders import (
    ColourGrid,
    FrameEncoder,
    FrozenBackbone,
    OwnEncoder,
    TrackletEncoder,
    from_pretrained,
    load_authors_checkpoint,
    load_encoder,
    save_encoder,
    weights_hash,
)


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


def test_the_card_says_how_it_was_trained_and_what_goes_in(tmp_path: Path) -> None:
    save_encoder(small("tracklet"), tmp_path / "e", trained="ours, 50 epochs")
    card = (tmp_path / "e" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: polyptrace")
    assert "ours, 50 epochs" in card
    assert "32 x 32 pixels" in card


def test_a_folder_that_is_no_encoder_is_refused(tmp_path: Path) -> None:
    for content in ('{"kind": "resnet"}', "[]"):
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(UserError, match=r"config\.json: not an encoder of polyptrace"):
            from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"polyptrace": 2}, "version 2, this release reads 1"),
        ({"encoder": {"width": "many"}}, "'encoder' does not describe an encoder"),
        ({"encoder": {"backbone": "resnett"}}, "'encoder': backbone: timm has no model 'resnett'"),
        ({"encoder": {"depth": 3}}, "'encoder' does not describe an encoder"),
        ({"encoder": []}, "'encoder' does not describe an encoder"),
    ],
)
def test_a_config_that_does_not_describe_an_encoder_is_refused(
    change: dict[str, object], message: str, tmp_path: Path
) -> None:
    save_encoder(small("tracklet"), tmp_path / "e")
    config = json.loads((tmp_path / "e" / "config.json").read_text())
    (tmp_path / "e" / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(UserError, match=rf"config\.json: {message}"):
        from_pretrained(tmp_path / "e")


def test_weights_that_do_not_fit_the_config_are_listed(tmp_path: Path) -> None:
    save_encoder(small("tracklet"), tmp_path / "e")
    config = json.loads((tmp_path / "e" / "config.json").read_text())
    config["encoder"]["layers"] = 4
    (tmp_path / "e" / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"missing: layers\.3"):
        from_pretrained(tmp_path / "e")


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
    with pytest.raises(UserError, match="contains no encoder"):
        load_encoder(tmp_path)


def test_a_name_that_is_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    for name in ("somebody/something", "no such thing at all"):
        with pytest.raises(UserError, match="not a folder, not the name of an encoder"):
            load_encoder(name)


def test_known_names_are_found() -> None:
    assert isinstance(load_encoder("colour-grid"), ColourGrid)
    frozen = load_encoder("frozen:test_resnet", "none", preprocess="release")
    assert isinstance(frozen, FrozenBackbone)
    assert frozen.preprocess.mean == (0.45, 0.45, 0.45)


@pytest.fixture
def checkpoint(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "hmve_tiny.ckpt"
    monkeypatch.setattr(sys, "argv", ["make_hmve_tiny.py", str(path)])
    runpy.run_path(str(shared / "oracles" / "make_hmve_tiny.py"), run_name="__main__")
    return path


@torch.no_grad()
def test_it_computes_what_the_release_computes(shared: Path, checkpoint: Path) -> None:
    encoder = load_authors_checkpoint(checkpoint)
    oracle = {k: torch.from_numpy(v) for k, v in np.load(shared / "oracles" / "hmve_tiny_io.npz").items()}
    tokens = encoder.tokens(oracle["clip"])
    torch.testing.assert_close(tokens, oracle["tokens"], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(encoder(oracle["clip"]), oracle["cls"], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(encoder.project(tokens), oracle["projected"], atol=1e-5, rtol=1e-5)
    exact = encoder.double().tokens(oracle["clip"].double())
    torch.testing.assert_close(exact, oracle["tokens_float64"], atol=1e-9, rtol=1e-9)


def test_load_encoder_recognises_the_file(checkpoint: Path) -> None:
    assert load_encoder(checkpoint).name == "authors"


def test_a_checkpoint_with_a_part_missing_is_refused_by_name(checkpoint: Path) -> None:
    content = torch.load(checkpoint, weights_only=True)
    del content["state_dict"]["mve.adapter.bias"]
    torch.save(content, checkpoint)
    with pytest.raises(UserError, match=r"adapter\.bias"):
        load_authors_checkpoint(checkpoint)


def test_norms_load_where_the_hyper_parameters_ask_for_them(checkpoint: Path) -> None:
    content = torch.load(checkpoint, weights_only=True)
    content["hyper_parameters"] |= {"use_feature_norm": True, "use_encoder_norm": True}
    for part in ("feature_norm", "encoder.norm"):
        content["state_dict"] |= {f"mve.{part}.weight": torch.full((32,), 3.0), f"mve.{part}.bias": torch.ones(32)}
    torch.save(content, checkpoint)
    encoder = load_authors_checkpoint(checkpoint)
    assert isinstance(encoder.feature_norm, torch.nn.LayerNorm)
    tokens = encoder.tokens(torch.randn(1, 2, 3, 64, 64))
    torch.testing.assert_close(tokens.mean(-1), torch.ones(1, 3), atol=1e-4, rtol=0)


def test_a_plain_file_of_weights_is_no_authors_checkpoint(tmp_path: Path) -> None:
    torch.save({"fc.weight": torch.zeros(1)}, tmp_path / "w.pth")
    with pytest.raises(UserError, match="hyper_parameters"):
        load_authors_checkpoint(tmp_path / "w.pth")


@pytest.mark.parametrize(
    "change", [{"hyper_parameters": {"n_heads": "x"}}, {"hyper_parameters": 3}, {"state_dict": []}]
)
def test_a_damaged_checkpoint_is_an_error_that_names_the_file(checkpoint: Path, change: dict[str, object]) -> None:
    content = torch.load(checkpoint, weights_only=True)
    if isinstance(change.get("hyper_parameters"), dict):
        change = {"hyper_parameters": {**content["hyper_parameters"], **change["hyper_parameters"]}}
    torch.save({**content, **change}, checkpoint)
    with pytest.raises(UserError, match=r"hmve_tiny\.ckpt: "):
        load_authors_checkpoint(checkpoint)
