"""`polyptrace check DATASET`."""

from pathlib import Path
from typing import Annotated

import numpy as np
from rich.markup import escape
from rich.table import Table
from typer import Argument, Exit, Option

from polyptrace.core.console import echo, output
from polyptrace.data import Dataset
from polyptrace.data.checks import check_boxes, summary, suspected_corners
from polyptrace.data.preparation import count_labels, count_tracklets

CROPS_TO_CHECK = 512  # about
WARNINGS = 20  # of each kind that are printed: one box in ten may reach past the edge of its image
DEFAULT = f"Default: all fatal ones, {WARNINGS} warnings."

_TRAINED, _TESTED = {"videos": 27, "polyps": 85}, {"videos": 19, "polyps": 47, "tracks": 736}
#: Counts that the paper states for its datasets.
PAPER = {
    "rc27": _TRAINED,
    "paper-train": _TRAINED,
    "rc19": _TESTED,
    "paper-eval": _TESTED,
    "rsp": {"videos": 161, "polyps": 189},
    "rspp": {"videos": 195, "polyps": 210},
}


def command(
    dataset: Annotated[Path, Argument(help="Folder that 'polyptrace prepare' wrote.")],
    most: Annotated[int | None, Option(min=0, help=f"Findings to print per kind. {DEFAULT}")] = None,
) -> None:
    """Show the content of a dataset folder and check it.

    Prints the number of videos, polyps, tracks and tracklets (for the paper's datasets, beside the paper's numbers) and
    the findings by kind. The exit code is 1 if a finding is fatal.

    Examples:

      polyptrace check data/train

      polyptrace check data/train --most 5
    """
    opened = Dataset.open(dataset)
    print_dataset(opened)
    boxes = opened.boxes()
    findings = check_boxes(boxes)
    if warning := suspected_corners(boxes):
        echo(f"warning: {warning}")
    limits = (len(findings), WARNINGS) if most is None else (most, most)
    echo(summary(findings, *limits) or "no problems found")
    sample = opened.crops[:: max(1, len(opened.crops) // CROPS_TO_CHECK)]
    blank = int((~sample.any(axis=(1, 2, 3))).sum())
    if blank:
        echo(f"fatal: {blank} of {len(sample)} checked crops are black -> prepare the dataset again")
    if blank or any(finding.fatal for finding in findings):
        raise Exit(1)


def print_dataset(dataset: Dataset) -> None:
    """Prints the counts of a dataset, with the paper's for its datasets."""
    counts = dataset.info.get("counts", {}) | count_tracklets(dataset.tracklets)
    labels = count_labels(dataset.tracklets)
    source = dataset.info.get("source", {})
    names = (source.get(key) for key in ("split", "format", "path"))
    paper: dict[str, int] = next((PAPER[name] for name in names if name in PAPER), {})
    table = Table("", *(["here", "paper"] if paper else [""]), box=None, header_style="bold", show_header=bool(paper))
    rows = {"videos": counts["videos"], "polyps": labels["polyps"]} | counts
    rows |= {"polyps with size": labels["with size"], "polyps with histology": labels["with histology"]}
    if not labels["polyps"]:  # zeros would read as a result
        rows = {name: value for name, value in rows.items() if "polyps" not in name}
    for name, value in rows.items():
        table.add_row(name, f"{value:,}", *([str(paper.get(name, ""))] if paper else []))
    output.print(f"[bold]{escape(str(dataset.path))}[/]")
    output.print(table)
    if not labels["polyps"]:
        output.print(" no polyp labels")
    if dataset.generated:
        output.print(" generated procedures, not recordings")
    lengths = dataset.tracklets.length[dataset.select("track")]
    if len(lengths):
        low, median, high = np.percentile(lengths, [10, 50, 90]).astype(int)
        output.print(f" frames kept per track: {low} / {median} / {high} (10th / 50th / 90th percentile)")
    if counts.get("rejected"):
        echo(f" rejected boxes are listed in {dataset.path / 'rejected.csv'}")
