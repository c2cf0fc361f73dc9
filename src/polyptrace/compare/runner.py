"""Runs trials: completed steps are skipped, and a failure is recorded without stopping the other rows.

Each trial's folder has a `row.json`: the resolved row, the fingerprints of its datasets, the commands that reproduce it
and the duration of its steps. A worker process (`python -m polyptrace.compare.runner FOLDER all|vectors`) needs nothing
else to run the trial.

Several rows run at a time in `Workers`: GPUs take turns, CPU cores are shared. At 112 pixels a training step keeps a
large GPU busy for less time than Python needs to launch it, so several rows on one GPU finish sooner than one after the
other. A row that crashes does not affect the others.

The standard input of all workers is one pipe, to which nothing is written. A worker ends when the pipe does: after a
SIGTERM or SIGINT, which may reach this process only (Ctrl-C reaches all processes of a terminal), or when this process
is killed. It stops like after SIGTERM: training writes a checkpoint first.
"""

import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from types import FrameType
from typing import Any, Literal

import torch

from polyptrace.compare.trial import Trial
from polyptrace.config import difference
from polyptrace.core.console import notify
from polyptrace.core.device import usable_cores
from polyptrace.core.errors import UserError
from polyptrace.core.files import (
    atomic_file,
    differences,
    file_hash,
    read_json,
    refuse_changes,
    remove_temporary_files,
    write_json,
)
from polyptrace.core.lock import InUseError, lock
from polyptrace.core.schema import from_json
from polyptrace.data.dataset import read_info
from polyptrace.embed.partial import remove_leftovers
from polyptrace.train import SHARED_BY

Keep = Literal["all", "vectors"]

RECORD, ERROR = "row.json", "error.txt"


@dataclass(frozen=True)
class _Record:
    """The fields of `row.json`."""

    trial: Trial
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
    run: Callable[[Trial, Keep], None] | None = None,
    at_once: int = 0,
) -> list[Failure]:
    """Runs the trials, and before them those they start from; returns the failures in order.

    `run` runs one trial that is not complete: `run_trial` by default, or a worker process. Each runs in one of
    `at_once` threads, or in this one if that is 0: training in this process belongs to the main thread.
    """
    ordered = with_starts(trials)
    stopped, futures = Event(), dict[str, "Future[Failure | None]"]()

    def attempt(number: int, trial: Trial) -> Failure | None:
        if stopped.is_set():
            raise KeyboardInterrupt
        if trial.start and not trial.done and futures:
            futures[trial.start.key].result()  # it was submitted earlier, so it is running or finished
        notify(f"[{number}/{len(ordered)}] {trial.key}{' (done)' if trial.done else ''}", style="bold")
        try:
            with lock(trial.folder):
                _check_start(trial)
                (run_trial if trial.done or run is None else run)(trial, keep)
        except KeyboardInterrupt:
            stopped.set()
            raise
        except InUseError as error:  # not a failure of the trial, which runs elsewhere
            return Failure(trial.key, str(error), trial.folder)
        except Exception as error:  # any failure is recorded and must not stop the other rows
            # a finished row that is refused, because it was made with other settings, keeps its results in the tables
            failure = Failure(trial.key, str(error), trial.folder) if trial.done else _record_failure(trial, error)
            notify(f"{trial.key}: failed, {failure.message}", style="bold")
            return failure
        return None

    if not at_once:
        return [*filter(None, (attempt(number, trial) for number, trial in enumerate(ordered, 1)))]
    with ThreadPoolExecutor(at_once) as pool:
        try:
            for number, trial in enumerate(ordered, 1):
                futures[trial.key] = pool.submit(attempt, number, trial)
            while wait(futures.values(), timeout=0.1).not_done:  # an unlimited wait may miss a signal just before it
                pass
            return [*filter(None, (future.result() for future in futures.values()))]
        finally:
            stopped.set()  # after Ctrl-C no other trial begins


def with_starts(trials: Sequence[Trial]) -> list[Trial]:
    """The trials in running order: first those that others start from, last those that start from others."""
    starts = {trial.start.key: trial.start for trial in trials if trial.start and not trial.done}
    return [*starts.values(), *sorted(trials, key=lambda trial: trial.start is not None)]


def run_trial(trial: Trial, keep: Keep = "all") -> None:
    """Runs the pending steps of a trial in this process; refuses a folder that was made with other settings."""
    record = begin_trial(trial)
    remove_temporary_files(trial.folder)
    with lock(trial.run):
        pass  # removes the lock file of a process that was killed at the end of the training
    for step in trial.steps:
        if step.name == "embed" and step.done:
            remove_leftovers(step.output.parent)
    for step in trial.pending():
        began = time.monotonic()
        try:
            step.run()
        finally:
            _free_memory()
        if not step.done:
            raise UserError(f"{trial.key}: {step.name} ended without {step.output} -> run: {step.command}")
        record.seconds[step.command] = round(time.monotonic() - began, 1)
        _write_record(record)
    (trial.folder / ERROR).unlink(missing_ok=True)
    if keep == "vectors" and trial.data.tests:
        for weights in ("checkpoints", "encoder"):
            shutil.rmtree(trial.run / weights, ignore_errors=True)


def begin_trial(trial: Trial) -> _Record:
    """Writes `row.json`; refuses a folder whose `row.json` has other settings or inputs.

    The paths of a row that is not complete may have changed, if it was moved: the new ones are recorded.
    """
    record = _Record(trial, _inputs(trial), [step.command for step in trial.steps], {})
    if (trial.folder / RECORD).exists():
        earlier = _read_record(trial.folder)
        changed = difference(earlier.trial.config, trial.config, trial.row.sections)
        changed += differences(earlier.inputs, record.inputs)
        refuse_changes(f"{trial.folder}: this row was made", changed, "give another --out, or remove this folder")
        if trial.done:
            return earlier
        record = replace(record, seconds=earlier.seconds)
    _write_record(record)
    return record


def load_trial(folder: Path) -> Trial:
    """The trial that `row.json` in a folder describes."""
    return _read_record(folder).trial


def _write_record(record: _Record) -> None:
    write_json(record.trial.folder / RECORD, json.loads(json.dumps(asdict(record), default=str)))  # paths as text


def _read_record(folder: Path) -> _Record:
    path = folder / RECORD
    return from_json(_Record, read_json(path), str(path), "give another --out, or remove this folder")


def failure_of(trial: Trial) -> str:
    """The first line of a failed trial's error; "" if it has not failed."""
    path = trial.folder / ERROR
    return path.read_text(encoding="utf-8").partition("\n")[0] if path.exists() else ""


def _inputs(trial: Trial) -> dict[str, Any]:
    """What else decides the results of a trial: the encoder, the tasks, and the fingerprints of the datasets."""
    tests = {"all": trial.data.tests, **trial.data.tests_of}
    probe_train = {task: [_fingerprint(path) for path in paths] for task, paths in trial.data.probe_train.items()}
    return {
        "title": trial.row.title,
        "encoder": trial.row.encoder,
        "weights": trial.row.weights,
        "start": trial.start.key if trial.start else "",
        "tasks": list(trial.tasks) if trial.data.tests else [],
        "train": _fingerprint(trial.data.train) if trial.row.method and trial.data.train else {},
        "tests": {task: [_fingerprint(test) for test in paths] for task, paths in tests.items()},
        **({"probe_train": probe_train} if probe_train else {}),
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


LOG = "log.txt"
INTERRUPTED = (-signal.SIGINT, 128 + signal.SIGINT)
TERMINATED = (-signal.SIGTERM, 128 + signal.SIGTERM)
SIGNALS = (signal.SIGTERM, signal.SIGINT)
#: Seconds within which a SIGTERM that was sent to all processes of a job reaches all of them.
SAME_SIGNAL = 1.0
VISIBLE, THREADS = "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS"


class Workers:
    """Runs each trial in a separate process, at most `at_once` at a time."""

    def __init__(self, at_once: int) -> None:
        gpus = visible_gpus()
        threads = str(max(1, usable_cores() // at_once))
        self._free: SimpleQueue[dict[str, str]] = SimpleQueue()
        for slot in range(at_once):
            self._free.put({THREADS: threads, **os.environ, **_gpu_variables(slot, at_once, gpus)})
        self._stdin, self._open_end = os.pipe()  # of all workers, which end when the other end is closed
        self._signals = 0
        self._running: set[subprocess.Popen[bytes]] = set()

    def __call__(self, trial: Trial, keep: Keep = "all") -> None:
        """Runs a trial; its output goes to log.txt in its folder. After a signal nothing is started."""
        if self._signals:
            raise KeyboardInterrupt
        begin_trial(trial)
        command = [sys.executable, "-m", "polyptrace.compare.runner", str(trial.folder), keep]
        environment = self._free.get()
        try:
            with (trial.folder / LOG).open("ab") as file:
                offset = file.tell()
                process = subprocess.Popen(  # noqa: S603
                    command, stdin=self._stdin, stdout=file, stderr=file, env=environment
                )
            self._running.add(process)
            if self._signals > 1:
                process.terminate()
            code = process.wait()
            self._running.remove(process)
        finally:
            self._free.put(environment)
        if code in TERMINATED and not self._signals:
            time.sleep(SAME_SIGNAL)
        if code in INTERRUPTED or self._signals:
            raise KeyboardInterrupt  # not a failure
        if code:
            text = (trial.folder / LOG).read_bytes()[offset:].decode("utf-8", "replace").strip()
            raise UserError(f"the row's process ended with code {code}: {text[-2000:] or 'no output'}")

    @contextmanager
    def ended_by_signals(self) -> Iterator[None]:
        """Inside this block, SIGTERM and SIGINT end all workers; then KeyboardInterrupt is raised. For the main thread.

        A second signal ends the workers at once, without a checkpoint.
        """

        def end(_number: int, _frame: FrameType | None) -> None:  # raising here would interrupt the wait for workers
            self._signals += 1
            if self._signals == 1:
                os.close(self._open_end)
            else:
                for process in tuple(self._running):
                    process.terminate()

        handled = [each for each in SIGNALS if signal.getsignal(each) != signal.SIG_IGN]  # ignored: in the background
        before = {each: signal.signal(each, end) for each in handled}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)
        if self._signals:
            raise KeyboardInterrupt


def _gpu_variables(slot: int, at_once: int, gpus: Sequence[str]) -> dict[str, str]:
    """Environment variables with the GPU of a slot and the number of rows that share it; a single row has all GPUs."""
    if at_once == 1 or not gpus:
        return {}
    turn = slot % len(gpus)
    return {VISIBLE: gpus[turn], SHARED_BY: str(len(range(turn, at_once, len(gpus))))}


def visible_gpus() -> list[str]:
    """The GPUs that this process may use, as in CUDA_VISIBLE_DEVICES."""
    named = os.environ.get(VISIBLE)
    if named is None:
        return [str(number) for number in range(torch.cuda.device_count())]
    return [name.strip() for name in named.split(",") if name.strip()]


def work(folder: Path, keep: Keep) -> int:
    """Runs the trial that `row.json` in a folder describes; returns the exit code."""
    try:
        run_trial(load_trial(folder), keep)
    except UserError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


def end_with_parent() -> None:
    """Sends SIGTERM to this process when its standard input ends."""

    def wait() -> None:
        os.read(0, 1)  # returns at the end; the lock of `sys.stdin` would block the exit
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    end_with_parent()
    sys.exit(work(Path(sys.argv[1]), "vectors" if sys.argv[2] == "vectors" else "all"))
