"""`polyptrace compare --data TRAIN --eval TEST --methods all --seeds 3 --out R`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from polyptrace.cli import trials as shared_options
from polyptrace.cli.settings import ConfigFile
from polyptrace.cli.trials import data_of, exit_with, frames_of, print_commands, require_trials, run, select_trials
from polyptrace.compare.rates import FILE, choose_rates, read_rates, search_trials, write_rates
from polyptrace.compare.rows import ALL, ROWS, ComparisonRow, frozen_row, select_rows
from polyptrace.compare.runner import Failure, failure_of
from polyptrace.compare.trial import ROWS_FOLDER, SECTIONS, Shared, Trial, make_trial
from polyptrace.core.console import console, echo
from polyptrace.core.errors import UserError
from polyptrace.core.lock import lock
from polyptrace.report import ReportOptions, write_report

__all__ = ["SECTIONS", "command"]


def command(
    ctx: typer.Context,
    out: shared_options.Out,
    data: shared_options.TrainData = None,
    tests: shared_options.TestData = None,
    tests_of: shared_options.TestDataOfTask = None,
    methods: Annotated[str, typer.Option("--methods", help=f"all, or any of {','.join(ROWS)}.")] = "all",
    frozen: Annotated[
        list[str] | None,
        typer.Option("--frozen", metavar="[TITLE=]ENCODER[:WEIGHTS]", help="Row of a frozen encoder; repeatable."),
    ] = None,
    seeds: shared_options.Seeds = 3,
    tasks: shared_options.Tasks = None,
    only: shared_options.Only = None,
    table_only: shared_options.TableOnly = False,
    dry_run: shared_options.DryRun = False,
    keep: shared_options.Kept = "all",
    own_epochs: Annotated[
        bool, typer.Option("--own-epochs", help="Train each method for its own epochs instead of the same frames.")
    ] = False,
    at_once: shared_options.AtOnce = 0,
    rates: shared_options.Rates = None,
    search_lr: Annotated[
        str | None, typer.Option("--search-lr", metavar="LR,LR", help="Search each method's learning rate among these.")
    ] = None,
    search_train: Annotated[
        Path | None, typer.Option("--search-data", help="Development dataset on which the search trains.")
    ] = None,
    search_test: Annotated[
        Path | None, typer.Option("--search-eval", help="Development dataset on which the search evaluates.")
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Train, embed and evaluate every row of a table, and write the table.

    All methods start from the same backbone weights and see the same crops and the same number of frames (as many as
    ours in its epochs), each with its published temperature, views and optimiser. MVE and TPC start from a trained SFE
    of the same seed, as published: SFE sees half of their frames. [bold]mve-scratch[/] and [bold]tpc-scratch[/] do not.

    Each row and training seed has its own folder, [bold]R/rows/ours/seed0[/]. Run the same command again to resume:
    completed rows are skipped. A row that fails is reported at the end and does not stop the others. To distribute the
    work, run single rows with [bold]--only[/], collect their folders (--keep vectors leaves out the weights) and write
    the table with [bold]--table-only[/].

    Settings for all rows: --section.key value, or a TOML file.

    Examples:

      polyptrace compare --data data/train --eval data/test --out compared

      polyptrace compare --data data/train --eval data/test --out compared --at-once 4

      polyptrace compare --data data/train --eval data/test --out compared --only ours/seed1 --keep vectors

      polyptrace compare --data data/train --eval data/test --out compared \\
        --search-lr 1e-5,3e-5,1e-4 --search-data dev/train --search-eval dev/test

      polyptrace compare --methods colour-grid --eval data/test --out frozen \\
        --frozen dinov2-small:dinov2-small.pth --frozen 'Ours, generated=compared/rows/ours/seed0/run'

      polyptrace compare --out compared --table-only
    """
    if table_only:
        if not write_table(out):
            raise shared_options.no_results(out, "rows")
        return
    shared = shared_options.shared_of(ctx, out, config, tasks)
    datasets = data_of(data, tests, tests_of)
    rows = [*map(frozen_row, frozen or []), *select_rows(methods, ROWS, ALL)]
    if not dry_run and not only:  # with --only, several processes may share the folder
        ctx.with_resource(lock(out))
    known_rates = shared_options.rates_of(shared, rates, searching=bool(search_lr))
    search: list[Trial] = []
    if search_lr and known_rates is None:
        search = plan_search(rows, shared, search_lr, search_train, search_test, own_epochs)
        part = select_trials(search, only)
        if not dry_run:
            failed = run(part, at_once, keep)
            left = unfinished(search)
            if only and part and left:
                echo(f"rates are chosen when all have been tried; not run yet: {', '.join(left)}")
                exit_with(failed)
                return
            known_rates = finish_search(search, out)
    failed = without_rate(rows, known_rates or {}, out)
    frames = 0 if own_epochs else frames_of(datasets, shared, rows)
    trials = [
        make_trial(row, seed, f"{ROWS_FOLDER}/{row.name}/seed{seed}", datasets, shared, frames, known_rates)
        for row, seed in with_seeds(rows, seeds)
        if row.name not in {failure.key for failure in failed}
    ]
    chosen = select_trials(trials, only)
    require_trials([*chosen, *select_trials(search, only)], trials, only)
    if dry_run:
        print_commands(select_trials(search, only) if search else chosen)
    else:
        failed += run(chosen, at_once, keep)
        if not only and not write_table(out):
            echo(f"{out}: no row has results, so there is no table")
    exit_with(failed)


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
    data, shared = data_of(train, [test]), replace(shared, tasks=("retrieval",))
    return search_trials(rows, numbers, data, shared, 0 if own_epochs else frames_of(data, shared, rows))


def unfinished(trials: Sequence[Trial]) -> list[str]:
    """The trials that have neither finished nor failed."""
    return [trial.key for trial in trials if not trial.done and not failure_of(trial)]


def finish_search(trials: Sequence[Trial], out: Path) -> dict[str, float]:
    """Chooses and writes the rates of a finished search."""
    content = choose_rates(trials, trials[0].data) if trials else {"rows": {}}
    if content is None:
        raise UserError(f"the search for learning rates is not finished -> first run {', '.join(unfinished(trials))}")
    written = write_rates(out, content)
    for name, entry in content["rows"].items():
        edge = ", the lowest or highest that was tried" if entry["at_the_end"] else ""
        console.print(f"learning rate of {name}: {entry['rate']}{edge}", highlight=False)
    return read_rates(written)


def without_rate(rows: Sequence[ComparisonRow], rates: dict[str, float], out: Path) -> list[Failure]:
    """The rows for which no searched rate worked."""
    lacking = [row for row in rows if row.trained and rates and row.name not in rates and row.method not in rates]
    return [Failure(row.name, "no learning rate worked", out / FILE) for row in lacking]


def with_seeds(rows: Sequence[ComparisonRow], seeds: int) -> list[tuple[ComparisonRow, int]]:
    """Each row with a method at each seed; a frozen row once, or as often as its name is given."""
    pairs: list[tuple[ComparisonRow, int]] = []
    for row in rows:
        before = sum(other.name == row.name for other, _ in pairs)
        pairs += [(row, seed) for seed in range(seeds)] if row.method else [(row, before)]
    return pairs


def write_table(out: Path) -> bool:
    """Writes R/report, with Table 1, from all rows that have results; False if there are none."""
    order = list(ROWS)
    folders = sorted(
        (out / ROWS_FOLDER).glob("*/seed*/results"),
        key=lambda path: (order.index(path.parts[-3]) if path.parts[-3] in order else -1, path),
    )
    if not folders:
        return False
    ours = any(path.parts[-3] == "ours" for path in folders)
    options = ReportOptions(focus=ROWS["ours"].title if ours else None)
    page = write_report(folders, out / "report", options, overwrite=True)
    echo((page.parent / "table1.md").read_text(encoding="utf-8"))
    echo(f"table: {page.parent / 'table1.md'}, .tex, .html; page: {page}")
    return True
