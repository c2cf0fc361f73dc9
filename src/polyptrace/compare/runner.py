"""Runs trials: completed steps are skipped, and a failure is recorded without stopping the other rows.

Each trial's folder has a `row.json`: the resolved row, the fingerprints of its datasets, the commands that reproduce it
and the duration of its steps. A worker process needs nothing else to run the trial.
"""

import gc
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event
from typing import Any, Literal

import torch

from polyptrace.compare.rows import ComparisonRow
from polyptrace.compare.trial import Datasets, Trial
from polyptrace.config import as_dict, difference, from_dict
from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_file, file_hash, read_json, remove_partial, write_json
from polyptrace.core.lock import InUseError, lock
from polyptrace.core.reuse import differences, refuse_changes
from polyptrace.core.schema import from_json
from polyptrace.data.dataset import read_info

Keep = Literal["all", "vectors"]

RECORD, ERROR = "row.json", "error.txt"


@dataclass(frozen=True)
class _TrialRecord:
    """A trial as JSON."""

    key: str
    row: ComparisonRow
    folder: str
    train: str | None
    tests: list[str]
    tests_of: dict[str, list[str]]
    config: dict[str, dict[str, Any]]
    tasks: list[str]
    start: "_TrialRecord | None"


@dataclass(frozen=True)
class _Record:
    """The fields of `row.json`."""

    trial: _TrialRecord
    inputs: dict[str, Any]
    commands: list[str]
    seconds: dict[str, float]  # by command


@dataclass(frozen=True)
class Failure:
    """A trial that failed."""

    key: str
    message: str
    file: Path  # with the full text


def run_trials(
    trials: Sequence[Trial],
    keep: Keep = "all",
    say: Callable[[str], None] = lambda _: None,
    run: Callable[[Trial, Keep], None] | None = None,
    at_once: int = 1,
) -> list[Failure]:
    """Runs the trials, and before them those they start from, `at_once` at a time; returns the failures in order.

    `run` runs one trial: `run_trial` in this process by default, or a worker process.
    """
    ordered = with_starts(trials)
    stopped, futures = Event(), dict[str, "Future[Failure | None]"]()

    def attempt(number: int, trial: Trial) -> Failure | None:
        if stopped.is_set():
            raise KeyboardInterrupt
        if trial.start and not trial.done:
            futures[trial.start.key].result()  # it was submitted earlier, so it is running or finished
        say(f"[{number}/{len(ordered)}] {trial.key}{' (done)' if trial.done else ''}")
        try:
            with lock(trial.folder):
                _check_start(trial)
                (run or run_trial)(trial, keep)
        except KeyboardInterrupt:
            stopped.set()
            raise
        except InUseError as error:  # not a failure of the trial, which runs elsewhere
            return Failure(trial.key, str(error), trial.folder)
        except Exception as error:  # any failure is recorded and must not stop the other rows
            # a finished row that is refused, because it was made with other settings, keeps its results in the tables
            failure = Failure(trial.key, str(error), trial.folder) if trial.done else _record_failure(trial, error)
            say(f"{trial.key}: failed, {failure.message}")
            return failure
        return None

    pool: ThreadPoolExecutor | _ThisThread = ThreadPoolExecutor(at_once) if at_once > 1 else _ThisThread()
    try:
        for number, trial in enumerate(ordered, 1):
            futures[trial.key] = pool.submit(attempt, number, trial)
        failures = [future.result() for future in futures.values()]
    finally:
        stopped.set()  # after Ctrl-C no other trial begins
        pool.shutdown(cancel_futures=True)
    return [failure for failure in failures if failure]


class _ThisThread:
    """Runs what is submitted at once, in the calling thread: in-process training belongs to the main thread."""

    def submit(self, function: Callable[..., Failure | None], *arguments: Any) -> "Future[Failure | None]":
        future: Future[Failure | None] = Future()
        future.set_result(function(*arguments))
        return future

    def shutdown(self, cancel_futures: bool = True) -> None:
        """Nothing is left running."""


def with_starts(trials: Sequence[Trial]) -> list[Trial]:
    """The trials in running order: first those that others start from, last those that start from others."""
    starts = {trial.start.key: trial.start for trial in trials if trial.start and not trial.done}
    return [*starts.values(), *sorted(trials, key=lambda trial: trial.start is not None)]


def run_trial(trial: Trial, keep: Keep = "all") -> None:
    """Runs the pending steps of a trial in this process; refuses a folder that was made with other settings."""
    record = begin_trial(trial)
    remove_partial(trial.folder)
    for step in trial.pending():
        began = time.monotonic()
        try:
            step.run()
        finally:
            _free_memory()
        if not step.done:
            raise UserError(f"{trial.key}: {step.name} ended without {step.output} -> run: {step.command}")
        record.seconds[step.command] = round(time.monotonic() - began, 1)
        write_json(trial.folder / RECORD, asdict(record))
    (trial.folder / ERROR).unlink(missing_ok=True)
    if keep == "vectors" and trial.data.tests:
        for weights in ("checkpoints", "encoder"):
            shutil.rmtree(trial.run / weights, ignore_errors=True)


def begin_trial(trial: Trial) -> _Record:
    """Writes `row.json`, or returns the existing one if it describes the same row."""
    path = trial.folder / RECORD
    inputs = _inputs(trial)
    if not path.exists():
        record = _Record(_as_record(trial), inputs, [step.command for step in trial.steps], {})
        write_json(path, asdict(record))
        return record
    record = _read_record(trial.folder)
    sections = trial.row.sections
    made = from_dict({name: record.trial.config.get(name, {}) for name in sections}, where=str(path))
    changed = difference(made, trial.config, sections) + differences(record.inputs, inputs)
    refuse_changes(f"{trial.folder}: this row was made", changed, "give another --out, or remove this folder")
    return record


def load_trial(folder: Path) -> Trial:
    """The trial that `row.json` in a folder describes."""
    return _as_trial(_read_record(folder).trial)


def _read_record(folder: Path) -> _Record:
    path = folder / RECORD
    return from_json(_Record, read_json(path), str(path), "give another --out, or remove this folder")


def failure_of(trial: Trial) -> str:
    """The first line of a failed trial's error; "" if it has not failed."""
    path = trial.folder / ERROR
    return path.read_text(encoding="utf-8").partition("\n")[0] if path.exists() else ""


def _as_record(trial: Trial) -> _TrialRecord:
    return _TrialRecord(
        trial.key,
        trial.row,
        str(trial.folder),
        str(trial.data.train) if trial.data.train else None,
        [str(path) for path in trial.data.tests],
        {task: [str(path) for path in paths] for task, paths in trial.data.tests_of.items()},
        as_dict(trial.config, trial.row.sections),
        list(trial.tasks),
        _as_record(trial.start) if trial.start else None,
    )


def _as_trial(record: _TrialRecord) -> Trial:
    tests_of = {task: tuple(map(Path, paths)) for task, paths in record.tests_of.items()}
    return Trial(
        record.key,
        record.row,
        Path(record.folder),
        Datasets(Path(record.train) if record.train else None, tuple(map(Path, record.tests)), tests_of),
        from_dict(record.config, where=record.key),
        tuple(record.tasks),
        _as_trial(record.start) if record.start else None,
    )


def _inputs(trial: Trial) -> dict[str, Any]:
    """What else decides the results of a trial: the encoder, the tasks, and the fingerprints of the datasets."""
    tests = {"all": trial.data.tests, **trial.data.tests_of}
    return {
        "title": trial.row.title,
        "encoder": trial.row.encoder,
        "weights": trial.row.weights,
        "start": trial.start.key if trial.start else "",
        "tasks": list(trial.tasks) if trial.data.tests else [],
        "train": _fingerprint(trial.data.train) if trial.row.method and trial.data.train else {},
        "tests": {task: [_fingerprint(test) for test in paths] for task, paths in tests.items()},
    }


def _fingerprint(dataset: Path) -> dict[str, Any]:
    """Identifies a dataset wherever it is stored: the hash of its tracklets, and how their crops were cut."""
    crops = read_info(dataset).get("settings", {}).get("crops", {})
    return {"tracklets": file_hash(dataset / "tracklets.parquet"), **{k: v for k, v in crops.items() if k != "workers"}}


def _check_start(trial: Trial) -> None:
    if trial.start and not trial.start.done and any(step.name == "train" for step in trial.pending()):
        reason = failure_of(trial.start)
        raise UserError(f"{trial.key}: starts from {trial.start.key}, which failed -> fix that first ({reason})")


def _free_memory() -> None:
    """Releases what a step leaves on the GPU and in the compiler."""
    if "torch._dynamo" in sys.modules:  # importing it takes seconds, and without it nothing was compiled
        torch.compiler.reset()
    if torch.cuda.is_available():
        gc.collect()
        torch.cuda.empty_cache()


def _record_failure(trial: Trial, error: Exception) -> Failure:
    """Writes the error and the commands that are left to run into the trial's folder."""
    expected = isinstance(error, UserError)
    message = str(error) if expected else f"{type(error).__name__}: {error}"
    trace = "" if expected else "".join(traceback.format_exception(error))
    commands = "\n".join(step.command for step in trial.pending())
    path = trial.folder / ERROR
    with atomic_file(path) as temporary:
        temporary.write_text(f"{message}\n\nnot run yet:\n{commands}\n\n{trace}", encoding="utf-8")
    return Failure(trial.key, message, path)
