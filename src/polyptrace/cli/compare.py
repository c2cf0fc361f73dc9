"""`polyptrace compare --data TRAIN --eval TEST --methods all --seeds 3 --out R`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from polyptrace.cli.settings import ConfigFile
from polyptrace.cli.trials import (
    AtOnce,
    DryRun,
    Kept,
    Only,
    Out,
    OwnEpochs,
    Rates,
    Search,
    Seeds,
    TableOnly,
    Tasks,
    TestData,
    TestDataOfTask,
    TrainData,
    data_of,
    end,
    finish_search,
    found_rates,
    given_for_all,
    left_of_search,
    length_of,
    print_lines,
    runner,
    selected,
    without_rate,
    without_results,
)
from polyptrace.compare import (
    ALL,
    ERROR,
    ROWS,
    ROWS_FOLDER,
    SECTIONS,
    Row,
    chosen_rows,
    frozen_row,
    make_trial,
    rate_setting,
)
from polyptrace.core.errors import UserError
from polyptrace.report import ReportOptions, write_report

__all__ = ["SECTIONS", "command"]


def command(
    ctx: typer.Context,
    out: Out,
    data: TrainData = None,
    tests: TestData = None,
    tests_of: TestDataOfTask = None,
    methods: Annotated[str, typer.Option("--methods", help=f"all, or any of {','.join(ROWS)}.")] = "all",
    frozen: Annotated[
        list[str] | None,
        typer.Option("--frozen", metavar="[TITLE=]ENCODER[:WEIGHTS]", help="A row that is not trained; repeat."),
    ] = None,
    seeds: Seeds = 3,
    tasks: Tasks = None,
    only: Only = None,
    table_only: TableOnly = False,
    dry_run: DryRun = False,
    keep: Kept = "all",
    own_epochs: OwnEpochs = False,
    at_once: AtOnce = 0,
    rates: Rates = None,
    search_lr: Annotated[
        str | None, typer.Option("--search-lr", metavar="LR,LR", help="Search each method's rate among these.")
    ] = None,
    search_train: Annotated[
        Path | None, typer.Option("--search-data", help="Development data that the search trains on.")
    ] = None,
    search_test: Annotated[
        Path | None, typer.Option("--search-eval", help="Development data that the search measures on.")
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Train, embed and evaluate every row of a table, and write the table.

    All methods start from the same backbone weights, see the same crops and the same number of frames (as many as ours
    in its epochs), each with its published temperature, views and optimiser, and are measured alike. Each row and
    training seed has a folder of its own, [bold]R/rows/ours/seed0[/]: started again, what is done is skipped; what
    fails is told at the end and stops nothing else. [bold]--at-once[/] runs several rows at a time on this machine. To
    spread the work over others, run single rows with [bold]--only[/], bring their folders together (with --keep vectors
    they hold no weights) and write the table with [bold]--table-only[/].

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
            raise without_results(out, "rows")
        return
    given = given_for_all(out, ctx.args, config, tasks)
    datasets = data_of(data, tests, tests_of)
    rows = [*map(frozen_row, frozen or []), *chosen_rows(methods, ROWS, ALL)]
    search = Search(search_lr, search_train, search_test) if search_lr else None
    run = runner(at_once, keep)
    found, searching = found_rates(rows, given, rates, search, own_epochs)
    if dry_run:
        print_lines(selected(searching, only))
    elif searching:
        part = selected(searching, only)
        unsearched = run(part)
        left = left_of_search(searching)
        if only and part and left:
            typer.echo(f"the rates are chosen when all have been tried; still to be run: {', '.join(left)}")
            end(unsearched)
            return
        found = finish_search(searching, out)
    length = length_of(datasets, given, rows, own_epochs)
    failed = without_rate(rows, found, out)
    trials = [
        make_trial(
            row, seed, f"{ROWS_FOLDER}/{row.name}/seed{seed}", datasets, given, length | rate_setting(row, found)
        )
        for row, seed in with_seeds(rows, seeds)
        if row.name not in {failure.key for failure in failed}
    ]
    chosen = selected(trials, only)
    if not chosen and not selected(searching, only):
        raise UserError(f"--only {' '.join(only or [])}: no such row -> one of {', '.join(t.key for t in trials)}")
    if dry_run:
        print_lines([] if searching else chosen)
    else:
        failed += run(chosen)
        if not only and not write_table(out):
            typer.echo(f"{out}: no row has results, so there is no table")
    end(failed)


def with_seeds(rows: Sequence[Row], seeds: int) -> list[tuple[Row, int]]:
    """Each trained row at each seed; a frozen one once, or as often as its name is given."""
    pairs: list[tuple[Row, int]] = []
    for row in rows:
        before = sum(other.name == row.name for other, _ in pairs)
        pairs += [(row, seed) for seed in range(seeds)] if row.method else [(row, before)]
    return pairs


def write_table(out: Path) -> bool:
    """The report of all rows below R/rows that have results and did not fail, with Table 1, in R/report.

    False if there are none.
    """
    order = list(ROWS)
    found = sorted(
        (path for path in (out / ROWS_FOLDER).glob("*/seed*/results") if not (path.parent / ERROR).exists()),
        key=lambda path: (order.index(path.parts[-3]) if path.parts[-3] in order else -1, path),
    )
    if not found:
        return False
    page = write_report(found, out / "report", ReportOptions(focus=_title_of_ours(found)), overwrite=True)
    typer.echo((page.parent / "table1.md").read_text(encoding="utf-8"))
    typer.echo(f"table: {page.parent / 'table1.md'}, .tex, .html; page: {page}")
    return True


def _title_of_ours(found: Sequence[Path]) -> str | None:
    return ROWS["ours"].title if any(path.parts[-3] == "ours" for path in found) else None
