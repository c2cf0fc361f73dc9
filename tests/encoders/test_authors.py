"""The authors' checkpoint, against what their release computes with it."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from polyptrace.core.errors import UserError
from polyptrace.encoders import load_authors_checkpoint, load_encoder


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


def test_load_encoder_knows_it_by_its_file(checkpoint: Path) -> None:
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
