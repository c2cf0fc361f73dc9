"""Unit vectors, labels and the grid on which scores are compared."""

import numpy as np
import pytest
import torch

from polyptrace.core.errors import UserError
from polyptrace.evaluate import similarity
from polyptrace.evaluate.similarity import label_codes, on_grid, unit_rows


def test_vectors_get_length_one_however_large_or_small_they_are():
    vectors = np.random.default_rng(0).standard_normal((3, 5))
    unit, zeros = unit_rows(vectors * np.array([[1e-200], [1.0], [1e200]]))
    np.testing.assert_allclose(unit.numpy(), vectors / np.linalg.norm(vectors, axis=1, keepdims=True), rtol=1e-14)
    assert zeros == 0


def test_vectors_that_must_not_be_written_to_give_no_warning(recwarn):
    vectors = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    vectors.flags.writeable = False
    unit, _ = unit_rows(vectors)
    assert np.allclose(np.linalg.norm(unit.numpy(), axis=1), 1)
    assert not recwarn.list


def test_a_zero_vector_stays_zero_and_is_counted():
    unit, zeros = unit_rows(np.array([[0.0, 0.0], [3.0, 4.0]]))
    assert unit.tolist() == [[0.0, 0.0], [0.6, 0.8]]
    assert zeros == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_vector_that_is_not_finite_is_named_by_its_row(bad):
    vectors = np.ones((20_000, 2), dtype=np.float32)
    vectors[17_123, 1] = bad
    with pytest.raises(UserError, match="row 17123"):
        unit_rows(vectors)


def test_vectors_that_are_no_matrix_are_refused():
    with pytest.raises(UserError, match="shape"):
        unit_rows(np.ones(5))


def test_labels_become_codes_in_sorted_order_and_unknown_ones_minus_one():
    assert label_codes(np.array(["b", "", "a", "b"]), 4).tolist() == [1, -1, 0, 1]
    assert label_codes(np.array(["b", None, "a", np.nan], dtype=object), 4).tolist() == [1, -1, 0, -1]
    assert label_codes(np.array([2.0, np.nan, 1.0]), 3).tolist() == [1, -1, 0]
    assert label_codes(torch.tensor([7, -1, 7]), 3).tolist() == [1, 0, 1]


def test_one_label_too_few_is_refused():
    with pytest.raises(UserError, match="3 vectors"):
        label_codes(["a", "b"], 3)


def test_copies_of_a_vector_tie_exactly_wherever_they_stand(monkeypatch):
    rng = np.random.default_rng(0)
    for exact in (4096, 0):
        monkeypatch.setattr(similarity, "EXACT", exact)
        unit, _ = unit_rows(np.repeat(rng.standard_normal((7, 257)), 143, axis=0))
        scores = on_grid(unit[:50] @ unit.T).view(50, 7, 143)
        assert (scores == scores[..., :1]).all()


def test_steps_of_the_coarse_grid_run_from_minus_one_to_one():
    cosines = torch.tensor([-1.0, -0.5, 0.0, 0.5, 1.0, 1.0 + 5e-7])
    steps = on_grid(cosines.clone())
    assert (steps.diff()[:-1] > 0).all()
    assert steps.abs().max() <= similarity.CELLS // 2
    torch.testing.assert_close(steps / similarity.COARSE, cosines, atol=2.5e-7, rtol=0)


def test_tensors_of_any_float_type_and_with_gradients_are_taken():
    vectors = torch.tensor([[3.0, 4.0], [0.0, 2.0]], requires_grad=True)
    for given in (vectors, vectors.to(torch.bfloat16), vectors.half()):
        unit, _ = unit_rows(given)
        assert not unit.requires_grad
        torch.testing.assert_close(unit, torch.tensor([[0.6, 0.8], [0.0, 1.0]], dtype=torch.float64))
