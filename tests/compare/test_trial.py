"""Trials: one row at one training seed, with its settings, its folder and its steps."""

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polyptrace.compare.rows import ROWS, ComparisonRow, row_config
from polyptrace.compare.trial import Datasets, Shared, frames_of, make_trial, names_of
from polyptrace.config import override
from polyptrace.core.errors import UserError
from polyptrace.core.files import read_json, write_json
from polyptrace.data import Dataset
from polyptrace.data.dataset import save_tracklets
from polyptrace.methods import METHODS


@pytest.fixture(scope="module")
def data(make_dataset: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Datasets:
    folder = tmp_path_factory.mktemp("plan")
    train = make_dataset(folder / "train", [[4, 3], [5, 4], [3, 5]])
    return Datasets(train, (make_dataset(folder / "test", [[2, 2]]),))


def value_of(words: tuple[str, ...], option: str) -> str:
    return words[words.index(option) + 1]


def test_a_row_is_trained_embedded_and_evaluated_in_its_own_folder(data: Datasets, tmp_path: Path) -> None:
    trial = make_trial(ROWS["ta"], 2, "rows/ta/seed2", data, Shared(tmp_path))
    assert [step.name for step in trial.steps] == ["train", "embed", "evaluate"]
    assert all(step.output.is_relative_to(tmp_path / "rows/ta/seed2") for step in trial.steps)
    train, embed, evaluate = (step.words for step in trial.steps)
    assert (train[0], train[1], value_of(train, "--train.seed")) == ("train", "ta", "2")
    assert embed[1] == value_of(train, "--out")
    assert value_of(evaluate, "--embeddings") == value_of(embed, "--out")
    assert value_of(evaluate, "--group") == "Fully supervised"


def test_a_frozen_row_needs_no_training_data(data: Datasets, tmp_path: Path) -> None:
    shared = Shared(tmp_path, {"train": {"epochs": 3}, "embed": {"batch_frames": 8}})
    trial = make_trial(ROWS["colour-grid"], 0, "rows/colour-grid/seed0", replace(data, train=None), shared)
    assert trial.steps[0].words[:2] == ("embed", "colour-grid")
    assert value_of(trial.steps[0].words, "--embed.batch-frames") == "8"
    assert len(trial.steps) == 2
    assert not any("train" in word for step in trial.steps for word in step.words)
    with pytest.raises(UserError, match="needs training data"):
        make_trial(ROWS["ours"], 0, "rows/ours/seed0", replace(data, train=None), shared)


def test_the_frozen_row_is_the_backbone_of_the_settings(data: Datasets, tmp_path: Path) -> None:
    shared = Shared(tmp_path, {"encoder": {"backbone": "resnet18", "weights": "mine.safetensors"}})
    trial = make_trial(ROWS["frozen"], 0, "rows/frozen/seed0", replace(data, train=None), shared)
    assert trial.steps[0].words[:4] == ("embed", "frozen:resnet18", "--weights", "mine.safetensors")


def test_settings_of_the_row_override_those_of_all_rows(data: Datasets, tmp_path: Path) -> None:
    shared = Shared(tmp_path, {"loss": {"frame_weight": 2.0}, "train": {"epochs": 7}, "evaluate": {"bootstrap": 9}})
    row = ComparisonRow("x", "X", "Self-supervised", "ours", {"loss": {"frame_weight": 0.0}})
    trial = make_trial(row, 0, "rows/x/seed0", data, replace(shared, frames=960, rates={"ours": 3e-5}))
    assert trial.config.loss.frame_weight == 0
    assert (trial.config.train.frames, trial.config.train.epochs, trial.config.optimiser.lr) == (960, 7, 3e-5)
    train, _, evaluate = (step.words for step in trial.steps)
    assert "--evaluate.bootstrap" not in train
    assert value_of(evaluate, "--evaluate.bootstrap") == "9"


@pytest.mark.parametrize("name", ["sfe", "sup", "ours"])
def test_the_printed_command_gives_the_settings_of_the_trial(name: str, data: Datasets, tmp_path: Path) -> None:
    shared = Shared(tmp_path, {"supervision": {"tau_fit": "share"}, "train": {"loggers": []}})
    trial = make_trial(ROWS[name], 1, f"rows/{name}/seed1", data, replace(shared, frames=960))
    words = shlex.split(trial.steps[0].command)
    options = words[words.index("--out") + 2 :]
    assert override(METHODS[name].published(), options) == trial.config


def test_a_method_keeps_its_published_settings_unless_they_are_overridden() -> None:
    config = row_config(ROWS["sfe"], {"views": {"batch": 8}})
    assert (config.optimiser.name, config.optimiser.schedule, config.views.batch) == ("adam", "one-cycle", 8)
    assert row_config(ROWS["sup"]).loss.temperature == 0.25


@pytest.mark.parametrize(
    ("name", "first"), [("mve", "sfe"), ("tpc", "sfe"), ("ours-sfe", "sfe"), ("tpc-polyp", "sfe-polyp")]
)
def test_a_row_that_starts_from_sfe_shares_its_frames_with_it(
    name: str, first: str, data: Datasets, tmp_path: Path
) -> None:
    shared = Shared(tmp_path, frames=961, rates={"sfe": 0.5, "tpc": 0.25})
    trial = make_trial(ROWS[name], 1, f"rows/{name}/seed1", data, shared)
    start = trial.start
    assert start is not None
    assert (start.key, start.row.name, start.config.train.seed) == (f"starts/{first}/seed1", first, 1)
    assert (start.config.train.frames, trial.config.train.frames) == (480, 481)
    assert start.config.optimiser.lr == 0.5
    assert [step.name for step in start.steps] == ["train"]
    assert value_of(trial.steps[0].words, "--init-from") == str(start.run)
    own = make_trial(ROWS[name], 1, f"rows/{name}/seed1", data, Shared(tmp_path))
    assert (own.start is not None, own.config.train.frames) == (True, 0)


def test_other_rows_start_from_the_backbone_weights(data: Datasets, tmp_path: Path) -> None:
    for name in ("ours", "sup", "ta", "sfe", "tpc-scratch", "mve-scratch", "untrained"):
        trial = make_trial(ROWS[name], 0, f"rows/{name}/seed0", data, Shared(tmp_path, frames=960))
        assert trial.start is None
        assert trial.config.train.frames == (0 if name == "untrained" else 960)


@pytest.mark.parametrize(("link", "use"), [("video", "label-free"), ("polyp", "label-free given tracks")])
def test_results_record_which_labels_training_used(
    link: str, use: str, make_dataset: Callable[..., Path], tmp_path: Path
) -> None:
    train = make_dataset(tmp_path / "train", [[2, 2]])
    info = read_json(train / "dataset.json")
    write_json(train / "dataset.json", {**info, "settings": {"tracks": {"link": link}}})
    data = Datasets(train, (train,))
    labels = {
        name: value_of(make_trial(ROWS[name], 0, name, data, Shared(tmp_path)).steps[-1].words, "--labels")
        for name in ("untrained", "ours", "tpc", "tpc-polyp", "sup")
    }
    assert labels == {"untrained": "label-free", "ours": use, "tpc": use, "tpc-polyp": "labels", "sup": "labels"}


def test_labels_that_the_initial_encoder_used_are_recorded(data: Datasets, tmp_path: Path) -> None:
    by_polyp = Shared(tmp_path, {"views": {"source": "polyp"}})  # MVE itself never reads labels, but SFE does
    uses = {name: make_trial(ROWS[name], 0, name, data, by_polyp).label_use for name in ("mve", "mve-scratch", "ours")}
    assert uses == {"mve": "labels", "mve-scratch": "label-free", "ours": "label-free"}


def test_a_model_that_saw_a_test_dataset_is_marked_for_the_tasks_that_use_it(
    make_dataset: Callable[..., Path], tmp_path: Path
) -> None:
    paths = {name: make_dataset(tmp_path / name, [[2, 2]]) for name in ("rc", "sun")}
    sun = Dataset.open(paths["sun"]).tracklets
    save_tracklets(replace(sun, dataset=np.full(len(sun), "sun", object)), paths["sun"] / "tracklets.parquet")
    data = Datasets(None, (paths["rc"],), {"size": (paths["rc"], paths["sun"])})
    row = ComparisonRow("endofm", "EndoFM", "Endoscopy FM", encoder="endofm", seen=("SUN",))
    words = make_trial(row, 0, "rows/endofm/seed0", data, Shared(tmp_path)).steps[-1].words
    assert [words[n + 1] for n, word in enumerate(words) if word == "--trained-on-test"] == ["size"]
    assert [words[n + 1].rpartition("/")[2] for n, word in enumerate(words) if word == "--embeddings-for"] == [
        "rc",
        "sun",
    ]


def test_the_training_part_of_a_published_split_is_embedded_and_given_to_its_task(
    make_dataset: Callable[..., Path], tmp_path: Path
) -> None:
    paths = {name: make_dataset(tmp_path / name, [[2, 2]]) for name in ("rc", "train", "val")}
    data = Datasets(None, (paths["rc"],), {"size": (paths["val"],)}, {"size": (paths["train"],)})
    trial = make_trial(ROWS["colour-grid"], 0, "rows/colour-grid/seed0", data, Shared(tmp_path))
    embedded = {value_of(step.words, "--data"): value_of(step.words, "--out") for step in trial.steps[:-1]}
    assert set(embedded) == {str(path) for path in paths.values()}
    evaluate = trial.steps[-1].words
    assert value_of(evaluate, "--embeddings-for") == f"size={embedded[str(paths['val'])]}"
    assert value_of(evaluate, "--train-for") == f"size={embedded[str(paths['train'])]}"


def test_two_test_datasets_of_one_name_have_separate_vectors() -> None:
    named = names_of([Path("a/test"), Path("b/test"), Path("c/other")])
    assert list(named.values()) == ["test", "test-2", "other"]
    named = names_of([Path("a/test"), Path("b/test"), Path("c/test-2"), Path("d/test")])
    assert list(named.values()) == ["test", "test-2", "test-2-2", "test-3"]


@pytest.mark.parametrize("epochs", [1, 3, 7])
def test_all_methods_see_as_many_frames_as_ours_in_its_epochs(epochs: int, data: Datasets, tmp_path: Path) -> None:
    assert data.train is not None
    settings = {"train": {"epochs": epochs}, "supervision": {"bags_per_batch": 5}}
    frames = frames_of(data, Shared(tmp_path, settings), [ROWS["ours"]])
    dataset = Dataset.open(data.train)
    for name, method in METHODS.items():
        config = row_config(ROWS[name], settings, {"train": {"frames": frames}})
        view = dataset if method.sees_labels(config) else dataset.label_free()
        plan = method.plan(view, config)
        steps = plan.length(config.train)[1]
        per_step = plan.frames_per_step
        assert frames <= steps * per_step < frames + per_step
    config = row_config(ROWS["ours"], settings)
    plan = METHODS["ours"].plan(dataset.label_free(), config)
    with_frames = replace(config, train=replace(config.train, frames=frames))
    assert plan.length(with_frames.train) == plan.length(config.train)


def test_a_given_number_of_frames_is_used(data: Datasets, tmp_path: Path) -> None:
    assert data.train is not None
    assert frames_of(data, Shared(tmp_path, {"train": {"frames": 123}}), [ROWS["ours"]]) == 123
    assert frames_of(data, Shared(tmp_path), [ROWS["untrained"], ROWS["frozen"]]) == 0
