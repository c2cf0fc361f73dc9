"""Encoders saved and loaded: folders, the authors' checkpoint, and names."""

import runpy
import sys
import warnings
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import load, save_file

from polyptrace.core.errors import PolyptraceWarning, UserError
from polyptrace.core.files import read_json, write_json
from polyptrace.encoders import (
    ColourGrid,
    FrameEncoder,
    FrozenBackbone,
    TrackletEncoder,
    load_encoder,
    save_encoder,
    weights,
)
from polyptrace.encoders.encoder import OwnEncoder, TrainingRecord, create_backbone
from polyptrace.encoders.encoder_folder import load_authors_checkpoint, training_record
from polyptrace.encoders.weights import fingerprint


def small(kind: str) -> OwnEncoder:
    if kind == "frame":
        return FrameEncoder("test_resnet", size=32, name="sfe")
    return TrackletEncoder("test_resnet", width=32, heads=4, feed_forward=48, output_norm=True, size=32)


@pytest.mark.parametrize("kind", ["tracklet", "frame"])
def test_a_saved_encoder_gives_the_same_vectors_when_loaded(kind: str, tmp_path: Path) -> None:
    encoder = small(kind).eval()
    record = TrainingRecord(method="ours", seed=3, results={"mAP": 0.25})
    save_encoder(encoder, tmp_path / "e", record=record)
    loaded = load_encoder(tmp_path / "e")
    frames = torch.randn(2, 3, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(loaded(frames), encoder(frames), atol=0, rtol=0)
    assert (loaded.name, loaded.width, loaded.preprocess) == (encoder.name, encoder.width, encoder.preprocess)
    assert fingerprint(loaded) == fingerprint(encoder) == read_json(tmp_path / "e/config.json")["fingerprint"]
    assert loaded.record == record
    assert not loaded.training


@pytest.mark.parametrize("kind", ["tracklet", "frame"])
def test_half_precision_rounds_the_weights_once(kind: str, tmp_path: Path) -> None:
    encoder = small(kind).eval()
    save_encoder(encoder, tmp_path / "e", precision="float16")
    assert all(t.dtype != torch.float32 for t in load((tmp_path / "e/model.safetensors").read_bytes()).values())
    loaded = load_encoder(tmp_path / "e")
    assert {weight.dtype for weight in loaded.parameters()} == {torch.float32}
    assert fingerprint(loaded) != fingerprint(encoder)
    frames = torch.randn(2, 3, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(loaded(frames), encoder(frames), atol=1e-2, rtol=0)
    save_encoder(loaded.half(), tmp_path / "again", precision="float16")
    assert fingerprint(load_encoder(tmp_path / "again")) == fingerprint(loaded)


def test_weights_that_half_precision_cannot_hold_are_not_saved_in_it(tmp_path: Path) -> None:
    encoder = small("frame")
    encoder.head[0].bias.data[0] = 1e6
    with pytest.raises(UserError, match=r"sfe: head\.0\.bias is not finite in float16 -> save it as float32"):
        save_encoder(encoder, tmp_path / "e", precision="float16")


def test_the_package_has_a_default_encoder_of_at_most_ten_megabytes() -> None:
    folder, encoder = weights.default_folder(), load_encoder("default")
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 10_000_000
    assert fingerprint(encoder) in (folder / "README.md").read_text()
    assert encoder.record.label_use == "label-free"
    assert encoder.record.generated


def test_the_default_encoder_is_the_one_in_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "PRETRAINED", tmp_path)
    with pytest.raises(UserError, match="default: this installation has no default encoder"):
        load_encoder("default")
    encoder = small("tracklet")
    save_encoder(encoder, tmp_path / "default", record=TrainingRecord(method="ours", frames=7), precision="float16")
    assert fingerprint(load_encoder("default")) == read_json(tmp_path / "default/config.json")["fingerprint"]
    assert training_record("default").total_frames == 7
    assert training_record("colour-grid") == TrainingRecord()
    stored = {k: v.half().to(v.dtype) for k, v in encoder.backbone.state_dict().items()}
    for source in ("default", str(tmp_path / "default"), str(tmp_path / "default/model.safetensors")):
        torch.testing.assert_close(create_backbone("test_resnet", source).state_dict(), stored)
    with pytest.raises(UserError, match=r"default: not the weights .* -> choose the backbone"):
        create_backbone("resnet18", "default")


def test_only_encoders_that_were_trained_here_are_saved(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="colour-grid: was not trained here"):
        save_encoder(ColourGrid(), tmp_path / "e")


def test_a_folder_that_is_no_encoder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").touch()
    for content in ('{"model_type": "resnet"}', "[]"):
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(UserError, match=r"config\.json: not written by polyptrace \(no format version\)"):
            load_encoder(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a saved encoder."""
    save_encoder(small("tracklet"), tmp_path / "e")
    return tmp_path / "e"


def change_config(folder: Path, change: dict[str, Any]) -> None:
    write_json(folder / "config.json", {**read_json(folder / "config.json"), **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"polyptrace": 3, "tokens": 1},
            r"format version 3, written by release .*reads 2",
        ),
        ({"kind": "resnet"}, "kind: 'resnet' is not one of 'tracklet', 'frame'"),
        ({"encoder": {"width": "many"}}, "'encoder' is not valid"),
        ({"encoder": {"backbone": "resnett"}}, "'encoder' is not valid .*timm has no model 'resnett'"),
        ({"encoder": {"depth": 3}}, "'encoder' is not valid"),
        ({"encoder": {"weights": "elsewhere.pth"}}, "'encoder' is not valid"),
        ({"encoder": []}, r"encoder: \[\] is not an object"),
        ({"training": {"epoch": 3}}, r"training\.epoch: is not a known field"),
    ],
)
def test_a_config_that_does_not_describe_an_encoder_is_refused(
    change: dict[str, Any], message: str, folder: Path
) -> None:
    change_config(folder, change)
    with pytest.raises(UserError, match=rf"config\.json: {message}"):
        load_encoder(folder)


def test_a_folder_of_an_earlier_format_is_refused(folder: Path) -> None:
    content = read_json(folder / "config.json")
    del content["fingerprint"], content["weights_hash"]
    write_json(folder / "config.json", content | {"polyptrace": 1})
    with pytest.raises(UserError, match=r"format version 1, .*reads 2"):
        load_encoder(folder)


def test_weights_that_do_not_fit_the_config_are_listed(folder: Path) -> None:
    tensors = load((folder / "model.safetensors").read_bytes())
    tensors["fc.weight"] = tensors.pop("adapter.bias")
    tensors["token"] = torch.zeros(1, 1, 31)
    save_file(tensors, folder / "model.safetensors")
    problems = r"1 missing: adapter\.bias; 1 unexpected: fc\.weight; 1 of another shape: token is \(1, 1, 31\)"
    with pytest.raises(UserError, match=rf"model\.safetensors: .*{problems}"):
        load_encoder(folder)


def test_changed_weights_are_refused(folder: Path) -> None:
    tensors = load((folder / "model.safetensors").read_bytes())
    tensors["adapter.bias"][0] += 1e-3
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(UserError, match=r"model\.safetensors: not the weights that were saved"):
        load_encoder(folder)


def test_changed_settings_are_refused(folder: Path) -> None:
    content = read_json(folder / "config.json")
    change_config(folder, {"encoder": content["encoder"] | {"heads": 2}})
    with pytest.raises(UserError, match=r"config\.json: 'encoder' was changed after saving"):
        load_encoder(folder)
    change_config(folder, content | {"preprocess": content["preprocess"] | {"size": 64}})
    with pytest.raises(UserError, match=r"config\.json: saved by release .*\(size: 64 -> 32\)"):
        load_encoder(folder)


def test_pickled_weights_are_refused(folder: Path) -> None:
    torch.save(small("tracklet").state_dict(), folder / "model.safetensors")
    with pytest.raises(UserError, match=r"model\.safetensors: not a safetensors file; pickled"):
        load_encoder(folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"contains no training run -> .* one with an encoder \(model\.safetensors"):
        load_encoder(folder)


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
    with pytest.raises(UserError, match="contains no training run"):
        load_encoder(tmp_path)


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty local cache of a hub that cannot be reached."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


@pytest.mark.usefixtures("offline")
def test_a_name_that_is_nothing_is_refused() -> None:
    for name in ("no such thing at all", "encoder.pth", "/somewhere/encoder"):
        with pytest.raises(UserError, match="no such file or folder, and no encoder has this name"):
            load_encoder(name)
    for name, near in (("defualt", "default"), ("resnet50", "frozen:resnet50"), ("dinov2-smal", "dinov2-small")):
        with pytest.raises(UserError, match=f"did you mean {near}"):
            load_encoder(name)
    with pytest.raises(UserError, match="timm has no model '' -> give one of timm"):
        load_encoder("frozen:")
    with pytest.raises(UserError, match=r"the hub cannot be reached -> .*`hf download somebody/something --local-dir"):
        load_encoder("somebody/something")


def test_a_repository_in_the_cache_loads_offline_at_any_revision(offline: Path) -> None:
    repository = offline / "models--somebody--something"
    (repository / "refs").mkdir(parents=True)
    for revision, commit, seed in (("main", "a" * 40, 1), ("v2", "b" * 40, 2)):
        save_encoder(small("frame"), repository / "snapshots" / commit, record=TrainingRecord(seed=seed))
        (repository / "refs" / revision).write_text(commit)
    assert load_encoder("somebody/something").record.seed == 1
    assert load_encoder("somebody/something", revision="v2").record.seed == 2


def test_arguments_that_would_be_ignored_are_refused(folder: Path) -> None:
    for name in (folder, "colour-grid", "frozen:test_resnet"):
        with pytest.raises(UserError, match="not a repository on the hub -> leave out revision='v2'"):
            load_encoder(name, revision="v2")
    with pytest.raises(UserError, match="comes with its own weights -> leave out --weights"):
        load_encoder(folder, weights="w.pth")


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
    torch.testing.assert_close(encoder.projector(tokens), oracle["projected"], atol=1e-5, rtol=1e-5)
    exact = encoder.double().tokens(oracle["clip"].double())
    torch.testing.assert_close(exact, oracle["tokens_float64"], atol=1e-9, rtol=1e-9)


def test_load_encoder_recognises_the_file(checkpoint: Path) -> None:
    assert load_encoder(checkpoint).name == "authors"


@pytest.mark.parametrize("change", [{}, {"mve.adapter.bias": "not a tensor"}])
def test_a_checkpoint_with_a_part_missing_is_refused_by_name(checkpoint: Path, change: dict[str, str]) -> None:
    content = torch.load(checkpoint, weights_only=True)
    del content["state_dict"]["mve.adapter.bias"]
    content["state_dict"] |= change
    torch.save(content, checkpoint)
    with pytest.raises(UserError, match=r"not the weights of this network \(1 missing: adapter\.bias\)"):
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


RECORD = TrainingRecord(
    method="ours",
    data="train: 'a'",
    generated=True,
    counts={"videos": 1, "tracklets": 1200, "crops": 9},
    labels="none, given tracks",
    steps=7,
    frames=3000,
    seed=5,
    init_from="runs/sfe",
    init_frames=20,
    settings={"loss": {"form": "paper"}},
    licence="apache-2.0",
    results={"retrieval mAP": "25.6 [21.1–31.0]"},
)


def card_of(record: TrainingRecord, folder: Path) -> ModelCard:
    save_encoder(
        TrackletEncoder("test_resnet", width=16, heads=2, layers=1, size=32, name="a: b"), folder, record=record
    )
    return ModelCard.load(folder / "README.md")


def test_the_card_has_the_metadata_of_the_hub(tmp_path: Path) -> None:
    data = card_of(RECORD, tmp_path / "e").data
    assert (data.license, data.library_name, data.pipeline_tag) == ("apache-2.0", "polyptrace", "feature-extraction")
    assert "colonoscopy" in data.tags


def test_the_card_says_how_the_encoder_was_trained_and_what_it_is_for(tmp_path: Path) -> None:
    text = card_of(RECORD, tmp_path / "e").text
    for line in (
        "- Data: train: 'a'; generated images; 1 video, 1,200 tracklets",
        "- Licence of the weights: apache-2.0",
        "- Method: ours",
        "- Polyp labels used: none, given tracks",
        "- Length: 7 steps, 3,000 frames",
        "- Seed: 5",
        "- Initial weights: runs/sfe (20 frames)",
        "- retrieval mAP: 25.6 [21.1–31.0]",
        "not a medical device",
        "Trained on rendered images only",
        "32 x 32 pixels",
    ):
        assert line in text


def test_what_is_not_known_is_not_claimed(tmp_path: Path) -> None:
    card = card_of(TrainingRecord(), tmp_path / "e")
    assert card.data.license == "unknown"
    assert "- Data: not stated; origin of the images not stated" in card.text
    assert "- Polyp labels used: not stated" in card.text
    assert "Length" not in card.text
    assert "generated" not in card.text


@pytest.mark.parametrize(
    ("name", "settings", "ignored"),
    [
        ("colour-grid", {"pooling": "cls"}, ["pooling cls"]),
        ("colour-grid", {"pooling": "cls", "preprocess": "imagenet"}, ["pooling cls", "preprocess imagenet"]),
        ("frozen:test_resnet", {"weights": "none", "pooling": "cls", "preprocess": "imagenet"}, ["pooling cls"]),
        ("frozen:test_resnet", {"weights": "none", "preprocess": "imagenet"}, []),
    ],
)
def test_settings_that_an_encoder_ignores_are_named_in_a_warning(
    name: str, settings: dict[str, str], ignored: list[str]
) -> None:
    with warnings.catch_warnings(record=True) as actual:
        warnings.simplefilter("always")
        load_encoder(name, **settings)
    messages = [str(each.message) for each in actual if each.category is PolyptraceWarning]
    assert [each.partition(":")[0] for each in messages] == [f"--embed.{each}" for each in ignored]
