"""`polyptrace evaluate retrieval reid size histology counting --embeddings EMBEDDINGS --out RESULTS`."""

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table
from typer import Argument, Context, Option

from polyptrace.cli.options import ConfigFile, Overwrite, read_settings, split_arguments
from polyptrace.core.console import SafeConsole, console, counted, echo, output, suggest
from polyptrace.core.errors import UserError
from polyptrace.core.files import refuse_existing
from polyptrace.encoders.encoder import LABEL_USE
from polyptrace.evaluate import Results
from polyptrace.evaluate.evaluation import evaluate_files
from polyptrace.evaluate.results import ARRAYS_FILE, BASELINE, GROUPS, TRACK_LIST, Method, combine, load_each
from polyptrace.evaluate.tasks import TASKS, check_task

SECTIONS = ("evaluate",)
MOST_PROCEDURES = 40  # shown on the terminal
#: Singular of what a metric is computed over.
SINGULAR = {"queries": "query", "pairs": "pair", "tracklets": "tracklet", "videos": "video"}
#: Metrics that are not fractions, so they are not shown in percent.
NOT_FRACTIONS = ("fragmentation", "fragmentation_sd", "count_error", "count_bias", "clusters")


def command(
    ctx: Context,
    tasks: Annotated[list[str] | None, Argument(help=f"Any of {', '.join(TASKS)}; default: all.")] = None,
    out: Annotated[Path, Option(help="Results folder to write.")] = Path("results"),
    embeddings: Annotated[
        list[Path] | None, Option(help="Folder of 'polyptrace embed', or a .npz or .parquet file; repeatable.")
    ] = None,
    embeddings_for: Annotated[
        list[str] | None, Option(metavar="TASK=PATH", help="Embeddings of one task only; repeatable.")
    ] = None,
    train_for: Annotated[
        list[str] | None, Option(metavar="TASK=PATH", help="Training set of a probe; --embeddings is its test set.")
    ] = None,
    name: Annotated[str | None, Option(help="Name of the row in the table.")] = None,
    group: Annotated[str | None, Option(help=f"Group of the row: {', '.join(GROUPS)}.")] = None,
    labels: Annotated[str | None, Option(help=f"Labels used in training: {', '.join(LABEL_USE)}.")] = None,
    trained_on_test: Annotated[
        list[str] | None, Option(metavar="TASK", help="Task whose test data were used in pretraining; repeatable.")
    ] = None,
    histology: Annotated[
        list[str] | None, Option(metavar="NAME=LABEL", help="Class of a histology: 1 adenoma, 0 not, -1 left out.")
    ] = None,
    seeds: Annotated[
        list[Path] | None, Option("--combine", metavar="RESULTS", help="Combine results of training seeds; repeatable.")
    ] = None,
    overwrite: Overwrite = False,
    config: ConfigFile = None,
) -> None:
    """Evaluate vectors: retrieval, re-identification, size, histology, counting.

    Retrieval, ReID and counting use whole tracks, size and histology use
    tracklets. A task without its labels is skipped, with the reason. Every
    metric has a 95 % confidence interval from a bootstrap over procedures
    ([bold]--evaluate.cluster polyp[/]: over polyps). [bold]polyptrace settings evaluate[/] lists
    all settings.

    [bold]Vectors of other programs[/] are read from an .npz with an array [bold]vectors[/]
    (N, D), or from a .parquet with a column [bold]vector[/] (list of floats). The tasks
    need these columns, with one value per vector ("" or NaN: unknown):

      [bold]polyp[/]      id, unique in its dataset  all; optional for counting

      [bold]video[/]      id of the procedure        counting, bootstrap

      [bold]size_mm[/]    diameter                   size

      [bold]histology[/]  AD, HP, adenomatous, ...   histology

      [bold]position[/], [bold]last[/], [bold]fps[/]  frames, frames/s  distance in time

      [bold]dataset[/]    name                       several datasets

      [bold]unit[/]       tracklet or track          default: both

      [bold]track[/]      integer                    identifies a row

    Examples:

      polyptrace evaluate --embeddings vectors/ours --out results/ours

      polyptrace evaluate retrieval reid --embeddings theirs.npz \\
        --name Theirs --group "Endoscopy FM" --out results/theirs

      polyptrace evaluate --embeddings rc19 --embeddings-for size=rc19 \\
        --embeddings-for size=sun --out results/ours

      polyptrace evaluate size --train-for size=rsp-train \\
        --embeddings rsp-val --out results/ours

      polyptrace evaluate --combine results/ours-0 --combine results/ours-1 \\
        --out results/ours
    """
    words, arguments = split_arguments(tasks or [])
    wanted = list(dict.fromkeys(map(check_task, words)))
    seen = tuple(map(check_task, trained_on_test or ()))
    Method(name or "", group or BASELINE, labels or "")  # an unknown group or label use is an error now, not at the end
    refuse_existing(out, overwrite, ARRAYS_FILE)
    if seeds:
        lists = {"--embeddings": embeddings, "--embeddings-for": embeddings_for, "--train-for": train_for}
        options = [option for option, values in (lists | {"--histology": histology}).items() if values]
        if unused := [*words, *arguments, *options]:
            raise UserError(f"--combine: takes no {unused[0]} -> leave it out")
        results = combine(load_each(seeds))
    else:
        settings = read_settings(ctx, config, SECTIONS, arguments=arguments).evaluate
        of_task = paths_by_task("--embeddings-for", embeddings_for, wanted or TASKS)
        train = paths_by_task("--train-for", train_for, wanted or TASKS)
        classes = _mapping(histology or [])
        paths = {task: of_task.get(task, embeddings or []) for task in wanted or TASKS}
        if lacking := [task for task in paths if not paths[task]]:
            raise UserError(f"{', '.join(lacking)}: no embeddings -> give --embeddings PATH")
        with console.status("evaluating") as status:
            results = evaluate_files(
                paths,
                settings,
                histology=classes,
                train=train,
                on_task=lambda task: status.update(f"evaluating {task}"),
            )
    results = results.described(name=name, group=group, labels=labels, trained_on_test=seen)
    if not any(task.metrics for task in results.tasks.values()):
        print_results(results)
        raise UserError("nothing could be evaluated -> add what is missing, as listed above")
    results.save(out, overwrite=overwrite)
    print_results(results)
    if (out / TRACK_LIST).is_file():
        echo(f"tracks that are counted as the same polyp: {out / TRACK_LIST}")
    echo(f"results: {out}")
    suggest("report", out, out="report")


def print_results(results: Results) -> None:
    """Prints a table of the metrics, then the reasons of skipped tasks and remarks."""
    texts = (Column(name, no_wrap=True) for name in ("task", "metric"))
    numbers = (Column(name, no_wrap=True, justify="right") for name in ("value", "95 % interval", "n"))
    title = escape(results.method.name)
    table = Table(*texts, *numbers, title=title, header_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for name, task in results.tasks.items():
        for index, (key, metric) in enumerate(task.metrics.items()):
            scale = 1 if key in NOT_FRACTIONS else 100
            value, low, high = (f"{scale * number:.2f}" for number in (metric.value, metric.low, metric.high))
            interval = "-" if math.isnan(metric.low) else f"{low} to {high}"
            count = counted(metric.n, SINGULAR.get(metric.of, metric.of), metric.of)
            table.add_row(name if index == 0 else "", key, value, interval, count)
        if task.metrics:
            table.add_section()
    screen = SafeConsole(width=max(90, output.width))
    if table.row_count:
        screen.print(table)
    names: dict[tuple[str, str], list[str]] = {}  # one line for all tasks with the same remark
    for name, task in results.tasks.items():
        if task.reason:
            names.setdefault((task.status, task.reason), []).append(name)
    for (status, reason), tasks in names.items():
        suffix = "" if status == "done" else f" {status}"
        screen.print(f"[yellow]{', '.join(tasks)}[/]{suffix}: {escape(reason)}", soft_wrap=True)
    _print_polyps(results, screen)


def _print_polyps(results: Results, screen: Console) -> None:
    """Prints the number of polyps of each procedure by each clustering, and the true number if it is known."""
    tasks = [name for name in results.tasks if f"{name}/clusters" in results.arrays]
    if not tasks:
        return
    procedures, true = results.arrays[f"{tasks[0]}/procedure"], results.arrays[f"{tasks[0]}/polyps"]
    labelled = bool((true >= 0).any())
    table = Table(
        "polyps per video", *(task.removeprefix("counting.") for task in tasks), box=None, header_style="bold"
    )
    if labelled:
        table.add_column("true")
    for index, procedure in enumerate(procedures[:MOST_PROCEDURES].tolist()):
        clusters = [str(results.arrays[f"{task}/clusters"][index]) for task in tasks]
        known = [str(true[index]) if true[index] >= 0 else "?"] if labelled else []
        table.add_row(escape(str(procedure).lstrip("/")), *clusters, *known)
    screen.print(table)
    if len(procedures) > MOST_PROCEDURES:
        screen.print(f"... and {counted(len(procedures) - MOST_PROCEDURES, 'more procedure')}, in {TRACK_LIST}")


def paths_by_task(option: str, texts: Sequence[str] | None, tasks: Collection[str]) -> dict[str, list[Path]]:
    """The paths of an option `TASK=PATH` by task, which must be one of the `tasks` that are evaluated."""
    paths: dict[str, list[Path]] = {}
    for text in texts or []:
        task, _, path = text.partition("=")
        if not path:
            raise UserError(f"{option} {text}: not TASK=PATH -> write for example size=data/sun")
        if check_task(task) not in tasks:
            raise UserError(
                f"{option} {task}: this task is not evaluated -> add it to the tasks, or leave out the option"
            )
        paths.setdefault(task, []).append(Path(path))
    return paths


def _mapping(texts: list[str]) -> dict[str, int]:
    mapping = {}
    for text in texts:
        name, _, label = text.rpartition("=")
        if not name or label not in ("1", "0", "-1"):
            raise UserError(f"--histology {text}: not NAME=LABEL -> the label is 1, 0 or -1")
        mapping[name] = int(label)
    return mapping
