"""`polyptrace synth OUT --preset small --seed 0`."""

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
import typer
from rich.console import Console
from rich.table import Table

from polyptrace.data import Boxes, cut_tracklets, link_tracks, read_coco
from polyptrace.progress import console
from polyptrace.supervision import sample_bags, temperature
from polyptrace.synthetic import (
    HEIGHT,
    bag_purity,
    box_figures,
    colour_grid_map,
    compare,
    find_preset,
    find_recordings,
    generate,
    measure_recording,
    with_difficulty,
)


def command(
    out: Annotated[Path, typer.Argument(help="Folder to write.")],
    preset: Annotated[Literal["tiny", "small", "full"], typer.Option(help="Scale.")] = "small",
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same bytes.")] = 0,
    view_change: Annotated[
        float | None, typer.Option(min=0, max=1, help="How much views of one polyp differ between tracks.")
    ] = None,
    alike: Annotated[float | None, typer.Option(min=0, max=1, help="How alike the polyps are.")] = None,
    interleave: Annotated[
        float | None, typer.Option(min=0, max=1, help="How often the camera turns to another polyp.")
    ] = None,
    resight: Annotated[
        float | None, typer.Option(min=0, max=1, help="Share of polyps that are seen again much later.")
    ] = None,
    box_jitter: Annotated[
        float | None, typer.Option(min=0, max=1, help="Deviation of the boxes' edges, as a share of the box.")
    ] = None,
    box_dropout: Annotated[
        float | None, typer.Option(min=0, max=1, help="Share of boxes that the detector misses.")
    ] = None,
    every_frame: Annotated[
        bool, typer.Option("--every-frame", help="Render every frame with a box, not only what tracklets use.")
    ] = False,
    contact_sheet: Annotated[
        bool, typer.Option("--contact-sheet", help="Write sheets/VIDEO.png: some tracks of every polyp.")
    ] = False,
    stats: Annotated[bool, typer.Option("--stats", help="Print statistics beside REAL-Colon's.")] = False,
    real: Annotated[
        Path | None, typer.Option(help="Folder of real clips (JPEG): print picture statistics beside theirs.")
    ] = None,
    device: Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="Where to render.")] = "auto",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT if it is there.")] = False,
) -> None:
    """Generate procedures: pictures, boxes and labels, rendered from nothing.

    Colon, polyps, camera and workflow are drawn from the seed; polyps keep their identity, size (mm) and histology
    through many tracks. Pictures and boxes are written as the authors' datasets come (COCO), training and test
    procedures apart. If OUT was made with the same settings before, nothing is rendered again.

    [bold]tiny[/] takes seconds (tests), [bold]small[/] about a minute on two cores (the demo), [bold]full[/] has the
    paper's 27 + 19 procedures with 85 + 47 polyps (about a minute on a GPU). Shares that are left out are the preset's.

    Examples:

      polyptrace synth generated --preset small --seed 0

      polyptrace prepare coco generated --split train --out data/train

      polyptrace synth generated --stats --real clips

      polyptrace synth hard --view-change 1 --alike 0.6 --interleave 0.6 --box-dropout 0.05
    """
    chosen = with_difficulty(
        find_preset(preset),
        view_change=view_change,
        alike=alike,
        interleave=interleave,
        resight=resight,
        box_jitter=box_jitter,
        box_dropout=box_dropout,
    )
    made = generate(
        out,
        chosen,
        seed,
        device=device,
        every_frame=every_frame,
        contact_sheets=contact_sheet,
        overwrite=overwrite,
    )
    console.print(f"{out}: {'written' if made else 'there already, made with the same settings'}", soft_wrap=True)
    if stats:
        _print_figures(out)
    if real is not None:
        _print_pictures(out, real)


def _print_figures(out: Path) -> None:
    """Tracks, gaps, sizes, bag purity and the colour baseline of a generated folder."""
    test = read_coco(out, split="test")
    boxes = Boxes.concatenate([read_coco(out, split="train"), test])
    table = Table("10th / 50th / 90th percentile", "here", "REAL-Colon", box=None, header_style="bold")
    for figure in box_figures(boxes):
        table.add_row(figure.name, figure.ours, figure.real)
    tracklets = cut_tracklets(boxes, link_tracks(boxes, "polyp"))
    for progress in (0.0, 0.5, 1.0):
        generator = torch.Generator().manual_seed(0)
        bags = sample_bags(tracklets.video, tracklets.position, 4, temperature(progress), generator)
        members, whole = bag_purity(bags, tracklets.polyp)
        table.add_row(
            f"bag purity at c = {progress:g}", f"{100 * members:.0f} % of members, {100 * whole:.0f} % of bags"
        )
    table.add_row("colour-grid mAP, test split", f"{100 * colour_grid_map(test, out):.1f}")
    Console().print(table)


def _print_pictures(out: Path, real: Path) -> None:
    """Simple statistics of generated pictures beside real ones."""
    height = min(HEIGHT, int(read_coco(out, split="test").image_height[0]))  # detail is compared at one scale
    generated, theirs = (
        np.stack([measure_recording(files, height) for files in find_recordings(root, most=12)])
        for root in (out / "images", real)
    )
    table = Table("10th / 50th / 90th percentile", "generated", "real", "median within", box=None, header_style="bold")
    for row in compare(generated, theirs):
        numbers = (" / ".join(f"{value:.3g}" for value in values) for values in (row.generated, row.real))
        table.add_row(row.measure, *numbers, "yes" if row.within else "[bold]no[/]")
    Console().print(table)
