"""`polyptrace ablate --data TRAIN --eval TEST --variants table2 --seeds 3 --out R`."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import Context, Option

from polyptrace.cli import compare
from polyptrace.cli.options import ConfigFile
from polyptrace.compare.rows import BLOCKS, OUR_ROW, SWEEP, AblationBlock, ComparisonRow, folder_name, select_blocks
from polyptrace.compare.runner import RECORD, load_trial
from polyptrace.compare.trial import ROWS_FOLDER, SECTIONS, STARTS_FOLDER, Shared, Trial, frames_of, make_trial
from polyptrace.config import Config, read_config
from polyptrace.core.console import echo
from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_folder, check_writable
from polyptrace.core.lock import lock
from polyptrace.evaluate.results import Results, combine
from polyptrace.report.page import markdown, write_table
from polyptrace.report.ranking import MAIN, measured
from polyptrace.report.tables import ablation_table, difference_table, sweep_difference_table, sweep_table

__all__ = ["SECTIONS", "command"]

VARIANTS_FOLDER, SWEEP_FOLDER = "variants", "sweep"


def command(
    ctx: Context,
    out: compare.ComparisonFolder,
    data: compare.TrainData = None,
    tests: compare.TestData = None,
    tests_of: compare.TestDataOfTask = None,
    probe_train: compare.ProbeTrainData = None,
    variants: Annotated[str, Option(help=f"all, table2, blocks ({', '.join(BLOCKS)}) or single variants.")] = "table2",
    sweep: Annotated[
        list[str] | None, Option(metavar="NAME=TRAIN:EVAL[:EVAL]", help="A training and its test datasets; repeatable.")
    ] = None,
    seeds: compare.Seeds = 3,
    tasks: compare.Tasks = None,
    only: compare.Only = None,
    table_only: compare.TableOnly = False,
    dry_run: compare.DryRun = False,
    keep: compare.Kept = "all",
    at_once: compare.AtOnce = 0,
    rates: compare.Rates = None,
    config: ConfigFile = None,
) -> None:
    """Train, embed and evaluate variants of our method, and write their tables.

    A variant is our method with a few changed settings; everything else, such as the number of frames, is the same.
    [bold]--dry-run[/] shows them. [bold]table2[/] is the paper's table: nearest-K or exponential sampling, with and
    without the curriculum; loss on frames, tracklets or both. Further blocks: other losses on the same bags, which bags
    share a batch, bag size, highest temperature.

    [bold]--sweep[/] compares ours, the multi-positive loss on the same bags and TPC on several training datasets, each
    with its test datasets, for example procedures with increasingly interleaved polyps. Several test datasets are
    pooled.

    Rows run as in 'polyptrace compare'; in the same folder, ours is not trained again.

    Examples:

      polyptrace ablate --data data/train --eval data/test --out compared --rates compared/rates.json

      polyptrace ablate --data data/train --eval data/test --out compared --variants loss,tau-gaps --seeds 1

      polyptrace ablate --out swept --sweep 0=i0/train:i0/test --sweep 0.5=i5/train:i5/test1:i5/test2
    """
    blocks = select_blocks(variants)
    if table_only:
        if not write_tables(out, blocks):
            raise compare.no_results(out, f"two variants of --variants {variants}")
        return
    shared = compare.shared_of(ctx, out, config, tasks)
    known_rates = compare.rates_of(shared, rates)
    shared = replace(shared, rates=known_rates or {})
    if sweep:
        if data or tests or tests_of or probe_train:
            raise UserError("--sweep: names its own datasets -> leave out --data, --eval, --eval-for and --train-for")
        trials = [trial for text in sweep for trial in sweep_trials(text, seeds, shared)]
    else:
        datasets = compare.data_of(data, tests, tests_of, probe_train, shared.tasks)
        rows = list({row.name: row for block in blocks for row in block.rows}.values())
        shared = replace(shared, frames=frames_of(datasets, shared, rows))
        trials = [
            make_trial(row, seed, f"{folder_of(row)}/seed{seed}", datasets, shared)
            for row in rows
            for seed in range(seeds)
        ]
    if lacking := compare.without_rate([trial.row for trial in trials], known_rates, out):
        raise UserError(f"--rates {rates}: has no learning rate of {lacking[0].key} -> search it, or leave out --rates")
    chosen = compare.select_trials(trials, only)
    compare.require_trials(chosen, trials, only)
    if dry_run:
        compare.print_commands(chosen)
        return
    if not only:  # with --only, several processes may share the folder
        check_writable(out)
        ctx.with_resource(lock(out))
    failed = compare.run_rows(chosen, at_once, keep)
    if not only and not write_tables(out, blocks):
        echo(f"{out}: fewer than two variants have results, so there is no table")
    compare.exit_with(failed)


def sweep_trials(text: str, seeds: int, shared: Shared) -> list[Trial]:
    """The trials of one point of a sweep. Rows that others start from are trained on the point's own data."""
    name, _, paths = text.partition("=")
    train, *tests = paths.split(":")
    if not name or not train or not tests or not all(tests):
        raise UserError(f"--sweep {text}: not NAME=TRAIN:EVAL[:EVAL] -> write for example 0.5=half/train:half/test")
    datasets = compare.data_of(Path(train), [Path(test) for test in tests])
    frames = frames_of(datasets, shared, SWEEP)
    parent = f"{SWEEP_FOLDER}/{folder_name(name)}"
    shared = replace(shared, frames=frames, starts=f"{parent}/{STARTS_FOLDER}")
    return [
        make_trial(row, seed, f"{parent}/{row.name}/seed{seed}", datasets, shared)
        for row in SWEEP
        for seed in range(seeds)
    ]


def folder_of(row: ComparisonRow) -> str:
    """The folder of a variant; our own settings are a row of the comparison, which is trained only once."""
    return f"{VARIANTS_FOLDER if row.settings else ROWS_FOLDER}/{row.name}"


def write_tables(out: Path, blocks: Sequence[AblationBlock]) -> bool:
    """Writes the ablation tables into OUT/ablations; False if there are too few results."""
    of_blocks = {
        block.title: rows
        for block in blocks
        if len(rows := completed_rows([out / folder_of(row) for row in block.rows])) > 1
    }
    of_points = {
        folder.name: [results for results, _ in rows]
        for folder in sorted((out / SWEEP_FOLDER).glob("*"), key=lambda folder: point_order(folder.name))
        if (rows := completed_rows([folder / row.name for row in SWEEP]))
    }
    results = {row.method.name: row for rows in of_blocks.values() for row, _ in rows}
    columns = measured(list(results.values()), MAIN)
    tables = [ablation_table(of_blocks, columns)] if columns else []
    if OUR_ROW.title in results:  # ours minus each variant, on the same bootstrap draws
        differences = difference_table(list(results.values()), columns, list(results).index(OUR_ROW.title))
        tables += [differences] if differences else []
    swept_rows = [row for rows in of_points.values() for row in rows]
    swept = [m for m in MAIN if len([row for row in swept_rows if m.of(row)]) > 1]
    for measure in swept:
        tables.append(sweep_table(folder_name(f"sweep {measure.over} {measure.name}"), of_points, measure))
    if differences := sweep_difference_table(of_points, swept, OUR_ROW.title):
        tables.append(differences)
    if not tables:
        return False
    with atomic_folder(out / "ablations", overwrite=True) as folder:
        for table in tables:
            write_table(folder, table)
    echo(markdown(tables[0]))
    echo(f"tables: {out / 'ablations'}: {', '.join(table.name for table in tables)} as .md, .tex and .html")
    return True


def point_order(name: str) -> tuple[float, str]:
    """Sorting key of a sweep's points: numbers by value, then other names."""
    try:
        return float(name), name
    except ValueError:
        return math.inf, name


def completed_rows(folders: Sequence[Path]) -> list[tuple[Results, Config]]:
    """Each row that has results: its training seeds combined, and its settings."""
    rows = []
    for folder in folders:
        if results := sorted(folder.glob("seed*/results")):
            first = results[0].parent
            recorded = (first / RECORD).exists()  # not if the commands of the row were typed
            config = load_trial(first).config if recorded else read_config(first / "run" / "config.toml")
            rows.append((combine([Results.load(path) for path in results]), config))
    return rows
