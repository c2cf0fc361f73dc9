"""`polyptrace report RESULTS... --out FOLDER`."""

from pathlib import Path
from typing import Annotated

import typer

from polyptrace.core.console import console
from polyptrace.report import Choices, write_report


def command(
    results: Annotated[list[Path], typer.Argument(help="Folders that 'polyptrace evaluate' wrote, one per row.")],
    out: Annotated[Path, typer.Option("--out", help="Report folder to write.")],
    data: Annotated[
        list[Path] | None,
        typer.Option("--data", help="Dataset folder, for film strips and stills; may be repeated."),
    ] = None,
    run: Annotated[
        list[Path] | None,
        typer.Option("--run", help="Training run, for loss curves and the paper's Figures 1 and 2; may be repeated."),
    ] = None,
    ablation: Annotated[
        list[Path] | None,
        typer.Option("--ablation", help="Results of a run that left a part out: a row of Table 2; may be repeated."),
    ] = None,
    show: Annotated[
        str | None, typer.Option("--show", help="Method that the page is about; the last self-supervised by default.")
    ] = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="Quote the paper's own figures below ours in Table 1, as the paper's.")
    ] = False,
    title: Annotated[str | None, typer.Option("--title", help="Title of the page.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the folder if it exists.")] = False,
) -> None:
    """Tables, figures and one HTML page from results.

    Writes report.html (everything in one file, nothing from the network), the tables as Markdown, LaTeX and HTML, the
    figures as SVG and PNG, and results.json for machines. Results of one method from several training seeds become one
    row. Bold is the best, shared where a paired test sees no difference (Holm-adjusted p > 0.05).

    Examples:

      polyptrace report results/ours results/untrained --data data/test --run runs/ours --out report

      polyptrace report results/* --paper --out report

      polyptrace report results/ours --ablation results/ours --ablation results/nearest --run runs/nearest --out report
    """
    with console.status("drawing") as status:
        choices = Choices(
            tuple(data or ()),
            tuple(run or ()),
            tuple(ablation or ()),
            show,
            paper,
            title,
            lambda part: status.update(f"drawing: {part}"),
        )
        page = write_report(results, out, choices, overwrite=overwrite)
    typer.echo(f"report: {page}")
