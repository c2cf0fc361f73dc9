"""`polyptrace synth OUT --preset small --seed 0`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from polyptrace.core.console import console


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
    from polyptrace.synthetic import find_preset, generate, with_difficulty  # here: help does not wait for torch

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
    if stats or real is not None:
        from polyptrace.cli.synth_figures import print_figures, print_pictures

        if stats:
            print_figures(out)
        if real is not None:
            print_pictures(out, real)
