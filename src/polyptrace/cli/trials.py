"""What `compare` and `ablate` share: their options, the datasets, running the trials, and the final messages."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from polyptrace.cli.settings import check_options
from polyptrace.compare.rows import ComparisonRow
from polyptrace.compare.runner import Failure, Workers, run_trials, with_starts
from polyptrace.compare.trial import SECTIONS, Datasets, Shared, Trial, frames_of_ours
from polyptrace.config import Settings, from_dict, parse_options, read_toml
from polyptrace.core.console import console, echo
from polyptrace.core.errors import UserError
from polyptrace.core.lock import lock
from polyptrace.evaluate.tasks import TASKS

TrainData = Annotated[Path | None, typer.Option("--data", help="Training dataset of all rows.")]
TestData = Annotated[list[Path] | None, typer.Option("--eval", help="Test dataset of all rows; repeatable.")]
TestDataOfTask = Annotated[
    list[str] | None, typer.Option("--eval-for", metavar="TASK=DATASET", help="Test dataset of one task; repeatable.")
]
Out = Annotated[Path, typer.Option("--out", help="Folder of the comparison; an interrupted one resumes.")]
Seeds = Annotated[int, typer.Option("--seeds", min=1, help="Number of training seeds per row.")]
Tasks = Annotated[str | None, typer.Option("--tasks", help=f"Any of {','.join(TASKS)}; all by default.")]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="ROW[/SEED]", help="Run only this row, e.g. ours/seed1; repeatable."),
]
TableOnly = Annotated[bool, typer.Option("--table-only", help="Run nothing; write the tables from existing results.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Run nothing; print the commands of each row.")]
Kept = Annotated[
    Literal["all", "vectors"], typer.Option("--keep", help="vectors: delete the weights of completed rows.")
]
OwnEpochs = Annotated[
    bool, typer.Option("--own-epochs", help="Train each method for its own epochs instead of the same frames.")
]
AtOnce = Annotated[
    int,
    typer.Option(
        "--at-once",
        min=0,
        metavar="N",
        help="Number of rows that run at the same time in worker processes, sharing the GPUs; 0: in this process.",
    ),
]
Rates = Annotated[Path | None, typer.Option("--rates", help="Learning rates from an earlier search (rates.json).")]


def shared_of(ctx: typer.Context, out: Path, config: Path | None, tasks: str | None) -> Shared:
    """What all rows have in common, from the TOML file and the command line."""
    check_options(ctx, SECTIONS, ctx.args)
    file, options = read_toml(config), parse_options(ctx.args, SECTIONS)
    from_dict(file, where=str(config))
    wanted = tuple(task.strip() for task in tasks.split(",")) if tasks else tuple(TASKS)
    for task in wanted:
        _check_task(task)
    return Shared(out, _merged(file, options), wanted)


def data_of(train: Path | None, tests: Sequence[Path] | None, tests_of: Sequence[str] | None) -> Datasets:
    """The datasets of a comparison, which must exist."""
    of_tasks: dict[str, tuple[Path, ...]] = {}
    for text in tests_of or []:
        task, _, folder = text.partition("=")
        if not folder:
            raise UserError(f"--eval-for {text}: not TASK=DATASET -> write for example size=data/sun")
        _check_task(task)
        of_tasks[task] = (*of_tasks.get(task, ()), Path(folder))
    if not tests:
        raise UserError("no test data -> give --eval DATASET")
    data = Datasets(train, tuple(tests), of_tasks)
    for path in [*data.all_tests(), *([train] if train else [])]:
        if not (path / "dataset.json").is_file():
            raise UserError(f"{path}: not a dataset folder (no dataset.json) -> make one with 'polyptrace prepare'")
    return data


def frames_of(data: Datasets, shared: Shared, rows: Sequence[ComparisonRow], own_epochs: bool) -> int:
    """The number of frames on which every row is trained; 0: each row has its own epochs."""
    if own_epochs or data.train is None or not any(row.trained for row in rows):
        return 0
    return frames_of_ours(data.train, shared)


def select_trials(trials: Sequence[Trial], only: Sequence[str] | None) -> list[Trial]:
    """The trials that --only names, by row or by row and seed; all without --only."""
    return [t for t in trials if not only or any(f"/{name.strip('/')}/" in f"/{t.key}/" for name in only)]


def require_trials(chosen: Sequence[Trial], trials: Sequence[Trial], only: Sequence[str] | None) -> None:
    """Raises an error if --only selects nothing."""
    if not chosen:
        raise UserError(f"--only {' '.join(only or [])}: no such row -> one of {', '.join(t.key for t in trials)}")


def no_results(out: Path, what: str) -> UserError:
    """The error of --table-only in a folder without results of `what` (rows, variants)."""
    if not out.is_dir():
        return UserError(f"{out}: no such folder -> give the --out of an earlier comparison")
    return UserError(
        f"{out}: no {what} with results, so there is no table -> give the --out of an earlier comparison,"
        " or run it first, without --table-only"
    )


def print_commands(trials: Sequence[Trial]) -> None:
    """Prints the commands of each trial as one line that can be copied."""
    for trial in with_starts(trials):
        echo(f"# {trial.key}")
        echo(" && ".join(step.command for step in trial.steps))


def runner(at_once: int, keep: Literal["all", "vectors"]) -> Callable[[list[Trial]], list[Failure]]:
    """A function that runs trials in this process, or `at_once` at a time in worker processes."""
    if not at_once:
        return lambda trials: run_trials(trials, keep, _announce)
    workers = Workers(at_once)

    def run(trials: list[Trial]) -> list[Failure]:
        with workers.ended_by_signals():
            return run_trials(trials, keep, _announce, workers, at_once)

    return run


def lock_out(ctx: typer.Context, out: Path, only: Sequence[str] | None) -> None:
    """Locks the folder of a comparison until the command ends. With --only, several processes may share it."""
    if not only:
        ctx.with_resource(lock(out))


def exit_with(failures: Sequence[Failure]) -> None:
    """Prints the failures; the exit code is 1 if there are any."""
    if not failures:
        return
    console.print(f"{len(failures)} failed:", style="bold red")
    for failure in failures:
        text = f"  {failure.key}: {failure.message} ({failure.file})"
        console.print(text, soft_wrap=True, markup=False, highlight=False)
    raise typer.Exit(1)


def _merged(first: Settings, second: Settings) -> Settings:
    sections = dict.fromkeys((*first, *second))
    empty: Mapping[str, object] = {}
    return {section: {**first.get(section, empty), **second.get(section, empty)} for section in sections}


def _announce(text: str) -> None:
    console.print(text, style="bold", soft_wrap=True, markup=False, highlight=False)


def _check_task(task: str) -> None:
    if task not in TASKS:
        raise UserError(f"task {task!r}: no such task -> one of {', '.join(TASKS)}")
