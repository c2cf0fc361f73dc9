"""`polyptrace check DATASET`."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from polyptrace.data import Dataset, check_boxes
from polyptrace.data.checks import summary, suspicion
from polyptrace.data.counts import paper_counts

SAMPLED = 512  # crops to look at, or some more


def command(
    dataset: Annotated[Path, typer.Argument(help="A folder that 'polyptrace prepare' wrote.")],
    most: Annotated[int | None, typer.Option(min=0, help="Findings of each kind to print; all if not given.")] = None,
) -> None:
    """Look a dataset folder over: what is in it, and what is wrong with it.

    Prints videos, polyps, tracks and tracklets (beside the paper's, for its own datasets) and every finding, counted by
    kind. Ends with exit code 1 when one of them is fatal.
    """
    opened = Dataset.open(dataset)
    print_dataset(opened)
    findings = check_boxes(opened.boxes())
    sample = opened.crops[:: max(1, len(opened.crops) // SAMPLED)]
    blank = int((~sample.any(axis=(1, 2, 3))).sum())
    doubt = suspicion(opened.boxes())
    if doubt:
        Console().print(f"warning: {doubt}", markup=False, highlight=False, soft_wrap=True)
    Console().print(
        summary(findings, len(findings) if most is None else most) or "no findings",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    if blank:
        Console().print(
            f"fatal: {blank} of {len(sample)} crops that were looked at are black -> prepare the dataset again"
        )
    if blank or any(finding.fatal for finding in findings):
        raise typer.Exit(1)


def print_dataset(dataset: Dataset) -> None:
    """A table of what a dataset holds, beside the paper's figures where it is one of the paper's."""
    counts, labels = dataset.info["counts"], dataset.info["labels"]
    source = dataset.info["source"]
    names = (source.get(key) for key in ("split", "format", "path"))
    paper = next((counted for name in names if (counted := paper_counts(str(name)))), None)
    table = Table("", *(["here", "paper"] if paper else [""]), box=None, header_style="bold", show_header=bool(paper))
    stated = {"videos": paper.videos, "polyps": paper.polyps, "tracks": paper.tracks} if paper else {}
    rows = {"videos": counts["videos"], "polyps": labels["polyps"]} | counts
    rows |= {"polyps with size": labels["with size"], "polyps with histology": labels["with histology"]}
    for name, value in rows.items():
        table.add_row(name, f"{value:,}", *([str(stated.get(name) or "")] if paper else []))
    console = Console()
    console.print(f"[bold]{escape(str(dataset.path))}[/]")
    console.print(table)
    lengths = dataset.tracklets.length[dataset.select("track")]
    if len(lengths):
        low, middle, high = np.percentile(lengths, [10, 50, 90]).astype(int)
        console.print(f" frames kept per track: {low} / {middle} / {high} (10th / 50th / 90th percentile)")
    if counts["rejected"]:
        rejected = dataset.path / "rejected.csv"
        console.print(f" rejected boxes are listed in {rejected}", markup=False, highlight=False, soft_wrap=True)
