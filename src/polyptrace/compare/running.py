"""Runs trials, some at a time: what is done is skipped, what fails is written down and does not stop the others."""

import json
import shutil
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, Literal

from polyptrace.compare.plan import SECTIONS, Trial
from polyptrace.config import as_dict
from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_file, file_hash, read_json, write_json
from polyptrace.core.reuse import HARMLESS

#: Runs one command line (without the program's name); raises what went wrong.
Execute = Callable[[Sequence[str], Path], None]

Keep = Literal["all", "vectors"]

RECORD, ERROR = "row.json", "error.txt"


@dataclass(frozen=True)
class Failure:
    """A trial that did not come to its end."""

    key: str
    message: str
    file: Path  # all of it


def run_trials(
    trials: Sequence[Trial],
    execute: Execute,
    keep: Keep = "all",
    say: Callable[[str], None] = lambda _: None,
    at_once: int = 1,
) -> list[Failure]:
    """Runs what is not done yet, so many trials at a time; gives the failures, in the order of the trials."""
    stopped = Event()
    run = _until(stopped, execute)

    def attempt(place: int, trial: Trial) -> Failure | None:
        done = " (done)" if trial.done else ""
        say(f"[{place}/{len(trials)}] {trial.key}{done}")
        try:
            run_trial(trial, run, keep)
        except Exception as error:  # whatever it is: the other rows have nothing to do with it
            failure = _write_failure(trial, error)
            say(f"{trial.key}: failed, {failure.message}")
            return failure
        if at_once > 1 and not done:
            say(f"{trial.key}: done")
        return None

    numbers = range(1, len(trials) + 1)
    if at_once == 1:
        found = list(map(attempt, numbers, trials))
    else:
        pool = ThreadPoolExecutor(at_once)
        try:
            found = list(pool.map(attempt, numbers, trials))
        finally:
            stopped.set()  # after Ctrl-C nothing more is begun: no command of the trials under way, no other trial
            pool.shutdown(cancel_futures=True)
    return [failure for failure in found if failure]


def _until(stopped: Event, execute: Execute) -> Execute:
    """Runs commands until one of them is interrupted, or all are to stop."""

    def run(words: Sequence[str], folder: Path) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        try:
            execute(words, folder)
        except KeyboardInterrupt:
            stopped.set()
            raise

    return run


def failure_of(trial: Trial) -> str:
    """What a trial that failed says, in one line; "" if it has not failed."""
    path = trial.folder / ERROR
    return path.read_text(encoding="utf-8").partition("\n")[0] if path.exists() else ""


def run_trial(trial: Trial, execute: Execute, keep: Keep = "all") -> None:
    """Runs the commands of a trial that are still to be run, in its folder; refuses one that was begun otherwise."""
    record = _record(trial)
    for abandoned in trial.folder.rglob(".*.partial"):  # by a run that was killed
        shutil.rmtree(abandoned) if abandoned.is_dir() else abandoned.unlink()
    for step in trial.pending():
        began = time.monotonic()
        execute(step.words, trial.folder)
        if not step.done:
            raise UserError(f"{trial.key}: '{step.words[0]}' ended without {step.makes} -> run its line by itself")
        record["seconds"][step.line] = round(time.monotonic() - began, 1)
        write_json(trial.folder / RECORD, record)
    (trial.folder / ERROR).unlink(missing_ok=True)
    if keep == "vectors":
        for weights in ("checkpoints", "encoder"):
            shutil.rmtree(trial.folder / "run" / weights, ignore_errors=True)


def _record(trial: Trial) -> dict[str, Any]:
    """What is written beside a trial's results: what it is and how long it took; refuses one that is another."""
    path = trial.folder / RECORD
    recipe = json.loads(json.dumps(recipe_of(trial)))
    if not path.exists():
        record = {"recipe": recipe, "commands": [step.line for step in trial.steps], "seconds": {}}
        write_json(path, record)
        return record
    written: dict[str, Any] = read_json(path)
    changed = _differences(written["recipe"], recipe)
    if changed:
        listed = "; ".join(changed[:4])
        raise UserError(f"{trial.folder}: was made otherwise ({listed}) -> give another --out, or remove this folder")
    return written


def recipe_of(trial: Trial) -> dict[str, Any]:
    """What decides the results of a trial: the row, its settings, the datasets by their hashes."""
    sections = SECTIONS if trial.row.method else ("embed", "evaluate")
    settings = {
        f"{section}.{key}": value
        for section, values in as_dict(trial.config, sections).items()
        for key, value in values.items()
        if f"{section}.{key}" not in HARMLESS
    }
    encoder = {"encoder": trial.row.encoder, "weights": trial.row.weights}
    return {
        "row": trial.row.name,
        "title": trial.row.title,
        **(encoder if not trial.row.method else {"train": _identity(trial.data.train)}),
        "tests": {task: [_identity(test) for test in tests] for task, tests in _tests(trial).items()},
        **settings,
    }


def _tests(trial: Trial) -> dict[str, tuple[Path, ...]]:
    return {"all": trial.data.tests, **trial.data.tests_of}


def _identity(dataset: Path | None) -> dict[str, Any]:
    """What tells a dataset from another, wherever it lies: its tracklets, and how their crops were cut."""
    assert dataset is not None, "a trial that trains has training data"
    cut = read_json(dataset / "dataset.json").get("settings", {}).get("crops", {})
    return {"tracklets": file_hash(dataset / "tracklets.parquet"), **{k: v for k, v in cut.items() if k != "workers"}}


def _differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What both have and is not the same: another version of the program may know more settings, or fewer."""
    return [f"{key}: {old[key]} -> {new[key]}" for key in old if key in new and old[key] != new[key]]


def _write_failure(trial: Trial, error: Exception) -> Failure:
    """Keeps the error's whole text in the trial's folder."""
    expected = isinstance(error, UserError)
    message = str(error) if expected else f"{type(error).__name__}: {error}"
    trace = "" if expected else "".join(traceback.format_exception(error))
    commands = "\n".join(step.line for step in trial.pending())
    path = trial.folder / ERROR
    with atomic_file(path) as temporary:
        temporary.write_text(f"{message}\n\nstill to be run:\n{commands}\n\n{trace}", encoding="utf-8")
    return Failure(trial.key, message, path)
