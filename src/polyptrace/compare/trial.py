"""A trial: one row at one training seed, with its resolved settings, its folder and its steps.

    R/rows/ours/seed0/run          train
    R/rows/ours/seed0/embeddings   embed, one folder per test dataset
    R/rows/ours/seed0/results      evaluate

Each step calls the same function as the command of its name, and knows the command line that does the same.
"""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from polyptrace.compare.rows import ROWS, ComparisonRow, row_config
from polyptrace.config import Config, Settings, as_options
from polyptrace.core.console import numbered
from polyptrace.core.errors import UserError
from polyptrace.data import Dataset
from polyptrace.embed import VECTORS_FILE, embed_files
from polyptrace.encoders.encoder import FROZEN, LABEL_USE, most_labels
from polyptrace.evaluate.evaluation import evaluate_files
from polyptrace.evaluate.results import RESULTS_FILE
from polyptrace.evaluate.tasks import TASKS
from polyptrace.methods import METHODS
from polyptrace.train import SECTIONS as TRAINING
from polyptrace.train import train

#: Sections of the settings that a comparison accepts.
SECTIONS = (*TRAINING, "embed", "evaluate")

ROWS_FOLDER, STARTS_FOLDER = "rows", "starts"


@dataclass(frozen=True)
class Datasets:
    """The training dataset, if anything is trained, and the test datasets: for all tasks, or for single tasks.

    `probe_train` gives the training part of a published split, for size or histology.
    """

    train: Path | None
    tests: tuple[Path, ...]
    tests_of: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    probe_train: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)

    def embedded(self) -> list[Path]:
        """Every dataset that is embedded."""
        of_tasks = (*self.tests_of.values(), *self.probe_train.values())
        return list(dict.fromkeys([*self.tests, *(path for paths in of_tasks for path in paths)]))

    def of_task(self, task: str) -> tuple[Path, ...]:
        """The test datasets of a task."""
        return self.tests_of.get(task, self.tests)


@dataclass(frozen=True)
class Shared:
    """What all rows of a comparison have in common."""

    out: Path
    settings: Settings = field(default_factory=dict)  # of the TOML file and the command line
    tasks: tuple[str, ...] = tuple(TASKS)
    frames: int = 0  # on which each row is trained; 0: its own epochs
    rates: Mapping[str, float] = field(default_factory=dict)  # learning rates by row
    starts: str = STARTS_FOLDER  # folder of the trials that others start from


@dataclass(frozen=True)
class Step:
    """One stage of a trial. It is complete when `output` exists, because stages write atomically."""

    name: str  # train, embed or evaluate
    output: Path
    run: Callable[[], Any]
    words: tuple[str, ...]  # arguments of the command that does the same

    @property
    def done(self) -> bool:
        return self.output.exists()

    @property
    def command(self) -> str:
        """The command line, quoted for a shell."""
        return shlex.join(["polyptrace", *self.words])


@dataclass(frozen=True)
class Trial:
    """One row at one training seed."""

    key: str  # rows/ours/seed0: its folder inside the comparison's folder
    row: ComparisonRow
    folder: Path
    data: Datasets
    config: Config  # all settings, resolved
    tasks: tuple[str, ...] = tuple(TASKS)
    start: "Trial | None" = None  # trial whose encoder is the initial one

    @property
    def run(self) -> Path:
        return self.folder / "run"

    @property
    def results(self) -> Path:
        return self.folder / "results"

    @property
    def done(self) -> bool:
        return self.steps[-1].done

    @property
    def label_use(self) -> str:
        """What the training of the row, or of the encoder that it starts from, uses of polyp labels."""
        if not self.row.method or self.data.train is None:
            return self.row.labels
        trained = self.config.train.epochs or self.config.train.frames
        method, data = METHODS[self.row.method], Dataset.open(self.data.train)
        own = method.label_use(data, self.config) if trained else LABEL_USE[0]
        return most_labels(own, self.start.label_use) if self.start else own

    @property
    def steps(self) -> list[Step]:
        """All steps, in order. A trial without test data only trains: other trials start from it."""
        steps = [self._train()] if self.row.method else []
        if self.data.tests:
            steps += [self._embed(test) for test in self.data.embedded()]
            steps.append(self._evaluate())
        return steps

    def pending(self) -> list[Step]:
        """The steps that are not done; training is skipped if all vectors exist."""
        if self.done:
            return []
        steps = [step for step in self.steps if not step.done]
        needs_encoder = not self.data.tests or any(step.name == "embed" for step in steps)
        return [step for step in steps if step.name != "train" or needs_encoder]

    def _train(self) -> Step:
        assert self.data.train is not None
        init_from = str(self.start.run) if self.start else None
        data, out, config = self.data.train, self.run, self.config
        words = ["train", self.row.method, "--data", str(data), "--out", str(out)]
        words += ["--init-from", init_from] if init_from else []
        words += as_options(config, METHODS[self.row.method].published(), TRAINING)
        return Step("train", out / "encoder", lambda: train(config, Dataset.open(data), out, init_from), tuple(words))

    def _embed(self, test: Path) -> Step:
        encoder, weights = str(self.run) if self.row.method else self.row.encoder, self.row.weights or None
        if encoder == FROZEN:
            encoder, weights = FROZEN + self.config.encoder.backbone, self.config.encoder.weights
        out, settings = self._vectors()[test], self.config.embed
        words = ["embed", encoder, *(["--weights", weights] if weights else []), "--data", str(test), "--out", str(out)]
        words += as_options(self.config, Config(), ["embed"])
        run = partial(embed_files, encoder, test, out, weights, settings)
        return Step("embed", out / VECTORS_FILE, run, tuple(words))

    def _evaluate(self) -> Step:
        vectors, row = self._vectors(), self.row
        labels = self.label_use
        seen = tuple(self._tasks_seen())
        words = ["evaluate", *(self.tasks if self.tasks != tuple(TASKS) else ())]
        words += [word for test in self.data.tests for word in ("--embeddings", str(vectors[test]))]
        for option, of_tasks in (("--embeddings-for", self.data.tests_of), ("--train-for", self.data.probe_train)):
            for task, paths in of_tasks.items():
                words += [word for path in paths for word in (option, f"{task}={vectors[path]}")]
        words += ["--name", row.title, "--group", row.group, *(["--labels", labels] if labels else [])]
        words += [word for task in seen for word in ("--trained-on-test", task)]
        words += ["--out", str(self.results), *as_options(self.config, Config(), ["evaluate"])]

        def run() -> None:
            paths = {task: [vectors[test] for test in self.data.of_task(task)] for task in self.tasks}
            parts = {task: [vectors[path] for path in some] for task, some in self.data.probe_train.items()}
            results = evaluate_files(paths, self.config.evaluate, train=parts)
            results = results.described(name=row.title, group=row.group, labels=labels, trained_on_test=seen)
            results.save(self.results)

        return Step("evaluate", self.results / RESULTS_FILE, run, tuple(words))

    def _vectors(self) -> dict[Path, Path]:
        return {test: self.folder / "embeddings" / name for test, name in names_of(self.data.embedded()).items()}

    def _tasks_seen(self) -> Iterable[str]:
        """Tasks whose test data the row's pretraining used."""
        for task in TASKS if self.row.seen else ():
            tested = {str(n).lower() for test in self.data.of_task(task) for n in Dataset.open(test).tracklets.dataset}
            if tested & {name.lower() for name in self.row.seen}:
                yield task


def make_trial(row: ComparisonRow, seed: int, key: str, data: Datasets, shared: Shared) -> Trial:
    """The trial of a row. One that starts from another row shares the frames with it: each is trained on half."""
    if row.method and data.train is None:
        raise UserError(f"{row.name}: needs training data -> give --data DATASET")
    start, frames = None, shared.frames
    if row.start:
        half = replace(shared, frames=frames // 2)
        start_key = f"{shared.starts}/{row.start}/seed{seed}"
        start = make_trial(ROWS[row.start], seed, start_key, Datasets(data.train, ()), half)
        frames -= half.frames
    layers: list[Settings] = [shared.settings]
    if row.method:
        layers += [{"train": {"seed": seed, **({"frames": frames} if frames else {})}}, rate_setting(row, shared.rates)]
    return Trial(key, row, shared.out / key, data, row_config(row, *layers), shared.tasks, start)


def rate_setting(row: ComparisonRow, rates: Mapping[str, float]) -> Settings:
    """The learning rate of a row as a setting; a variant without its own has the rate of its method."""
    rate = rates.get(row.name, rates.get(row.method))
    return {} if rate is None or not row.trained else {"optimiser": {"lr": rate}}


def frames_of(data: Datasets, shared: Shared, rows: Sequence[ComparisonRow]) -> int:
    """The number of frames on which every row is trained: as many as ours in its epochs; 0 if nothing is trained."""
    if data.train is None or not any(row.trained for row in rows):
        return 0
    config = row_config(ROWS["ours"], shared.settings)
    if config.train.frames:
        return config.train.frames
    plan = METHODS["ours"].plan(Dataset.open(data.train).label_free(), config)
    return plan.steps(config.train.epochs) * plan.frames_per_step


def names_of(datasets: Sequence[Path]) -> dict[Path, str]:
    """A folder name for the vectors of each dataset: its own name, numbered if another has it."""
    names: dict[Path, str] = {}
    for path in datasets:
        names[path] = next(name for name in numbered(path.resolve().name) if name not in names.values())
    return names
