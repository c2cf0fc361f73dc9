"""`polyptrace encoders`, and foundation models through `polyptrace embed`."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from timm.models.vision_transformer import VisionTransformer

from polyptrace.cli import main
from polyptrace.data import Dataset
from polyptrace.embed import Embeddings
from polyptrace.encoders import load_encoder, prepare_crops
from polyptrace.encoders.cost import Cost
from polyptrace.encoders.encoder import create_backbone
from polyptrace.encoders.foundation import FOUNDATION_MODELS, FoundationEncoder
from polyptrace.encoders.foundation.families import Dinov2, Endofm
from polyptrace.encoders.weights import fingerprint


def run(*words: object) -> None:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    assert ended.value.code == 0


def shrink(monkeypatch: pytest.MonkeyPatch, name: str, architecture: Dinov2 | Endofm, size: int) -> None:
    model = FOUNDATION_MODELS[name]
    small = replace(model, architecture=architecture, preprocess=replace(model.preprocess, size=size))
    monkeypatch.setitem(FOUNDATION_MODELS, name, small)


def test_the_list_names_all_twelve_and_ours_with_costs_licence_and_weights(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Cost(1_250_000, 2_000_000_000, 3_000_000_000)
    for name in ("foundation_cost", "published_cost"):  # they have their own tests
        monkeypatch.setattr(f"polyptrace.cli.encoders.{name}", lambda _: counted)
    monkeypatch.chdir(tmp_path)
    folder = Path("my[weights]")  # not markup
    folder.mkdir()
    (folder / "endo_fm.pth").touch()
    run("encoders", "--json", "--folder", folder)
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(rows) == [*FOUNDATION_MODELS, "ours"]
    assert rows["endofm"]["local"] == str(folder / "endo_fm.pth")
    assert rows["dinov3-large"]["licence"] == "DINOv3 licence, gated"
    assert rows["surgenet"]["source"] == "--weights hub (TimJaspersTue/SurgeNetModels)"
    assert rows["vjepa2"]["frames"] == "clips of 64"
    assert round(rows["ours"]["params"] / 1e6, 2) == 26.40
    run("encoders", "endofm", "--folder", folder)
    assert "my[weights]/endo_fm.pth" in capsys.readouterr().out
    run("encoders", "vjepa2")
    assert "dinov2-small" not in capsys.readouterr().out
    run("encoders")
    shown = capsys.readouterr().out
    assert all(name in shown for name in rows)
    assert "also: default (comes with the package), colour-grid" in shown


def test_embed_takes_a_foundation_model_with_its_file(
    monkeypatch: pytest.MonkeyPatch, make_dataset: Callable[..., Path], tmp_path: Path
) -> None:
    shrink(monkeypatch, "dinov2-base", Dinov2(24, 2, 2, native=28), 28)
    torch.manual_seed(0)
    model = VisionTransformer(
        img_size=28, patch_size=14, embed_dim=24, depth=2, num_heads=2, init_values=1.0, num_classes=0
    ).eval()
    save_file(model.state_dict(), tmp_path / "m.safetensors")
    data = make_dataset(tmp_path / "data", [[2, 1]])
    run("embed", "dinov2-base", "--weights", tmp_path / "m.safetensors", "--data", data, "--out", tmp_path / "e")
    actual, dataset = Embeddings.load(tmp_path / "e"), Dataset.open(data)
    for i in (0, len(actual) - 1):
        frames = prepare_crops(dataset.gather([i])[0], FOUNDATION_MODELS["dinov2-base"].preprocess)
        with torch.no_grad():
            expected = model.forward_features(frames[0]).mean((0, 1)).numpy()
        np.testing.assert_allclose(actual.vectors[i], expected, atol=1e-4)


def test_embed_takes_a_video_model_and_its_settings(
    monkeypatch: pytest.MonkeyPatch, make_dataset: Callable[..., Path], tmp_path: Path
) -> None:
    shrink(monkeypatch, "endofm", Endofm(24, 1, 2, native=32, clip_length=4), 32)
    data, words = make_dataset(tmp_path / "data", [[2, 1]]), ("embed", "endofm", "--weights", "none", "--data")
    run(*words, data, "--out", tmp_path / "e", "--embed.pooling", "cls+patch-mean")
    assert Embeddings.load(tmp_path / "e").vectors.shape[1] == 48


@pytest.mark.parametrize(("setting", "times"), [("on", 1), ("auto", 0), ("off", 0)])
def test_a_foundation_model_is_compiled_on_request_but_not_by_default_on_a_cpu(
    setting: str, times: int, monkeypatch: pytest.MonkeyPatch, make_dataset: Callable[..., Path], tmp_path: Path
) -> None:
    shrink(monkeypatch, "endofm", Endofm(24, 1, 2, native=32, clip_length=4), 32)
    compiled: list[FoundationEncoder] = []
    monkeypatch.setattr(FoundationEncoder, "compile", lambda encoder: compiled.append(encoder))
    data = make_dataset(tmp_path / "data", [[1]])
    words = ("--embed.device", "cpu", "--embed.compile", setting)
    run("embed", "endofm", "--weights", "none", "--data", data, "--out", tmp_path / "e", *words)
    assert len(compiled) == times


def test_crops_that_are_too_small_end_in_advice(
    make_dataset: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = make_dataset(tmp_path / "data", [[1]])
    with pytest.raises(SystemExit) as ended:
        main(["embed", "surgenet", "--weights", "none", "--data", str(data), "--out", str(tmp_path / "e")])
    assert ended.value.code == 2
    assert "--crops.size 224" in capsys.readouterr().err.replace("\n", " ")


def test_a_frozen_backbone_is_embedded_with_the_weights_of_a_file(
    make_dataset: Callable[..., Path], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    save_file(create_backbone("test_resnet").state_dict(), tmp_path / "w.pth")
    data = make_dataset(tmp_path / "d", [[2, 1]])
    words = ("--weights", tmp_path / "w.pth", "--data", data, "--out", tmp_path / "e", "--embed.device", "cpu")
    run("embed", "frozen:test_resnet", *words)
    table, dataset = Embeddings.load(tmp_path / "e"), Dataset.open(data)
    encoder = load_encoder("frozen:test_resnet", tmp_path / "w.pth")
    for i in (0, len(table) - 1):
        with torch.no_grad():
            np.testing.assert_allclose(table.vectors[i], encoder(dataset.gather([i])[0])[0], atol=1e-4, rtol=1e-3)
    assert table.info["fingerprint"] == fingerprint(encoder)
    assert table.info["method"]["name"] == "Frozen test_resnet"
    assert table.info["method"]["params"] == sum(p.numel() for p in encoder.parameters())
