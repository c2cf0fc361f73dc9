"""The probe against torch's own layers, optimiser and schedule, and its figures against scikit-learn."""

from itertools import combinations_with_replacement

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score
from torch import nn

from polyptrace.core.errors import UserError
from polyptrace.evaluate import draw_counts, probe
from polyptrace.evaluate.probe_training import ProbeStack, draw_batches, one_cycle


def case(polyps=40, seed=0, signal=0.6, width=12):
    """Tracklets of polyps of two classes; videos of two polyps each."""
    rng = np.random.default_rng(seed)
    polyp = np.repeat(np.arange(polyps), rng.integers(1, 12, polyps))
    label = (rng.random(polyps) < 0.4).astype(int)[polyp]
    pattern = np.where(np.arange(width) % 2, 1.0, -1.0)  # a shift of all numbers alike would be normalised away
    vectors = rng.standard_normal((len(polyp), width)) + signal * label[:, None] * pattern
    return vectors.astype(np.float32), label, polyp


def test_the_schedule_is_torchs_one_cycle():
    for total in (20, 73):
        optimiser = torch.optim.AdamW([nn.Parameter(torch.zeros(1))], lr=1.0)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=3e-4, total_steps=total, pct_start=0.1)
        for step in range(total):
            rate, momentum = one_cycle(step, np.array([total, 10 * total]), 3e-4)
            assert rate[0] == pytest.approx(optimiser.param_groups[0]["lr"], rel=1e-9)
            assert momentum[0] == pytest.approx(optimiser.param_groups[0]["betas"][0], rel=1e-9)
            optimiser.step()
            if step < total - 1:
                schedule.step()
        assert one_cycle(total, np.array([total]), 3e-4)[0] == 0.0


def test_probes_side_by_side_end_where_probes_trained_alone_with_torch_end():
    values, target = torch.randn(90, 6), torch.randint(0, 2, (90,))
    parts = [np.arange(50), np.arange(20, 90)]
    batches = draw_batches(parts, epochs=4, batch=16, seed=0)
    stack = ProbeStack(6, 8, 0.0, 2, 0, torch.device("cpu"))
    alone = []
    for number in range(2):
        network = nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 2))
        with torch.no_grad():
            for theirs, ours in zip(network.parameters(), stack.parameters, strict=True):
                theirs.copy_(ours[number].T if theirs.ndim == 2 else ours[number, 0])
        alone.append(network)
    stack.fit(values, target, batches, lr=1e-2)
    for number, network in enumerate(alone):
        total = int(batches.steps[number])
        optimiser = torch.optim.AdamW(network.parameters(), lr=1.0, weight_decay=0.0)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=1e-2, total_steps=total, pct_start=0.1)
        for step in range(total):
            rows = batches.rows[step, number][batches.real[step, number]]
            optimiser.zero_grad()
            nn.functional.cross_entropy(network(values[rows]), target[rows]).backward()
            optimiser.step()
            if step < total - 1:
                schedule.step()
        expected = network(values).softmax(1)[:, 1]
        torch.testing.assert_close(stack.probability(values)[number], expected, atol=1e-5, rtol=1e-4)


def test_every_epoch_shows_each_training_row_once():
    parts = [np.arange(10, 47), np.arange(100)]
    batches = draw_batches(parts, epochs=3, batch=16, seed=0)
    for number, part in enumerate(parts):
        steps = -(-len(part) // 16)
        assert batches.steps[number] == 3 * steps
        for epoch in range(3):
            span = slice(epoch * steps, (epoch + 1) * steps)
            seen = batches.rows[span, number][batches.real[span, number]]
            assert sorted(seen.tolist()) == part.tolist()


def test_dropout_makes_training_random_and_leaves_testing_alone():
    stack = ProbeStack(6, 64, 0.5, 1, 0, torch.device("cpu"))
    values = torch.randn(1, 9, 6)
    assert not torch.equal(stack.logits(values, train=True), stack.logits(values, train=True))
    assert torch.equal(stack.logits(values, train=False), stack.logits(values, train=False))


def test_figures_are_scikit_learns_with_one_over_the_tracklets_of_a_polyp_as_weight():
    vectors, label, polyp = case()
    found = probe(vectors, label, polyp, repeats=3, epochs=5, lr=1e-2)
    for repeat, probability in enumerate(found.probability):
        tested = ~np.isnan(probability)
        truth, predicted = label[tested], probability[tested] > 0.5
        weight = 1 / np.bincount(polyp[tested])[polyp[tested]]
        expected = {
            "f1": f1_score(truth, predicted, average="macro", sample_weight=weight),
            "f1_plain": f1_score(truth, predicted, average="macro"),
            "accuracy": accuracy_score(truth, predicted),
            "accuracy_weighted": accuracy_score(truth, predicted, sample_weight=weight),
        }
        for name, value in expected.items():
            assert found.each(name)[repeat] == pytest.approx(value)
    assert found.f1 == pytest.approx(found.each("f1").mean())
    assert found.accuracy == pytest.approx(found.each("accuracy").mean())


def test_no_polyp_trains_and_tests_and_thirty_percent_test():
    vectors, label, polyp = case(polyps=60)
    found = probe(vectors, label, polyp, repeats=4, epochs=1)
    for probability in found.probability:
        tested = ~np.isnan(probability)
        assert not set(polyp[tested]) & set(polyp[~tested])
        assert len(set(polyp[tested])) == 18
        assert set(label[tested]) == {0, 1}
    assert not np.array_equal(np.isnan(found.probability[0]), np.isnan(found.probability[1]))


def test_the_split_can_keep_videos_together():
    vectors, label, polyp = case(polyps=40)
    video = polyp // 2
    found = probe(vectors, label, polyp, by=video, repeats=2, epochs=1)
    for probability in found.probability:
        tested = ~np.isnan(probability)
        assert not set(video[tested]) & set(video[~tested])


def test_the_split_is_stratified_by_label_and_dataset():
    vectors, label, polyp = case(polyps=100, seed=1)
    dataset = np.array(["x", "y"])[polyp % 2]
    found = probe(vectors, label, polyp, dataset=dataset, repeats=2, epochs=1)
    for probability in found.probability:
        tested = ~np.isnan(probability)
        for name in ("x", "y"):
            for value in (0, 1):
                of_both = set(polyp[(label == value) & (dataset == name)])
                share = len(of_both & set(polyp[tested])) / len(of_both)
                assert abs(share - 0.3) <= 1 / len(of_both)


def test_rows_without_label_or_polyp_neither_train_nor_test():
    vectors, label, polyp = case()
    names = np.array([f"p{code}" for code in polyp])
    names[polyp == 3] = ""
    label = np.where(polyp == 5, -1, label)
    vectors[(polyp == 3) | (polyp == 5)] = 1e6
    found = probe(vectors, label, names, repeats=3, epochs=1)
    left_out = (polyp == 3) | (polyp == 5)
    assert np.isnan(found.probability[:, left_out]).all()
    assert (found.label[left_out] == -1).all()
    assert (found.label[~left_out] >= 0).all()


def test_what_can_be_read_off_is_learned_and_what_cannot_is_not():
    vectors, label, polyp = case(polyps=80, signal=1.5)
    clear = probe(vectors, label, polyp, lr=1e-3, repeats=2)
    assert clear.f1 > 0.9
    blind = probe(case(polyps=80, signal=0.0)[0], label, polyp, lr=1e-3, repeats=2)
    assert blind.f1 < 0.65


def test_the_same_seed_gives_the_same_probabilities():
    vectors, label, polyp = case()
    one, same, other = (probe(vectors, label, polyp, repeats=2, epochs=2, seed=s) for s in (0, 0, 1))
    np.testing.assert_array_equal(one.probability, same.probability)
    assert not np.array_equal(one.probability, other.probability, equal_nan=True)


def test_a_draw_weighs_the_tested_polyps_and_draws_repeats_outside():
    vectors, label, polyp = case()
    found = probe(vectors, label, polyp, repeats=3, epochs=3, lr=1e-2)
    once = found.draws("f1", polyp, np.ones((200, 40), dtype=np.int64), seed=0)
    expected = combinations_with_replacement(range(3), 2)
    values = {round(float(np.mean([found.each("f1")[i] for i in pair])), 9) for pair in expected}
    assert {round(float(v), 9) for v in once} == values
    counts = draw_counts(40, 5, seed=0)
    drawn = found.draws("accuracy", polyp, counts, seed=0)
    each = []
    for probability in found.probability:
        tested = ~np.isnan(probability)
        right = (probability[tested] > 0.5) == label[tested]
        each.append([np.average(right, weights=taken[polyp[tested]]) for taken in counts])
    low, high = np.min(each, axis=0), np.max(each, axis=0)
    assert ((drawn >= low - 1e-12) & (drawn <= high + 1e-12)).all()


def test_too_few_polyps_of_a_class_are_told():
    vectors, _, polyp = case()
    with pytest.raises(UserError, match="1 group of class 1"):
        probe(vectors, (polyp == 7).astype(int), polyp)


def test_a_vector_with_nan_is_named():
    vectors, label, polyp = case()
    vectors[4, 2] = np.nan
    with pytest.raises(UserError, match="row 4 "):
        probe(vectors, label, polyp)
