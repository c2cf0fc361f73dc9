"""`polyptrace report RESULTS... --out FOLDER`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from polyptrace.config import Evaluate
from polyptrace.core.console import console, echo
from polyptrace.core.files import refuse_existing
from polyptrace.data import Dataset
from polyptrace.embed import concatenate, embed
from polyptrace.encoders import load_encoder
from polyptrace.evaluate import Results, evaluate
from polyptrace.evaluate.results import Method
from polyptrace.figures.run import check_runs, run_figures
from polyptrace.report import ReportOptions, write_report
from polyptrace.report.runs import load_run
from polyptrace.report.sections import COLOUR_GRID
from polyptrace.report.write import PAGE_FILE, check_dataset


def command(
    results: Annotated[list[Path], typer.Argument(help="Folders written by 'polyptrace evaluate', one per row.")],
    out: Annotated[Path, typer.Option("--out", help="Report folder to write.")],
    data: Annotated[
        list[Path] | None,
        typer.Option("--data", help="Dataset folder, for film strips and images. Can be repeated."),
    ] = None,
    run: Annotated[
        list[Path] | None,
        typer.Option("--run", help="Training run, for its curves and the paper's Figures 1 and 2. Can be repeated."),
    ] = None,
    ablation: Annotated[
        list[Path] | None,
        typer.Option("--ablation", help="Results that become a row of Table 2. Can be repeated."),
    ] = None,
    show: Annotated[
        str | None,
        typer.Option("--show", help="Method that the page is about; by default the last self-supervised one."),
    ] = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="Quote the paper's Table 1 below our rows, marked as the paper's.")
    ] = False,
    title: Annotated[str | None, typer.Option("--title", help="Title of the page.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the folder if it exists.")] = False,
) -> None:
    """Write tables, figures and an HTML page from results.

    Writes report.html (one self-contained file), the tables as Markdown, LaTeX and HTML, the figures as SVG and PNG,
    and results.json with all values. Results of one method from several training seeds become one row. Bold marks the
    best method and all that a paired test cannot distinguish from it (Holm-adjusted p > 0.05).

    For results without labels, the colour-grid baseline is added if the dataset is given with --data.

    Examples:

      polyptrace report results/ours results/untrained --data data/test --run runs/ours --out report

      polyptrace report results/* --paper --out report

      polyptrace report results/ours --ablation results/ours --ablation results/nearest --run runs/nearest --out report
    """
    refuse_existing(out, overwrite, PAGE_FILE)
    rows = [Results.load(folder) for folder in [*results, *(ablation or [])]]
    runs = [load_run(folder) for folder in run or ()]
    datasets = [Dataset.open(path) for path in data or ()]
    for dataset in datasets:
        check_dataset(dataset, rows, runs)
    check_runs(runs, rows)
    with console.status("drawing") as status:
        options = ReportOptions(
            data=tuple(data or ()),
            runs=tuple(run or ()),
            ablations=tuple(ablation or ()),
            focus=show,
            paper=paper,
            title=title,
            baselines=tuple(colour_grid(rows, datasets)),
            training_figures=tuple(run_figures(runs, datasets)),
            on_progress=lambda section: status.update(f"drawing: {section}"),
        )
        page = write_report(results, out, options, overwrite=overwrite)
    echo(f"report: {page}")


def colour_grid(rows: list[Results], datasets: list[Dataset]) -> list[Results]:
    """The colour grid, counted on the same tracks, if the rows have no labels and it is not among them."""
    counted = [row for row in rows if any(name.startswith("counting.") for name in row.tasks)]
    labelled = any(task.counts.get("labelled_videos", 0) for row in rows for task in row.tasks.values())
    if labelled or not counted or any(row.method.encoder == COLOUR_GRID for row in rows):
        return []
    tested = [dataset for dataset in datasets if _is_tested(dataset, counted[0])]
    if not tested:
        return []
    encoder = load_encoder(COLOUR_GRID)
    vectors = concatenate([embed(encoder, dataset, ("track",)) for dataset in tested])
    vectors = replace(vectors, polyp=np.full(len(vectors), "", object))  # the datasets may have labels
    settings = Evaluate(**counted[0].settings.get("evaluate", {}))
    method = Method("Colour grid", "Baseline", encoder=COLOUR_GRID)
    return [evaluate({"counting": vectors}, ("counting",), settings, method=method)]


def _is_tested(dataset: Dataset, row: Results) -> bool:
    tracks = set(zip(row.arrays["tracks/dataset"].tolist(), row.arrays["tracks/video"].tolist(), strict=True))
    return bool(tracks & set(zip(dataset.tracklets.dataset, dataset.tracklets.video, strict=True)))
