"""`polyptrace compare --data TRAIN --eval TEST --methods all --seeds 3 --out R`."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

from typer import Context, Exit, Option

from polyptrace.cli.evaluate import paths_by_task
from polyptrace.cli.options import ConfigFile, option_names
from polyptrace.compare.rates import RATES_FILE, choose_rates, read_rates, search_trials, unfinished
from polyptrace.compare.rows import ALL, ROWS, ComparisonRow, frozen_row, select_rows
from polyptrace.compare.runner import Failure, Keep, Workers, run_trials, with_starts
from polyptrace.compare.trial import ROWS_FOLDER, SECTIONS, Datasets, Shared, Trial, frames_of, make_trial
from polyptrace.config import from_dict, parse_options, read_toml
from polyptrace.core.console import echo, notify
from polyptrace.core.errors import UserError
from polyptrace.core.files import check_writable, write_json, wrong_folder
from polyptrace.core.lock import lock
from polyptrace.data import Dataset
from polyptrace.data.dataset import DATASET_FILE, read_info
from polyptrace.data.identity import video_keys
from polyptrace.evaluate.tasks import RATES, TASKS, check_task
from polyptrace.report import load_rows, write_report

__all__ = ["SECTIONS", "command"]

TrainData = Annotated[Path | None, Option("--data", help="Training dataset of all rows.")]
TestData = Annotated[list[Path] | None, Option("--eval", help="Test dataset of all rows; repeatable.")]
TestDataOfTask = Annotated[
    list[str] | None, Option("--eval-for", metavar="TASK=DATASET", help="Test dataset of one task; repeatable.")
]
ProbeTrainData = Annotated[
    list[str] | None, Option("--train-for", metavar="TASK=DATASET", help="Training part of one task; repeatable.")
]
ComparisonFolder = Annotated[Path, Option("--out", help="Folder of the comparison; an interrupted one resumes.")]
Seeds = Annotated[int, Option("--seeds", min=1, help="Number of training seeds per row.")]
Tasks = Annotated[str | None, Option("--tasks", help=f"Any of {','.join(TASKS)}; all by default.")]
Only = Annotated[
    list[str] | None, Option("--only", metavar="ROW[/SEED]", help="Run only this row, e.g. ours/seed1; repeatable.")
]
TableOnly = Annotated[bool, Option("--table-only", help="Run nothing; write the tables from existing results.")]
DryRun = Annotated[bool, Option("--dry-run", help="Run nothing; print the commands of each row.")]
Kept = Annotated[Keep, Option("--keep", help="vectors: delete the weights of completed rows.")]
AtOnce = Annotated[int, Option(min=0, metavar="N", help="Rows to run at a time, as processes; 0: in this process.")]
Rates = Annotated[Path | None, Option("--rates", help="Learning rates from an earlier search (rates.json).")]


def command(
    ctx: Context,
    out: ComparisonFolder,
    data: TrainData = None,
    tests: TestData = None,
    tests_of: TestDataOfTask = None,
    probe_train: ProbeTrainData = None,
    methods: Annotated[str, Option(help=f"all, or any of {', '.join(ROWS)}.")] = "all",
    frozen: Annotated[
        list[str] | None, Option(metavar="[TITLE=]ENCODER[:WEIGHTS]", help="Row of a frozen encoder; repeatable.")
    ] = None,
    seeds: Seeds = 3,
    tasks: Tasks = None,
    only: Only = None,
    table_only: TableOnly = False,
    dry_run: DryRun = False,
    keep: Kept = "all",
    own_epochs: Annotated[bool, Option("--own-epochs", help="Train each method for its own published epochs.")] = False,
    at_once: AtOnce = 0,
    rates: Rates = None,
    search_lr: Annotated[str | None, Option(metavar="LR,LR", help="Learning rates to try for each method.")] = None,
    search_train: Annotated[Path | None, Option("--search-data", help="Training dataset of the search.")] = None,
    search_test: Annotated[Path | None, Option("--search-eval", help="Test dataset of the search.")] = None,
    config: ConfigFile = None,
) -> None:
    """Train, embed and evaluate every row of a table, and write the table.

    All methods start from the same backbone weights and see the same crops and the same number of frames (as many as
    ours in its epochs), each with its published temperature, views and optimiser. MVE and TPC start from a trained SFE
    of the same seed, as published; SFE gets half of their frames. [bold]mve-scratch[/] and [bold]tpc-scratch[/] start
    without SFE; [bold]ours-sfe[/] is ours, started from SFE.

    Each row and training seed has its own folder, [bold]OUT/rows/ours/seed0[/]. Run the same command again to resume:
    completed rows are skipped. A row that fails is reported at the end and does not stop the others. To distribute the
    work, run single rows with [bold]--only[/], collect their folders (--keep vectors leaves out the weights) and write
    the table with [bold]--table-only[/]; with [bold]--eval[/], its page has images of the test data.

    Settings for all rows: --section.key value, or a TOML file.

    Examples:

      polyptrace compare --data data/train --eval data/test --out compared

      polyptrace compare --data data/train --eval data/test --out compared --at-once 4

      polyptrace compare --data data/train --eval data/test --out compared --only ours/seed1 --keep vectors

      polyptrace compare --data data/train --eval data/test --out compared \\
        --search-lr 1e-5,3e-5,1e-4 --search-data dev/train --search-eval dev/test

      polyptrace compare --data rc27 --eval rc19 --eval-for size=rsp-val --train-for size=rsp-train --out compared

      polyptrace compare --methods colour-grid --eval data/test --out frozen \\
        --frozen dinov2-small:dinov2-small.pth --frozen 'Ours, generated=compared/rows/ours/seed0/run'

      polyptrace compare --out compared --table-only
    """
    if table_only:
        if not write_table1(out, tests or ()):
            raise no_results(out, "rows")
        return
    shared = shared_of(ctx, out, config, tasks)
    datasets = data_of(data, tests, tests_of, probe_train, shared.tasks)
    rows = [*map(frozen_row, frozen or []), *select_rows(methods, ROWS, ALL)]
    if not rows:
        raise UserError("no rows -> give --methods or --frozen")
    if not dry_run and not only:  # with --only, several processes may share the folder
        check_writable(out)
        ctx.with_resource(lock(out))
    known_rates = rates_of(shared, rates, searching=bool(search_lr))
    search: list[Trial] = []
    if search_lr and known_rates is None:
        search = plan_search(rows, shared, search_lr, search_train, search_test, own_epochs)
        part = select_trials(search, only)
        if not dry_run:
            search_failures = run_rows(part, at_once, keep)
            left = unfinished(search)
            if only and part and left:
                echo(f"rates are chosen when all have been tried; not run yet: {', '.join(left)}")
                exit_with(search_failures)
                return
            known_rates = finish_search(search, out)
    failed = without_rate(rows, known_rates, out)  # among them the rows whose search failed at every rate
    frames = 0 if own_epochs else frames_of(datasets, shared, rows)
    shared = replace(shared, frames=frames, rates=known_rates or {})
    trials = [
        make_trial(row, seed, f"{ROWS_FOLDER}/{row.name}/seed{seed}", datasets, shared)
        for row, seed in with_seeds(rows, seeds)
        if row.name not in {failure.key for failure in failed}
    ]
    chosen = select_trials(trials, only)
    require_trials([*chosen, *select_trials(search, only)], trials, only)
    if dry_run:
        print_commands(select_trials(search, only) if search else chosen)
    else:
        failed += run_rows(chosen, at_once, keep)
        if not only and not write_table1(out, datasets.tests):
            echo(f"{out}: no row has results, so there is no table")
    exit_with(failed)


def shared_of(ctx: Context, out: Path, config: Path | None, tasks: str | None) -> Shared:
    """What all rows have in common, from the TOML file and the command line."""
    file, options = read_toml(config), parse_options(ctx.args, SECTIONS, option_names(ctx))
    from_dict(file, where=str(config))
    settings = {section: {**file.get(section, {}), **options.get(section, {})} for section in {**file, **options}}
    return Shared(out, settings, tuple(check_task(task.strip()) for task in (tasks or ",".join(TASKS)).split(",")))


def data_of(
    train: Path | None,
    tests: Sequence[Path] | None,
    tests_of: Sequence[str] | None = None,
    probe_train: Sequence[str] | None = None,
    tasks: Collection[str] = TASKS,
) -> Datasets:
    """The datasets of a comparison, which must exist."""
    if not tests:
        raise UserError("no test data -> give --eval DATASET")
    of_tasks, parts = (
        {task: tuple(paths) for task, paths in paths_by_task(option, texts, tasks).items()}
        for option, texts in (("--eval-for", tests_of), ("--train-for", probe_train))
    )
    if wrong := [task for task in parts if task not in RATES]:
        raise UserError(f"--train-for {wrong[0]}: trains nothing -> give it for {' or '.join(RATES)}")
    data = Datasets(train, tuple(tests), of_tasks, parts)
    for path in [*data.embedded(), *([train] if train else [])]:
        if not (path / DATASET_FILE).is_file():
            raise wrong_folder(path, "prepare")
    for paths in (data.tests, *of_tasks.values(), *parts.values()):
        refuse_shared_videos(paths)
    if not any(read_info(path).get("labels", {}).get("polyps") for task in tasks for path in data.of_task(task)):
        raise UserError(
            f"{tests[0]}: has no polyp labels, so there is nothing to compare -> prepare it with labels (answers of"
            " 'explore': 'polyptrace prepare --answers')"
        )
    for task, paths in parts.items():
        if both := {path.resolve() for path in paths} & {path.resolve() for path in data.of_task(task)}:
            raise UserError(f"--train-for {task}={both.pop()}: is also the test part -> add --eval-for {task}=DATASET")
    return data


def refuse_shared_videos(datasets: Sequence[Path]) -> None:
    """Raises the error of `evaluate` for two datasets with the same video, before anything is trained."""
    dataset_of: dict[str, Path] = {}
    for path in datasets:
        videos = set(video_keys(Dataset.open(path).tracklets).tolist())
        if shared := sorted(videos & dataset_of.keys()):
            first = dataset_of[shared[0]]
            raise UserError(f"{first} and {path}: both contain the video {shared[0]} -> give each dataset once")
        dataset_of |= dict.fromkeys(videos, path)


def rates_of(shared: Shared, file: Path | None, *, searching: bool = False) -> dict[str, float] | None:
    """The learning rates of a file or, if `searching`, of an earlier search in the same folder; None without them."""
    if (file or searching) and "lr" in shared.settings.get("optimiser", {}):
        raise UserError("--optimiser.lr and searched rates are both given -> choose one")
    earlier = shared.out / RATES_FILE
    path = file or (earlier if searching and earlier.exists() else None)
    return read_rates(path) if path else None


def select_trials(trials: Sequence[Trial], only: Sequence[str] | None) -> list[Trial]:
    """The trials that --only names, by row or by row and seed; all without --only."""
    return [t for t in trials if not only or any(f"/{name.strip('/')}/" in f"/{t.key}/" for name in only)]


def require_trials(chosen: Sequence[Trial], trials: Sequence[Trial], only: Sequence[str] | None) -> None:
    """Raises an error if --only selects nothing."""
    if only and not chosen:
        raise UserError(f"--only {' '.join(only)}: no such row -> one of {', '.join(t.key for t in trials)}")


def no_results(out: Path, what: str) -> UserError:
    """The error of --table-only in a folder without results of `what` (rows, variants)."""
    problem = f"no {what} with results, so there is no table" if out.is_dir() else "no such folder"
    return UserError(f"{out}: {problem} -> give the --out of an earlier comparison, or run it without --table-only")


def print_commands(trials: Sequence[Trial]) -> None:
    """Prints the commands of each trial as one line that can be copied."""
    for trial in with_starts(trials):
        echo(f"# {trial.key}\n{' && '.join(step.command for step in trial.steps)}")


def run_rows(trials: Sequence[Trial], at_once: int, keep: Keep) -> list[Failure]:
    """Runs trials in this process, or `at_once` at a time in worker processes; returns the failures."""
    for trial in trials:
        check_writable(trial.folder)
    if not at_once:
        return run_trials(trials, keep)
    workers = Workers(at_once)
    with workers.ended_by_signals():
        return run_trials(trials, keep, workers, at_once)


def exit_with(failures: Sequence[Failure]) -> None:
    """Prints the failures; the exit code is 1 if there are any."""
    if not failures:
        return
    notify(f"{len(failures)} failed:", style="bold red")
    for failure in failures:
        notify(f"  {failure.key}: {failure.message} ({failure.file})")
    raise Exit(1)


def plan_search(
    rows: Sequence[ComparisonRow], shared: Shared, rates: str, train: Path | None, test: Path | None, own_epochs: bool
) -> list[Trial]:
    """The trials of a search for learning rates."""
    if train is None or test is None:
        raise UserError("--search-lr: no development data -> give --search-data and --search-eval")
    try:
        numbers = [float(word) for word in rates.split(",")]
    except ValueError:
        raise UserError(f"--search-lr {rates}: not numbers -> write for example 1e-5,3e-5,1e-4") from None
    data = data_of(train, [test])
    frames = 0 if own_epochs else frames_of(data, shared, rows)
    return search_trials(rows, numbers, data, replace(shared, tasks=("retrieval",), frames=frames))


def finish_search(trials: Sequence[Trial], out: Path) -> dict[str, float]:
    """Chooses and writes the rates of a finished search."""
    rates = choose_rates(trials)
    write_json(out / RATES_FILE, asdict(rates))
    for name, row in rates.rows.items():
        edge = ", the lowest or highest that was tried" if row.at_the_end else ""
        notify(f"learning rate of {name}: {row.rate}{edge}")
    return rates.known


def without_rate(rows: Sequence[ComparisonRow], rates: dict[str, float] | None, out: Path) -> list[Failure]:
    """The rows for which no searched rate worked; `rates` is None if there was no search."""
    lacking = [row for row in rows if rates is not None and row.trained and not {row.name, row.method} & rates.keys()]
    return [Failure(row.name, "no learning rate worked", out / RATES_FILE) for row in lacking]


def with_seeds(rows: Sequence[ComparisonRow], seeds: int) -> list[tuple[ComparisonRow, int]]:
    """Each row with a method at each seed; a frozen row once, or as often as its name is given."""
    pairs: list[tuple[ComparisonRow, int]] = []
    for row in rows:
        before = sum(other.name == row.name for other, _ in pairs)
        pairs += [(row, seed) for seed in range(seeds)] if row.method else [(row, before)]
    return pairs


def write_table1(out: Path, tests: Sequence[Path]) -> bool:
    """Writes OUT/report, with Table 1, from all rows that have results; False if there are none.

    The test datasets give the images of the page.
    """
    order = list(ROWS)
    folders = sorted(
        (out / ROWS_FOLDER).glob("*/seed*/results"),
        key=lambda path: (order.index(path.parts[-3]) if path.parts[-3] in order else -1, path),
    )
    if not folders:
        return False
    focus = ROWS["ours"].title if any(path.parts[-3] == "ours" for path in folders) else None
    images = [Dataset.open(test) for test in tests]
    page = write_report(load_rows(folders), out / "report", focus=focus, datasets=images, overwrite=True)
    tables = sorted(page.parent.glob("table*.md"))  # table1.md is first; without its tasks, there are only others
    for table in tables[:1]:
        echo(table.read_text(encoding="utf-8"))
    written = f"table: {tables[0]}, .tex, .html" if tables else "no task has results, and the page says why"
    echo(f"{written}; page: {page}")
    return True
