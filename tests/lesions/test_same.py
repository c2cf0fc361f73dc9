"""The probability that two tracks show the same lesion."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polyptrace.core.errors import UserError
from polyptrace.core.files import read_json, write_json
from polyptrace.data.identity import polyp_keys
from polyptrace.embed import Embeddings
from polyptrace.lesions import SameModel, fit_same, procedures, same_model


@pytest.fixture(scope="module")
def model(tracks: Embeddings) -> SameModel:
    return fit_same(tracks)


def pairs_of(tracks: Embeddings, model: SameModel) -> tuple[np.ndarray, np.ndarray]:
    """P(same) and the truth of all pairs within procedures."""
    polyp, probability, truth = polyp_keys(tracks), [], []
    for group in procedures(tracks, model.centre):
        i, j = np.triu_indices(len(group), 1)
        probability.append(model.probability(*group.pairs(i, j)))
        truth.append(polyp[group.rows[i]] == polyp[group.rows[j]])
    return np.concatenate(probability), np.concatenate(truth).astype(float)


def calibration_error(probability: np.ndarray, truth: np.ndarray) -> float:
    bins = np.minimum((10 * probability).astype(int), 9)
    difference = np.bincount(bins, probability, 10) - np.bincount(bins, truth, 10)
    return float(np.abs(difference).sum() / len(truth))


def test_the_probability_is_calibrated_without_labels_on_unseen_procedures(
    model: SameModel, simulate: Callable[..., Embeddings]
) -> None:
    probability, truth = pairs_of(simulate(30, seed=1), model)
    assert calibration_error(probability, truth) < 0.06
    assert truth[probability > 0.9].mean() > 0.9
    assert truth[probability < 0.1].mean() < 0.1
    assert (probability > 0.9).sum() > 100
    assert (probability < 0.1).sum() > 100


def test_labels_are_not_read_unless_asked_for(tracks: Embeddings, model: SameModel) -> None:
    scrambled = replace(tracks, polyp=np.random.default_rng(0).permutation(tracks.polyp))
    assert fit_same(scrambled) == model
    assert fit_same(scrambled, labels=True) != fit_same(tracks, labels=True)


def test_a_fit_on_labels_counts_them_and_is_calibrated(tracks: Embeddings) -> None:
    fitted = fit_same(tracks, labels=True)
    assert fitted.labelled_pairs == fitted.pairs > 0
    assert calibration_error(*pairs_of(tracks, fitted)) < 0.06


def test_answers_move_the_model_towards_them(tracks: Embeddings, model: SameModel) -> None:
    group = next(iter(procedures(tracks)))
    answers = [(int(i), int(j), False) for i in group.rows for j in group.rows if i < j]
    answered = fit_same(tracks, answers=answers)
    assert answered.labelled_pairs == len(answers)
    assert answered.prior.ceiling < model.prior.ceiling


def test_it_rises_with_the_cosine_and_falls_with_the_pause(model: SameModel) -> None:
    cosine = np.linspace(-1, 1, 201)
    for gap in (0.0, 3.0, 600.0):
        assert (np.diff(model.probability(cosine, gap, 5.0)) >= -1e-12).all()
    assert (np.diff(model.prior.log_odds(np.geomspace(0.01, 1e4, 100))) <= 1e-12).all()
    assert model.probability(0.9, 1.0, 1.0) > 0.9
    assert model.probability(-0.5, 600.0, 600.0) < 0.05


def test_simultaneous_tracks_are_two_lesions(model: SameModel) -> None:
    assert model.probability(1.0, 0.0, 0.0, True) == 0.0


def test_simultaneous_tracks_are_not_taken_for_labels(tracks: Embeddings) -> None:
    """They show that two tracks differ, but the model is still one that was fitted without labels."""
    last = tracks.last.copy()
    last[:-1] = np.maximum(last[:-1], np.where(tracks.video[1:] == tracks.video[:-1], tracks.position[1:], 0))
    assert fit_same(replace(tracks, last=last)).labelled_pairs == 0


def test_the_longest_pause_is_that_of_a_slow_loop(tracks: Embeddings) -> None:
    group = max(procedures(tracks), key=len)
    i, j = np.triu_indices(len(group), 1)
    slow = [max(group.pause_s[a:b]) for a, b in zip(i.tolist(), j.tolist(), strict=True)]
    np.testing.assert_allclose(group.longest_pause(i, j), slow)


def test_the_order_of_the_rows_does_not_matter(tracks: Embeddings, model: SameModel) -> None:
    shuffled = fit_same(tracks.rows(np.random.default_rng(1).permutation(len(tracks))))
    assert shuffled.looks == model.looks
    assert shuffled.prior == model.prior


def test_many_pairs_are_drawn_at_random(tracks: Embeddings, model: SameModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyptrace.lesions.fitting.MAX_PAIRS", 1000)
    drawn = fit_same(tracks)
    assert drawn == fit_same(tracks)
    assert drawn.looks.near == pytest.approx(model.looks.near, abs=0.2)


def test_it_is_stored_and_read_again(tracks: Embeddings, model: SameModel, tmp_path: Path) -> None:
    tracks.save(tmp_path / "vectors")
    fitted, source = same_model(tmp_path / "vectors", tracks)
    assert source is None
    assert fitted == model
    fitted.save(tmp_path / "vectors/same.json")
    assert same_model(tmp_path / "vectors", tracks) == (model, tmp_path / "vectors/same.json")
    assert same_model(tmp_path / "vectors", tracks, refit=True)[1] is None
    assert same_model(tmp_path / "vectors", tracks, labels=True)[1] is None


def test_a_stored_model_with_labels_is_kept_until_a_new_fit_is_asked_for(
    tracks: Embeddings, model: SameModel, tmp_path: Path
) -> None:
    tracks.save(tmp_path / "vectors")
    with_labels = replace(model, labelled_pairs=9)
    with_labels.save(tmp_path / "vectors/same.json")
    assert same_model(tmp_path / "vectors", tracks)[0] == with_labels
    assert same_model(tmp_path / "vectors", tracks, labels=True)[0] == with_labels
    assert same_model(tmp_path / "vectors", tracks, refit=True)[0] == model


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("format", 9, "format 9"),
        ("width", "wide", "width"),
        ("looks", {"near": 1}, "looks.different: is missing"),
        ("pairs", None, "pairs"),
    ],
)
def test_a_damaged_file_names_the_field(
    model: SameModel, tmp_path: Path, field: str, value: object, message: str
) -> None:
    model.save(tmp_path / "same.json")
    write_json(tmp_path / "same.json", read_json(tmp_path / "same.json") | {field: value})
    with pytest.raises(UserError, match=message):
        SameModel.load(tmp_path / "same.json")


def test_parameters_out_of_range_are_refused(model: SameModel) -> None:
    with pytest.raises(ValueError, match="not positive"):
        replace(model.looks, sd=0.0)
    with pytest.raises(ValueError, match="in order"):
        replace(model.prior, floor=0.9, ceiling=0.5)


def test_another_encoder_is_refused(tracks: Embeddings, model: SameModel) -> None:
    with pytest.raises(UserError, match="another encoder"):
        model.check(replace(tracks, info={"fingerprint": "b" * 64}), "same.json")
    with pytest.raises(UserError, match="another encoder"):
        model.check(replace(tracks, vectors=tracks.vectors[:, :5]), "same.json")
    model.check(replace(tracks, info={}), "same.json")


def test_one_procedure_says_what_is_assumed(tracks: Embeddings) -> None:
    single = fit_same(tracks.rows(tracks.video == "v00"))
    assert "one procedure only" in single.assumptions[0]
    assert single.probability(0.95, 1.0, 1.0) > 0.9 > 0.3 > single.probability(-0.2, 300.0, 300.0)


def test_an_unknown_frame_rate_is_assumed(tracks: Embeddings, model: SameModel) -> None:
    unknown = fit_same(replace(tracks, fps=np.full(len(tracks), np.nan)))
    assert "25 frames per second are assumed" in unknown.assumptions[0]
    assert unknown.looks == model.looks


def test_tracks_without_frames_or_video_are_refused(tracks: Embeddings) -> None:
    nowhere = np.full(len(tracks), -1)
    with pytest.raises(UserError, match="row 0 has no position"):
        fit_same(replace(tracks, position=nowhere, last=nowhere))
    with pytest.raises(UserError, match="row 0 has no video"):
        fit_same(replace(tracks, video=np.full(len(tracks), "", object)))


def test_identical_and_zero_vectors_give_finite_parameters(tracks: Embeddings) -> None:
    for vectors in (np.ones_like(tracks.vectors), np.zeros_like(tracks.vectors)):
        fitted = fit_same(replace(tracks, vectors=vectors))
        assert np.isfinite(fitted.probability(1.0, 0.0, 0.0))


def test_the_common_part_of_all_vectors_does_not_matter(tracks: Embeddings, model: SameModel) -> None:
    unit = tracks.vectors / np.linalg.norm(tracks.vectors, axis=1, keepdims=True)
    common = np.zeros(unit.shape[1], np.float32)
    common[0] = 3.0
    shifted = replace(tracks, vectors=unit + common)
    own, other = (pairs_of(each, fit_same(each))[0] for each in (replace(tracks, vectors=unit), shifted))
    assert np.corrcoef(own, other)[0, 1] > 0.97
    few = tracks.rows(np.isin(tracks.video, ["v00", "v01", "v02"]))
    assert len(model.centre) == tracks.vectors.shape[1]
    assert fit_same(few).centre == ()
