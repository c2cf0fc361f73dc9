"""`polyptrace evaluate retrieval reid size histology counting --embeddings EMBEDDINGS --out RESULTS`."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from polyptrace.cli.settings import ConfigFile
from polyptrace.config import Config, override, read_config
from polyptrace.core.console import console, counted
from polyptrace.core.errors import UserError
from polyptrace.core.files import refuse_existing
from polyptrace.evaluate import (
    GROUPS,
    LABEL_USE,
    RESULTS_FILE,
    TASKS,
    TRACK_LIST,
    Metric,
    Results,
    combine,
    evaluate_files,
)

SECTIONS = ("evaluate",)
MOST_PROCEDURES = 40  # shown on the screen
#: What figures are of, where it is one.
ONE = {"queries": "query", "pairs": "pair", "tracklets": "tracklet", "videos": "video"}
#: Figures that are not fractions: shown as they are, not in percent.
PLAIN = ("fragmentation", "fragmentation_sd", "count_error", "count_bias", "clusters")


def command(
    tasks: Annotated[list[str] | None, typer.Argument(help=f"Any of {', '.join(TASKS)}; all if none is given.")] = None,
    out: Annotated[Path, typer.Option("--out", help="Results folder to write.")] = Path("results"),
    embeddings: Annotated[
        list[Path] | None,
        typer.Option(
            "--embeddings",
            help="Folder of 'polyptrace embed', or a .npz or .parquet made elsewhere; "
            "given again, datasets are put together.",
        ),
    ] = None,
    embeddings_for: Annotated[
        list[str] | None,
        typer.Option("--embeddings-for", metavar="TASK=PATH", help="Embeddings of one task instead; may be repeated."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the row in the table.")] = None,
    group: Annotated[str | None, typer.Option("--group", help=f"Its group: {', '.join(GROUPS)}.")] = None,
    labels: Annotated[str | None, typer.Option("--labels", help=f"What training used: {', '.join(LABEL_USE)}.")] = None,
    trained_on_test: Annotated[
        list[str] | None,
        typer.Option("--trained-on-test", metavar="TASK", help="Task whose test data its pretraining saw."),
    ] = None,
    histology: Annotated[
        list[str] | None,
        typer.Option(
            "--histology", metavar="NAME=LABEL", help="Histology beyond the known ones: 1 adenoma, 0 not, -1 left out."
        ),
    ] = None,
    seeds: Annotated[
        list[Path] | None,
        typer.Option(
            "--combine",
            metavar="RESULTS",
            help="Instead of evaluating: results of one method, one per training seed, as one row.",
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the folder if it exists.")] = False,
    config: ConfigFile = None,
) -> None:
    """Measure vectors: retrieval, re-identification, size, histology, counting.

    Retrieval, ReID and counting take whole tracks, size and histology
    tracklets. A task whose labels are missing is skipped and says why. Every
    figure has a 95 % interval from a bootstrap over polyps (over videos with
    [bold]--evaluate.cluster video[/]). [bold]polyptrace settings evaluate[/] lists all settings.

    [bold]Vectors made elsewhere[/] come as an .npz with an array [bold]vectors[/] (N, D), or
    as a .parquet with a column [bold]vector[/] (list of floats), and a value per
    vector of what the tasks need ("" or NaN: unknown):

      [bold]polyp[/]      id, unique in its dataset  all; counting can do without

      [bold]video[/]      id of the procedure        counting, splits by video

      [bold]size_mm[/]    diameter                   size

      [bold]histology[/]  AD, HP, adenomatous, ...   histology

      [bold]position[/], [bold]last[/], [bold]fps[/]  frames, frames/s  close and far in time

      [bold]dataset[/]    name                       several datasets together

      [bold]unit[/]       tracklet or track          without it: each row is both

      [bold]track[/]      whole number               names a row

    Examples:

      polyptrace evaluate --embeddings vectors/ours --out results/ours

      polyptrace evaluate retrieval reid --embeddings theirs.npz \\
        --name Theirs --group "Endoscopy FM" --out results/theirs

      polyptrace evaluate --embeddings rc19 --embeddings-for size=rc19 \\
        --embeddings-for size=sun --out results/ours

      polyptrace evaluate --combine results/ours-0 --combine results/ours-1 \\
        --out results/ours
    """
    wanted, arguments = _split(tasks or [])
    refuse_existing(out, overwrite, RESULTS_FILE)
    if seeds:
        results = combine([Results.load(folder) for folder in seeds])
    else:
        settings = override(read_config(config), arguments, SECTIONS)
        results = _evaluate(wanted or list(TASKS), embeddings or [], embeddings_for or [], histology or [], settings)
    told = results.method
    method = replace(
        told,
        name=name or told.name,
        group=group or told.group,
        labels=labels or told.labels,
        trained_on_test=tuple(_known(task) for task in trained_on_test or told.trained_on_test),
    )
    results = replace(results, method=method)
    results.save(out, overwrite=overwrite)
    print_results(results)
    if (out / TRACK_LIST).is_file():
        typer.echo(f"which tracks were taken for the same polyp: {out / TRACK_LIST}")
    typer.echo(f"results: {out}")


def print_results(results: Results) -> None:
    """A table of what was measured, then what was not and why."""
    table = Table(title=results.method.name, header_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for column in ("task", "figure"):
        table.add_column(column, no_wrap=True)
    for column in ("value", "95 % interval", "n"):
        table.add_column(column, no_wrap=True, justify="right")
    for name, task in results.tasks.items():
        for place, (figure, told) in enumerate(task.metrics.items()):
            table.add_row(name if place == 0 else "", figure, *_shown(figure, told))
        if task.metrics:
            table.add_section()
    screen = Console(width=max(90, Console().width))
    if table.row_count:
        screen.print(table)
    for name, task in results.tasks.items():
        if task.reason:
            status = "" if task.status == "done" else f" {task.status}"
            screen.print(f"[yellow]{name}[/]{status}: {escape(task.reason)}", soft_wrap=True)
    _print_polyps(results, screen)


def _print_polyps(results: Results, screen: Console) -> None:
    """Polyps found in each procedure, by each way of counting, and how many there are where that is known."""
    ways = [name for name in results.tasks if f"{name}/clusters" in results.arrays]
    if not ways:
        return
    procedures, true = results.arrays[f"{ways[0]}/procedure"], results.arrays[f"{ways[0]}/polyps"]
    labelled = bool((true >= 0).any())
    table = Table("polyps found", *(way.removeprefix("counting.") for way in ways), box=None, header_style="bold")
    if labelled:
        table.add_column("there are")
    for place, procedure in enumerate(procedures[:MOST_PROCEDURES].tolist()):
        found = [str(results.arrays[f"{way}/clusters"][place]) for way in ways]
        known = [str(true[place]) if true[place] >= 0 else "?"] if labelled else []
        table.add_row(escape(str(procedure).lstrip("/")), *found, *known)
    screen.print(table)
    if len(procedures) > MOST_PROCEDURES:
        screen.print(f"... and {counted(len(procedures) - MOST_PROCEDURES, 'more procedure')}, in {TRACK_LIST}")


def _shown(name: str, told: Metric) -> tuple[str, str, str]:
    """Value, interval and number; fractions in percent."""
    scale = 1 if name in PLAIN else 100
    value, low, high = (f"{scale * number:.2f}" for number in (told.value, told.low, told.high))
    return (
        value,
        "-" if math.isnan(told.low) else f"{low} to {high}",
        counted(told.n, ONE.get(told.of, told.of), told.of),
    )


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Tasks, and the `--section.key value` arguments that stand among them."""
    tasks, arguments = [], []
    remaining = iter(words)
    for word in remaining:
        if not word.startswith("-"):
            tasks.append(_known(word))
            continue
        arguments.append(word)
        if "=" not in word:
            arguments += [value for value in [next(remaining, None)] if value is not None]
    return list(dict.fromkeys(tasks)), arguments


def _known(task: str) -> str:
    if task not in TASKS:
        raise UserError(f"task {task!r}: no such task -> one of {', '.join(TASKS)}")
    return task


def _evaluate(
    tasks: list[str], paths: list[Path], paths_for: list[str], histology: list[str], settings: Config
) -> Results:
    """Reads what each task needs, and evaluates it."""
    chosen: dict[str, list[Path]] = {}
    for text in paths_for:
        task, equals, path = text.partition("=")
        if not equals or not path:
            raise UserError(f"--embeddings-for {text}: not TASK=PATH -> write for example size=vectors/sun")
        chosen.setdefault(_known(task), []).append(Path(path))
    lacking = [task for task in tasks if task not in chosen]
    if lacking and not paths:
        raise UserError(f"{', '.join(lacking)}: no embeddings -> give --embeddings PATH")
    with console.status("evaluating") as status:
        return evaluate_files(
            {task: chosen.get(task, paths) for task in tasks},
            settings.evaluate,
            _mapping(histology),
            say=lambda task: status.update(f"evaluating {task}"),
        )


def _mapping(texts: list[str]) -> dict[str, int]:
    labels = {"1": 1, "0": 0, "-1": -1}
    mapping = {}
    for text in texts:
        name, _, label = text.rpartition("=")
        if not name or label not in labels:
            raise UserError(f"--histology {text}: not NAME=LABEL -> the label is 1, 0 or -1")
        mapping[name] = labels[label]
    return mapping
