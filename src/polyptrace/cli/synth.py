"""`polyptrace synth OUT --preset small --seed 0`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from polyptrace.synthetic import find_preset, generate, with_difficulty


def command(
    out: Annotated[Path, typer.Argument(help="Folder to write; it must not be there yet.")],
    preset: Annotated[Literal["tiny", "small", "full"], typer.Option(help="Scale.")] = "small",
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same bytes.")] = 0,
    view_change: Annotated[
        float | None, typer.Option(help="0-1: how much views of one polyp differ between tracks.")
    ] = None,
    alike: Annotated[float | None, typer.Option(help="0-1: how alike the polyps are.")] = None,
    interleave: Annotated[float | None, typer.Option(help="0-1: how often the camera turns to another polyp.")] = None,
    resight: Annotated[float | None, typer.Option(help="0-1: share of polyps seen again much later.")] = None,
    box_jitter: Annotated[
        float | None, typer.Option(help="0-1: deviation of box edges, as a share of the box.")
    ] = None,
    box_dropout: Annotated[float | None, typer.Option(help="0-1: share of boxes that are missing.")] = None,
    every_frame: Annotated[
        bool, typer.Option("--every-frame", help="Render every frame with a box, not only what tracklets use.")
    ] = False,
    device: Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="Where to render.")] = "auto",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT if it is there.")] = False,
) -> None:
    """Generate procedures: pictures, boxes and labels, rendered from nothing.

    Colon, polyps, camera and workflow are drawn from the seed; polyps keep their identity, size (mm) and histology
    through many tracks. Pictures and boxes are written as the authors' datasets come (COCO), training and test
    procedures apart.

    [bold]tiny[/] takes seconds (tests), [bold]small[/] about a minute on two cores (the demo), [bold]full[/] has the
    paper's 27 + 19 procedures with 85 + 47 polyps (minutes on a GPU).

    Examples:

      polyptrace synth generated --preset small --seed 0

      polyptrace prepare coco generated --split train --out data/train

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
    generate(out, chosen, seed, device=device, every_frame=every_frame, overwrite=overwrite)
