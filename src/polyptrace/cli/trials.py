"""What `compare` and `ablate` share: their options, the datasets, running the trials, and the final messages."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from polyptrace.cli.evaluate import paths_by_task
from polyptrace.cli.settings import check_options
from polyptrace.compare.rates import FILE, read_rates
from polyptrace.compare.rows import ComparisonRow
from polyptrace.compare.runner import Failure, Keep, Workers, run_trials, with_starts
from polyptrace.compare.trial import SECTIONS, Datasets, Shared, Trial, frames_of_ours
from polyptrace.config import from_dict, parse_options, read_toml
from polyptrace.core.console import console, echo
from polyptrace.core.errors import UserError
from polyptrace.core.files import check_writable
from polyptrace.core.folders import wrong_folder
from polyptrace.evaluate.tasks import TASKS, check_task

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
Kept = Annotated[Keep, typer.Option("--keep", help="vectors: delete the weights of completed rows.")]
AtOnce = Annotated[
    int,
    typer.Option(
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
    settings = {section: {**file.get(section, {}), **options.get(section, {})} for section in {**file, **options}}
    return Shared(out, settings, tuple(check_task(task.strip()) for task in (tasks or ",".join(TASKS)).split(",")))


def data_of(train: Path | None, tests: Sequence[Path] | None, tests_of: Sequence[str] | None = None) -> Datasets:
    """The datasets of a comparison, which must exist."""
    if not tests:
        raise UserError("no test data -> give --eval DATASET")
    of_tasks = {task: tuple(paths) for task, paths in paths_by_task("--eval-for", tests_of).items()}
    data = Datasets(train, tuple(tests), of_tasks)
    for path in [*data.all_tests(), *([train] if train else [])]:
        if not (path / "dataset.json").is_file():
            raise wrong_folder(path, "prepare")
    return data


def frames_of(data: Datasets, shared: Shared, rows: Sequence[ComparisonRow]) -> int:
    """The number of frames on which every row is trained: as many as ours; 0 if nothing is trained."""
    return frames_of_ours(data.train, shared) if data.train and any(row.trained for row in rows) else 0


def rates_of(shared: Shared, file: Path | None, *, searching: bool = False) -> dict[str, float] | None:
    """The learning rates of a file or, if `searching`, of an earlier search in the same folder; None without them."""
    if (file or searching) and "lr" in shared.settings.get("optimiser", {}):
        raise UserError("--optimiser.lr and searched rates are both given -> choose one")
    earlier = shared.out / FILE
    path = file or (earlier if searching and earlier.exists() else None)
    return read_rates(path) if path else None


def select_trials(trials: Sequence[Trial], only: Sequence[str] | None) -> list[Trial]:
    """The trials that --only names, by row or by row and seed; all without --only."""
    return [t for t in trials if not only or any(f"/{name.strip('/')}/" in f"/{t.key}/" for name in only)]


def require_trials(chosen: Sequence[Trial], trials: Sequence[Trial], only: Sequence[str] | None) -> None:
    """Raises an error if --only selects nothing."""
    if not chosen:
        raise UserError(f"--only {' '.join(only or [])}: no such row -> one of {', '.join(t.key for t in trials)}")


def no_results(out: Path, what: str) -> UserError:
    """The error of --table-only in a folder without results of `what` (rows, variants)."""
    problem = f"no {what} with results, so there is no table" if out.is_dir() else "no such folder"
    return UserError(f"{out}: {problem} -> give the --out of an earlier comparison, or run it without --table-only")


def print_commands(trials: Sequence[Trial]) -> None:
    """Prints the commands of each trial as one line that can be copied."""
    for trial in with_starts(trials):
        echo(f"# {trial.key}\n{' && '.join(step.command for step in trial.steps)}")


def run(trials: Sequence[Trial], at_once: int, keep: Keep) -> list[Failure]:
    """Runs trials in this process, or `at_once` at a time in worker processes; returns the failures."""
    for trial in trials:
        check_writable(trial.folder)

    def say(text: str) -> None:
        console.print(text, style="bold", soft_wrap=True, markup=False, highlight=False)

    if not at_once:
        return run_trials(trials, keep, say)
    workers = Workers(at_once)
    with workers.ended_by_signals():
        return run_trials(trials, keep, say, workers, at_once)


def exit_with(failures: Sequence[Failure]) -> None:
    """Prints the failures; the exit code is 1 if there are any."""
    if not failures:
        return
    console.print(f"{len(failures)} failed:", style="bold red")
    for failure in failures:
        text = f"  {failure.key}: {failure.message} ({failure.file})"
        console.print(text, soft_wrap=True, markup=False, highlight=False)
    raise typer.Exit(1)
