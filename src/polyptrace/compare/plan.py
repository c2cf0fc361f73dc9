"""From rows to command lines: each row at each training seed is a trial, three or more commands in a folder of its own.

    R/rows/ours/seed0/run          polyptrace train ours --data TRAIN --out ...
    R/rows/ours/seed0/embeddings   polyptrace embed R/rows/ours/seed0/run --data TEST --out ...
    R/rows/ours/seed0/results      polyptrace evaluate --embeddings ... --out ...

What is run is exactly what is printed: anybody can copy a line and get the same row.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from polyptrace.compare.rows import Row
from polyptrace.config import Config, override, read_config
from polyptrace.core.errors import UserError
from polyptrace.data import Dataset
from polyptrace.evaluate import TASKS
from polyptrace.methods import METHODS
from polyptrace.train import SECTIONS as TRAINING

#: Sections whose settings a comparison takes, and hands to the command that uses them.
SECTIONS = (*TRAINING, "embed", "evaluate")

ROWS_FOLDER, VARIANTS_FOLDER, SEARCH_FOLDER, SWEEP_FOLDER = "rows", "variants", "search", "sweep"


@dataclass(frozen=True)
class Data:
    """The dataset that trains, where something is trained, and those that test: for every task, or for one."""

    train: Path | None
    tests: tuple[Path, ...]
    tests_of: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)

    def all_tests(self) -> list[Path]:
        """Every dataset that is embedded."""
        return list(dict.fromkeys([*self.tests, *(path for paths in self.tests_of.values() for path in paths)]))

    def of_task(self, task: str) -> tuple[Path, ...]:
        """The datasets of a task."""
        return self.tests_of.get(task, self.tests)


@dataclass(frozen=True)
class Given:
    """What holds for all rows of a comparison."""

    out: Path
    settings: Mapping[str, str] = field(default_factory=dict)  # section.key: value
    config_file: Path | None = None
    tasks: tuple[str, ...] = ()  # none: all


@dataclass(frozen=True)
class Step:
    """One command, and the path that is there when it is done: commands write whole folders or nothing."""

    words: tuple[str, ...]
    makes: Path

    @property
    def done(self) -> bool:
        return self.makes.exists()

    @property
    def line(self) -> str:
        """The command as a shell takes it."""
        return shlex.join(["polyptrace", *self.words])


@dataclass(frozen=True)
class Trial:
    """One row at one training seed."""

    key: str  # rows/ours/seed0: its folder below the comparison's
    row: Row
    seed: int
    folder: Path
    data: Data
    config: Config  # all settings, resolved
    train: Step | None
    embeds: tuple[Step, ...]
    evaluate: Step

    @property
    def done(self) -> bool:
        return self.evaluate.done

    @property
    def results(self) -> Path:
        return self.evaluate.makes.parent

    @property
    def steps(self) -> list[Step]:
        """All commands, in order."""
        return [*([self.train] if self.train else []), *self.embeds, self.evaluate]

    def pending(self) -> list[Step]:
        """The commands that are still to be run; weights are needed only for vectors that are not there."""
        if self.done:
            return []
        embeds = [step for step in self.embeds if not step.done]
        train = [self.train] if self.train and embeds and not self.train.done else []
        return [*train, *embeds, self.evaluate]


def make_trial(
    row: Row, seed: int, key: str, data: Data, given: Given, extra: Mapping[str, str] | None = None
) -> Trial:
    """The trial of a row; `extra` settings (frames to see, a rate) come before what makes the row what it is."""
    if row.method and data.train is None:
        raise UserError(f"{row.name}: has to be trained -> give --data DATASET")
    folder = given.out / key
    own = {**row.settings, "train.seed": str(seed)} if row.method else {}
    settings = {**given.settings, **(extra or {} if row.method else {}), **own}
    config = resolve(row.method, settings, given.config_file)
    encoder = str(folder / "run") if row.method else row.encoder
    train = None
    if row.method:
        words = ("train", row.method, "--data", str(data.train), "--out", encoder)
        train = Step((*words, *_options(settings, TRAINING, given)), folder / "run" / "encoder")
    vectors = {test: folder / "embeddings" / name for test, name in test_names(data.all_tests()).items()}
    weights = ("--weights", row.weights) if row.weights else ()
    embeds = tuple(
        Step(
            (
                "embed",
                encoder,
                *weights,
                "--data",
                str(test),
                "--out",
                str(place),
                *_options(settings, ["embed"], given),
            ),
            place / "embeddings.parquet",
        )
        for test, place in vectors.items()
    )
    measured = ("evaluate", *given.tasks, *_inputs(data, vectors), *_told(row, config, data))
    out = folder / "results"
    evaluate = Step(
        (*measured, "--out", str(out), *_options(settings, ["evaluate"], given)),
        out / "results.json",
    )
    return Trial(key, row, seed, folder, data, config, train, embeds, evaluate)


def resolve(method: str, settings: Mapping[str, str], config_file: Path | None) -> Config:
    """All settings of a row: the method's published ones, the file's, then those that are given."""
    base = read_config(config_file, METHODS[method].published() if method else None)
    return override(base, [f"--{name}={value}" for name, value in settings.items()], SECTIONS)


def frames_of_ours(data: Path, given: Given) -> int:
    """The frames that our method sees in its epochs on a dataset: what every other method gets as well."""
    config = resolve("ours", given.settings, given.config_file)
    if config.train.frames:
        return config.train.frames
    plan = METHODS["ours"].plan(Dataset.open(data).label_free(), config)
    in_a_step = (plan.epoch(0, 1).batch(0).rows >= 0).sum()  # as training counts them
    return int(plan.steps(config.train.epochs) * in_a_step)


def label_use(row: Row, config: Config, train: Path | None) -> str:
    """What the training of a row uses of labels, in the words of the results."""
    if not row.method or train is None:
        return row.labels
    if not (config.train.epochs or config.train.frames):  # nothing is trained
        return "label-free"
    if METHODS[row.method].sees_labels(config):
        return "labels"
    link = Dataset.open(train).info.get("settings", {}).get("tracks", {}).get("link", "video")
    return "label-free" if link == "video" else "label-free given tracks"


def test_names(tests: Sequence[Path]) -> dict[Path, str]:
    """A folder name for the vectors of each test dataset: its own, with a number where two have the same."""
    names: dict[Path, str] = {}
    for path in tests:
        name = path.resolve().name
        same = sum(other.resolve().name == name for other in names)
        names[path] = f"{name}-{same + 1}" if same else name
    return names


def _inputs(data: Data, vectors: Mapping[Path, Path]) -> Iterable[str]:
    for test in data.tests:
        yield from ("--embeddings", str(vectors[test]))
    for task, tests in data.tests_of.items():
        for test in tests:
            yield from ("--embeddings-for", f"{task}={vectors[test]}")


def _told(row: Row, config: Config, data: Data) -> Iterable[str]:
    """What the results say about the row."""
    yield from ("--name", row.title, "--group", row.group)
    labels = label_use(row, config, data.train)
    if labels:
        yield from ("--labels", labels)
    for task in TASKS if row.seen else ():
        tested = {str(n).lower() for test in data.of_task(task) for n in Dataset.open(test).tracklets.dataset}
        if tested & {name.lower() for name in row.seen}:
            yield from ("--trained-on-test", task)


def _options(settings: Mapping[str, str], sections: Sequence[str], given: Given) -> list[str]:
    """The settings of some sections as words of a command line."""
    words = ["--config", str(given.config_file)] if given.config_file else []
    for name, value in settings.items():
        if name.partition(".")[0] in sections:
            words += [f"--{name}", value]
    return words
