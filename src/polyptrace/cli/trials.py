"""What `compare` and `ablate` share: their options, running the rows, the search for rates, what is said at the end."""

import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import torch
import typer
from rich.markup import escape

from polyptrace.cli import INTERRUPTED, build
from polyptrace.compare import (
    RATES_FILE,
    SECTIONS,
    Data,
    Failure,
    Given,
    Processes,
    Row,
    Trial,
    choose_rates,
    failure_of,
    frames_of_ours,
    read_rates,
    run_trials,
    search_trials,
    searched,
    write_rates,
)
from polyptrace.config import override, read_config
from polyptrace.core.console import console
from polyptrace.core.errors import UserError
from polyptrace.evaluate import TASKS

TrainData = Annotated[Path | None, typer.Option("--data", help="Dataset that all rows are trained on.")]
TestData = Annotated[list[Path] | None, typer.Option("--eval", help="Dataset that all are measured on; repeat.")]
TestDataOfTask = Annotated[
    list[str] | None, typer.Option("--eval-for", metavar="TASK=DATASET", help="Datasets of one task instead; repeat.")
]
Out = Annotated[Path, typer.Option("--out", help="Folder of the comparison; the same folder goes on.")]
Seeds = Annotated[int, typer.Option("--seeds", min=1, help="Training seeds of each row: 0, 1, ...")]
Tasks = Annotated[str | None, typer.Option("--tasks", help=f"Any of {','.join(TASKS)}; all if not given.")]
Only = Annotated[
    list[str] | None, typer.Option("--only", metavar="ROW[/SEED]", help="Run this row alone, as ours/seed1; repeat.")
]
TableOnly = Annotated[bool, typer.Option("--table-only", help="Run nothing: tables from what is there.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Run nothing: print the command lines of each row.")]
Kept = Annotated[
    Literal["all", "vectors"], typer.Option("--keep", help="vectors: remove the weights of rows that are done.")
]
OwnEpochs = Annotated[
    bool, typer.Option("--own-epochs", help="Each method its own published epochs, not all the same frames.")
]
AtOnce = Annotated[
    int,
    typer.Option(
        "--at-once",
        min=0,
        metavar="N",
        help="Rows at a time, in processes of their own; GPUs take turns. 0: one after another, in this process.",
    ),
]
Rates = Annotated[Path | None, typer.Option("--rates", help="rates.json of an earlier search: learning rates.")]


def given_for_all(out: Path, arguments: Sequence[str], config: Path | None, tasks: str | None) -> Given:
    """What the command line says for all rows, checked."""
    override(read_config(config), arguments, SECTIONS)
    settings: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        settings[name] = value if equals else next(words)
    wanted = tuple(task.strip() for task in tasks.split(",")) if tasks else ()
    for task in wanted:
        _check_task(task)
    return Given(out, settings, config, wanted)


def data_of(train: Path | None, tests: Sequence[Path] | None, tests_of: Sequence[str] | None) -> Data:
    """The datasets of a comparison; they have to be there."""
    of_tasks: dict[str, tuple[Path, ...]] = {}
    for text in tests_of or []:
        task, _, folder = text.partition("=")
        if not folder:
            raise UserError(f"--eval-for {text}: not TASK=DATASET -> write for example size=data/sun")
        _check_task(task)
        of_tasks[task] = (*of_tasks.get(task, ()), Path(folder))
    if not tests:
        raise UserError("no test data -> give --eval DATASET")
    data = Data(train, tuple(tests), of_tasks)
    for path in [*data.all_tests(), *([train] if train else [])]:
        if not (path / "dataset.json").is_file():
            raise UserError(f"{path}: not a dataset folder (no dataset.json) -> make one with 'polyptrace prepare'")
    return data


def length_of(data: Data, given: Given, rows: Sequence[Row], own_epochs: bool) -> dict[str, str]:
    """The setting that makes all methods see the same number of frames."""
    if own_epochs or data.train is None or not searched(rows):
        return {}
    return {"train.frames": str(frames_of_ours(data.train, given))}


@dataclass(frozen=True)
class Search:
    """A search for learning rates: which ones, and on which development data."""

    rates: str
    train: Path | None
    test: Path | None


def found_rates(
    rows: Sequence[Row], given: Given, file: Path | None, search: Search | None, own_epochs: bool
) -> tuple[dict[str, float], list[Trial]]:
    """The rate of each row, of a file or of an earlier search in the same folder; and the trials of one to be made."""
    if file is None and search is None:
        return {}, []
    if "optimiser.lr" in given.settings:
        raise UserError("--optimiser.lr and searched rates are given -> choose one")
    if file is not None or (given.out / RATES_FILE).exists():
        return read_rates(file or given.out / RATES_FILE), []
    assert search is not None
    data, searching = search_data(search), replace(given, tasks=("retrieval",))
    length = length_of(data, searching, rows, own_epochs)
    return {}, search_trials(rows, _numbers(search.rates), data, searching, length)


def search_data(search: Search) -> Data:
    """The development data of a search."""
    if search.train is None or search.test is None:
        raise UserError("--search-lr: on which data? -> give --search-data and --search-eval, development data both")
    return data_of(search.train, [search.test], None)


def left_of_search(trials: Sequence[Trial]) -> list[str]:
    """The trials of a search that have neither ended nor failed."""
    return [trial.key for trial in trials if not trial.done and not failure_of(trial)]


def finish_search(trials: Sequence[Trial], out: Path) -> dict[str, float]:
    """Chooses and writes the rates of a search that was run."""
    content = choose_rates(trials, trials[0].data)
    if content is None:
        left = ", ".join(left_of_search(trials))
        raise UserError(f"the search for learning rates has not ended -> run {left}, then the rows")
    written = write_rates(out, content)
    for name, told in content["rows"].items():
        edge = ", the first or last that was tried" if told["at_the_end"] else ""
        console.print(f"learning rate of {name}: {told['rate']}{edge}", highlight=False)
    return read_rates(written)


def without_rate(rows: Sequence[Row], rates: Mapping[str, float], out: Path) -> list[Failure]:
    """The rows that were searched and for which no rate worked."""
    lacking = [row for row in searched(rows) if rates and row.name not in rates and row.method not in rates]
    return [Failure(row.name, "no learning rate worked", out / RATES_FILE) for row in lacking]


def selected(trials: Sequence[Trial], only: Sequence[str] | None) -> list[Trial]:
    """The trials that --only names, by row or by row and seed; all if nothing is named."""
    return [t for t in trials if not only or any(f"/{name.strip('/')}/" in f"/{t.key}/" for name in only)]


def without_results(out: Path, what: str) -> UserError:
    """What --table-only says of a folder in which no `what` (rows, variants) has results."""
    if not out.is_dir():
        return UserError(f"{out}: no such folder -> give the --out of a comparison that was run")
    return UserError(
        f"{out}: no {what} in it with results, so there is no table -> give the --out of a comparison that was run,"
        " or run it first, without --table-only"
    )


def print_lines(trials: Sequence[Trial]) -> None:
    """Each row's own commands, as one line to copy."""
    for trial in trials:
        typer.echo(f"# {trial.key}")
        typer.echo(" && ".join(step.line for step in trial.steps))


def runner(at_once: int, keep: Literal["all", "vectors"]) -> Callable[[list[Trial]], list[Failure]]:
    """Runs trials in this process, or so many at a time in others."""
    if not at_once:
        return lambda trials: run_trials(trials, execute_here, keep, _announce)
    processes = Processes(at_once)

    def run(trials: list[Trial]) -> list[Failure]:
        with processes.ended_by_signals():
            return run_trials(trials, processes, keep, _announce, at_once)

    return run


def execute_here(words: Sequence[str], _folder: Path) -> None:
    """Runs a command line in this process, with what it leaves behind cleared away."""
    program, sys.argv = sys.argv, ["polyptrace", *words]  # outputs say which command made them
    try:
        code = build(words[0])(list(words), standalone_mode=False)
    finally:
        sys.argv = program
        if "torch._dynamo" in sys.modules:  # loading it takes seconds, and without it nothing was compiled
            torch.compiler.reset()
        if torch.cuda.is_available():
            gc.collect()
            torch.cuda.empty_cache()
    if code == INTERRUPTED:  # Ctrl-C: nothing has failed, and the other rows are not wanted either
        raise KeyboardInterrupt
    if code:
        raise UserError(f"'polyptrace {words[0]}' ended with code {code}")


def end(failures: Sequence[Failure]) -> None:
    """Says what failed; the exit code is 1 then."""
    if not failures:
        return
    console.print(f"[bold red]{len(failures)} failed:[/]")
    for failure in failures:
        console.print(f"  {escape(failure.key)}: {escape(failure.message)} ({failure.file})", soft_wrap=True)
    raise typer.Exit(1)


def _announce(text: str) -> None:
    console.print(f"[bold]{escape(text)}[/]", soft_wrap=True, highlight=False)


def _check_task(task: str) -> None:
    if task not in TASKS:
        raise UserError(f"task {task!r}: no such task -> one of {', '.join(TASKS)}")


def _numbers(text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise UserError(f"--search-lr {text}: not numbers -> write for example 1e-5,3e-5,1e-4") from None
