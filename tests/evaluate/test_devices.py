"""The same figures on the CPU and on the GPU."""

import numpy as np
import pytest
import torch

from polyptrace.evaluate import probe, reid, retrieval, similarity
from polyptrace.evaluate.bootstrap import draw_counts

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def case():
    rng = np.random.default_rng(0)
    polyp = np.sort(rng.integers(0, 30, 400))
    return rng.standard_normal((30, 32))[polyp] + 1.5 * rng.standard_normal((400, 32)), polyp


@pytest.mark.parametrize("exact", [4096, 0])
def test_rankings_and_their_draws_agree(monkeypatch, exact):
    monkeypatch.setattr(similarity, "EXACT", exact)
    vectors, polyp = case()
    here, there = (retrieval(vectors, polyp, top=5, device=d) for d in ("cpu", "cuda"))
    np.testing.assert_allclose(here.ap, there.ap, atol=1e-4)
    assert (here.top == there.top).mean() > 0.99
    counts = draw_counts(30, 50, seed=0)
    for judged in (reid(vectors, polyp, device=d) for d in ("cpu", "cuda")):
        assert judged.auroc == pytest.approx(reid(vectors, polyp).auroc, abs=1e-6)
        drawn = judged.draws(polyp, counts)
        np.testing.assert_allclose(drawn, reid(vectors, polyp).draws(polyp, counts), atol=1e-4)


def test_float32_products_are_not_shortened_by_what_training_has_set(monkeypatch):
    monkeypatch.setattr(similarity, "EXACT", 0)
    vectors, polyp = case()
    expected = reid(vectors, polyp).aupr
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        assert reid(vectors, polyp, device="cuda").aupr == pytest.approx(expected, abs=1e-5)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


def test_probes_learn_the_same_on_either():
    vectors, polyp = case()
    label = (polyp % 2).astype(np.int64)
    here, there = (
        probe(vectors + label[:, None] * np.tile([1, -1], 16), label, polyp, lr=1e-3, device=d) for d in ("cpu", "cuda")
    )
    assert there.f1 == pytest.approx(here.f1, abs=0.05)
