"""The probe against a loop written out, its metrics against scikit-learn, and its classes."""

import math
from importlib import import_module
from itertools import combinations_with_replacement

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score
from torch import nn

from polyptrace.core.errors import UserError
from polyptrace.core.randomness import torch_seed
from polyptrace.evaluate import probe
from polyptrace.evaluate.bootstrap import draw_counts
from polyptrace.evaluate.probe import adenoma, larger, train_probe


def case(polyps=40, seed=0, signal=0.6, width=12):
    """Tracklets of polyps of two classes; videos of two polyps each."""
    rng = np.random.default_rng(seed)
    polyp = np.repeat(np.arange(polyps), rng.integers(1, 12, polyps))
    label = (rng.random(polyps) < 0.4).astype(int)[polyp]
    pattern = np.where(np.arange(width) % 2, 1.0, -1.0)  # a shift of all numbers alike would be normalised away
    vectors = rng.standard_normal((len(polyp), width)) + signal * label[:, None] * pattern
    return vectors.astype(np.float32), label, polyp


def one_cycle(step, total, lr):
    """(learning rate, first beta) at a step: cosine up for 10 % of the steps, then cosine down."""
    top = 0.1 * total - 1

    def cosine(start, end, share):
        return end + (start - end) / 2 * (1 + math.cos(math.pi * share))

    if step <= top:
        return cosine(lr / 25, lr, step / top), cosine(0.95, 0.85, step / top)
    share = (step - top) / (total - 1 - top)
    return cosine(lr, lr / 25 / 1e4, share), cosine(0.85, 0.95, share)


def test_training_is_adamw_without_decay_on_shuffled_batches_with_one_cycle():
    torch.manual_seed(0)
    values, target, rows = torch.randn(90, 6), torch.randint(0, 2, (90,)), torch.arange(20, 90)
    trained = train_probe(values, target, rows, lr=1e-2, epochs=9, dropout=0.0, seed=7)
    torch.manual_seed(7)
    network = nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 256), nn.GELU(), nn.Linear(256, 2))
    optimiser = torch.optim.Adam(network.parameters(), lr=1.0)
    total = 9 * 2
    for epoch in range(9):
        order = rows[torch.randperm(70)]
        for number in range(2):
            lr, beta = one_cycle(2 * epoch + number, total, 1e-2)
            optimiser.param_groups[0].update(lr=lr, betas=(beta, 0.999))
            part = order[64 * number : 64 * number + 64]
            optimiser.zero_grad()
            nn.functional.cross_entropy(network(values[part]), target[part]).backward()
            optimiser.step()
    torch.testing.assert_close(trained(values), network(values), atol=1e-5, rtol=1e-4)


def test_repeats_in_several_threads_equal_probes_that_are_trained_one_after_the_other():
    vectors, label, polyp = case()
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        result = probe(vectors, label, polyp, repeats=5, epochs=4, lr=1e-2, seed=3)
    finally:
        torch.set_num_threads(before)
    values, target = torch.from_numpy(vectors), torch.from_numpy(label)
    for repeat, probability in enumerate(result.probability):
        tested = ~np.isnan(probability)
        rows = torch.from_numpy(np.flatnonzero(~tested))
        with torch.random.fork_rng([]):
            torch.manual_seed(torch_seed(3, repeat))
            width = vectors.shape[1]
            network = nn.Sequential(
                nn.LayerNorm(width), nn.Linear(width, 256), nn.GELU(), nn.Dropout(0.1), nn.Linear(256, 2)
            )
            optimiser = torch.optim.AdamW(network.parameters(), lr=1e-2, weight_decay=0.0)
            total = 4 * -(-len(rows) // 64)
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-2, total_steps=total, pct_start=0.1)
            for _ in range(4):
                for part in rows[torch.randperm(len(rows))].split(64):
                    optimiser.zero_grad()
                    nn.functional.cross_entropy(network(values[part]), target[part]).backward()
                    optimiser.step()
                    schedule.step()
        expected = network.eval()(values).softmax(1)[:, 1].detach().numpy()
        np.testing.assert_allclose(probability[tested], expected[tested], atol=1e-5)


@pytest.mark.parametrize("rows", [1, 64, 160, 320])  # 320 rows and 2 epochs: ten steps, which torch's schedule refuses
def test_any_number_of_steps_can_be_trained(rows):
    values = torch.randn(rows, 4)
    options = {"lr": 1e-3, "epochs": 2, "dropout": 0.1, "seed": 0}
    network = train_probe(values, torch.zeros(rows, dtype=torch.int64), torch.arange(rows), **options)
    assert torch.isfinite(network(values)).all()


def test_dropout_acts_in_training_only_and_the_global_generator_is_left_alone():
    vectors, label, polyp = case()
    before = torch.get_rng_state()
    with_dropout, without = (probe(vectors, label, polyp, repeats=1, epochs=2, dropout=d) for d in (0.5, 0.0))
    assert not np.array_equal(with_dropout.probability, without.probability, equal_nan=True)
    assert torch.equal(torch.get_rng_state(), before)
    values, target = torch.randn(40, 4), torch.randint(0, 2, (40,))
    options = {"lr": 1e-3, "epochs": 1, "dropout": 0.5, "seed": 0}
    network = train_probe(values, target, torch.arange(40), **options)
    assert torch.equal(network(values), network(values))


def test_a_probe_trains_with_one_thread_and_the_number_is_restored(monkeypatch):
    threads = []

    def train(*arguments):
        threads.append(torch.get_num_threads())
        return train_probe(*arguments)

    before = torch.get_num_threads()
    monkeypatch.setattr(import_module("polyptrace.evaluate.probe"), "train_probe", train)
    torch.set_num_threads(2)
    try:
        vectors, label, polyp = case()
        probe(vectors, label, polyp, repeats=1, epochs=1)
        assert (threads, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(before)


def test_a_given_split_is_the_same_in_every_repeat():
    vectors, label, polyp = case()
    test = polyp % 2 == 0
    result = probe(vectors, label, polyp, test=test, repeats=3, epochs=1)
    for probability in result.probability:
        np.testing.assert_array_equal(~np.isnan(probability), test)
    assert not np.array_equal(result.probability[0], result.probability[1], equal_nan=True)
    with pytest.raises(UserError, match="given split lacks a class"):
        probe(vectors, label, polyp, test=label == 1)


def test_metrics_are_scikit_learns_with_one_over_the_tracklets_of_a_polyp_as_weight():
    vectors, label, polyp = case()
    actual = probe(vectors, label, polyp, repeats=3, epochs=5, lr=1e-2)
    for repeat, probability in enumerate(actual.probability):
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
            assert actual.each(name)[repeat] == pytest.approx(value)
    assert actual.f1 == pytest.approx(actual.each("f1").mean())
    assert actual.accuracy == pytest.approx(actual.each("accuracy").mean())


def test_no_polyp_trains_and_tests_and_thirty_percent_test():
    vectors, label, polyp = case(polyps=60)
    actual = probe(vectors, label, polyp, repeats=4, epochs=1)
    for probability in actual.probability:
        tested = ~np.isnan(probability)
        assert not set(polyp[tested]) & set(polyp[~tested])
        assert len(set(polyp[tested])) == 18
        assert set(label[tested]) == {0, 1}
    assert not np.array_equal(np.isnan(actual.probability[0]), np.isnan(actual.probability[1]))


def test_the_split_can_keep_videos_together():
    vectors, label, polyp = case(polyps=40)
    video = polyp // 2
    actual = probe(vectors, label, polyp, by=video, repeats=2, epochs=1)
    for probability in actual.probability:
        tested = ~np.isnan(probability)
        assert not set(video[tested]) & set(video[~tested])


def test_the_split_is_stratified_by_label_and_dataset():
    vectors, label, polyp = case(polyps=100, seed=1)
    dataset = np.array(["x", "y"])[polyp % 2]
    actual = probe(vectors, label, polyp, dataset=dataset, repeats=2, epochs=1)
    for probability in actual.probability:
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
    actual = probe(vectors, label, names, repeats=3, epochs=1)
    left_out = (polyp == 3) | (polyp == 5)
    assert np.isnan(actual.probability[:, left_out]).all()
    assert (actual.label[left_out] == -1).all()
    assert (actual.label[~left_out] >= 0).all()


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
    actual = probe(vectors, label, polyp, repeats=3, epochs=3, lr=1e-2)
    once = actual.draws("f1", polyp, np.ones((200, 40), dtype=np.int64), seed=0)
    expected = combinations_with_replacement(range(3), 2)
    values = {round(float(np.mean([actual.each("f1")[i] for i in pair])), 9) for pair in expected}
    assert {round(float(v), 9) for v in once} == values
    counts = draw_counts(40, 5, seed=0)
    drawn = actual.draws("accuracy", polyp, counts, seed=0)
    each = []
    for probability in actual.probability:
        tested = ~np.isnan(probability)
        right = (probability[tested] > 0.5) == label[tested]
        each.append([np.average(right, weights=taken[polyp[tested]]) for taken in counts])
    low, high = np.min(each, axis=0), np.max(each, axis=0)
    assert ((drawn >= low - 1e-12) & (drawn <= high + 1e-12)).all()


def test_too_few_polyps_of_a_class_are_an_error():
    vectors, _, polyp = case()
    with pytest.raises(UserError, match="class 1: 1"):
        probe(vectors, (polyp == 7).astype(int), polyp)


def test_a_vector_with_nan_is_named():
    vectors, label, polyp = case()
    vectors[4, 2] = np.nan
    with pytest.raises(UserError, match="row 4 "):
        probe(vectors, label, polyp)


#: The table of the public datasets.
TABLE = {
    1: [
        "Low-grade adenoma",
        "High-grade adenoma",
        "AD",
        "Tubular Adenoma",
        "Tubular Adenoma With High-Grade Dysplasia (HGD)",
        "Tubulovillous Adenoma",
        "adenomatous",
    ],
    0: [
        "Traditional serrated adenoma",
        "Sessile serrated lesion",
        "Hyperplastic polyp",
        "SSL",
        "TSA",
        "HP",
        "Sessile Serrated Lesion (SSL)",
        "Hyperplastic Polyp",
        "Inflammatory Polyp",
        "hyperplastic",
    ],
    -1: ["Invasive cancer (T1b)", "NO POLYP", "OTHER", "Pathology Not Available", ""],
}


def test_every_name_of_the_four_datasets_has_its_class():
    for label, names in TABLE.items():
        assert adenoma(names).tolist() == [label] * len(names)


def test_case_and_spaces_do_not_matter():
    assert adenoma([" tubular  ADENOMA", "hp "]).tolist() == [1, 0]


def test_an_unknown_name_is_an_error_that_lists_the_known_ones_and_how_to_map_it():
    with pytest.raises(UserError, match=r"'villous'.*Low-grade adenoma.*--histology NAME=1"):
        adenoma(["AD", "villous"])


def test_more_names_can_be_mapped():
    assert adenoma(["AD", "Villous", "cancer"], {"villous": 1, "Cancer": -1}).tolist() == [1, 1, -1]


def test_above_five_millimetres_is_one():
    sizes = np.array([2.0, 5.0, 5.01, 11.74, np.nan])
    assert larger(sizes).tolist() == [0, 0, 1, 1, -1]
