"""From rows to command lines."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polyptrace.compare import ROWS, Data, Given, Row, frames_of_ours, make_trial, resolve
from polyptrace.compare.plan import test_names as names_of
from polyptrace.core.errors import UserError
from polyptrace.core.files import read_json, write_json
from polyptrace.data import Dataset
from polyptrace.data.dataset import save_tracklets
from polyptrace.methods import METHODS
from polyptrace.train.loop import _length


@pytest.fixture(scope="module")
def data(make_dataset: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Data:
    folder = tmp_path_factory.mktemp("plan")
    train = make_dataset(folder / "train", [[4, 3], [5, 4], [3, 5]])
    return Data(train, (make_dataset(folder / "test", [[2, 2]]),))


def value_of(words: tuple[str, ...], option: str) -> str:
    return words[len(words) - 1 - words[::-1].index(option) + 1]


def test_a_row_is_trained_embedded_and_evaluated_in_a_folder_of_its_own(data: Data, tmp_path: Path) -> None:
    trial = make_trial(ROWS["ta"], 2, "rows/ta/seed2", data, Given(tmp_path))
    assert [step.words[0] for step in trial.steps] == ["train", "embed", "evaluate"]
    assert all(step.makes.is_relative_to(tmp_path / "rows/ta/seed2") for step in trial.steps)
    assert trial.train is not None
    assert trial.train.words[1] == "ta"
    assert value_of(trial.train.words, "--train.seed") == "2"
    assert trial.embeds[0].words[1] == value_of(trial.train.words, "--out")
    assert value_of(trial.evaluate.words, "--embeddings") == value_of(trial.embeds[0].words, "--out")
    assert value_of(trial.evaluate.words, "--group") == "Fully supervised"


def test_a_frozen_row_needs_no_training_data(data: Data, tmp_path: Path) -> None:
    given = Given(tmp_path, {"train.epochs": "3", "embed.batch_frames": "8"})
    trial = make_trial(ROWS["colour-grid"], 0, "rows/colour-grid/seed0", replace(data, train=None), given)
    assert trial.steps[0].words[:2] == ("embed", "colour-grid")
    assert len(trial.steps) == 2
    assert not any("train" in word for step in trial.steps for word in step.words)
    with pytest.raises(UserError, match="has to be trained"):
        make_trial(ROWS["ours"], 0, "rows/ours/seed0", replace(data, train=None), given)


def test_settings_go_to_the_command_that_uses_them_and_those_of_the_row_win(data: Data, tmp_path: Path) -> None:
    given = Given(tmp_path, {"loss.frame_weight": "2", "train.epochs": "7", "evaluate.bootstrap": "9"})
    row = Row("x", "X", "Self-supervised", "ours", {"loss.frame_weight": "0"})
    trial = make_trial(row, 0, "rows/x/seed0", data, given, {"train.frames": "960"})
    assert trial.train is not None
    assert value_of(trial.train.words, "--loss.frame_weight") == "0"
    assert trial.train.words.count("--loss.frame_weight") == 1
    assert trial.config.loss.frame_weight == 0
    assert (trial.config.train.frames, trial.config.train.epochs) == (960, 7)
    assert "--evaluate.bootstrap" not in trial.train.words
    assert value_of(trial.evaluate.words, "--evaluate.bootstrap") == "9"


def test_a_method_keeps_its_published_settings_below_what_is_given() -> None:
    config = resolve("sfe", {"views.batch": "8"}, None)
    assert (config.optimiser.name, config.optimiser.schedule, config.views.batch) == ("adam", "one-cycle", 8)
    assert resolve("sup", {}, None).loss.temperature == 0.25


@pytest.mark.parametrize(("link", "use"), [("video", "label-free"), ("polyp", "label-free given tracks")])
def test_results_are_told_what_labels_training_used(
    link: str, use: str, make_dataset: Callable[..., Path], tmp_path: Path
) -> None:
    train = make_dataset(tmp_path / "train", [[2, 2]])
    info = read_json(train / "dataset.json")
    write_json(train / "dataset.json", {**info, "settings": {"tracks": {"link": link}}})
    data = Data(train, (train,))
    told = {
        name: value_of(make_trial(ROWS[name], 0, name, data, Given(tmp_path)).evaluate.words, "--labels")
        for name in ("untrained", "ours", "tpc", "tpc-polyp", "sup")
    }
    assert told == {"untrained": "label-free", "ours": use, "tpc": use, "tpc-polyp": "labels", "sup": "labels"}


def test_a_model_that_saw_a_test_dataset_is_marked_for_the_tasks_that_use_it(
    make_dataset: Callable[..., Path], tmp_path: Path
) -> None:
    paths = {name: make_dataset(tmp_path / name, [[2, 2]]) for name in ("rc", "sun")}
    sun = Dataset.open(paths["sun"]).tracklets
    save_tracklets(replace(sun, dataset=np.full(len(sun), "sun", object)), paths["sun"] / "tracklets.parquet")
    data = Data(None, (paths["rc"],), {"size": (paths["rc"], paths["sun"])})
    row = Row("endofm", "EndoFM", "Endoscopy FM", encoder="endofm", seen=("SUN",))
    words = make_trial(row, 0, "rows/endofm/seed0", data, Given(tmp_path)).evaluate.words
    assert [words[n + 1] for n, word in enumerate(words) if word == "--trained-on-test"] == ["size"]
    assert [words[n + 1].rpartition("/")[2] for n, word in enumerate(words) if word == "--embeddings-for"] == [
        "rc",
        "sun",
    ]


def test_two_test_datasets_of_one_name_keep_their_vectors_apart() -> None:
    named = names_of([Path("a/test"), Path("b/test"), Path("c/other")])
    assert list(named.values()) == ["test", "test-2", "other"]


@pytest.mark.parametrize("epochs", [1, 3, 7])
def test_the_frames_that_all_methods_see_are_those_of_ours_in_its_epochs(
    epochs: int, data: Data, tmp_path: Path
) -> None:
    assert data.train is not None
    given = Given(tmp_path, {"train.epochs": str(epochs), "supervision.bags_per_batch": "5"})
    frames = frames_of_ours(data.train, given)
    dataset = Dataset.open(data.train)
    for name, method in METHODS.items():
        config = resolve(name, {**given.settings, "train.frames": str(frames)}, None)
        view = dataset if method.sees_labels(config) else dataset.label_free()
        plan = method.plan(view, config)
        steps = _length(plan, config)[1]
        per_step = int((plan.epoch(0, 1).batch(0).rows >= 0).sum())
        assert frames <= steps * per_step < frames + per_step
    config = resolve("ours", given.settings, None)
    plan = METHODS["ours"].plan(dataset.label_free(), config)
    with_frames = replace(config, train=replace(config.train, frames=frames))
    assert _length(plan, with_frames) == _length(plan, config)


def test_frames_that_are_given_are_taken(data: Data, tmp_path: Path) -> None:
    assert data.train is not None
    assert frames_of_ours(data.train, Given(tmp_path, {"train.frames": "123"})) == 123
