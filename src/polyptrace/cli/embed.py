"""`polyptrace embed ENCODER --data DATASET --out EMBEDDINGS`."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from polyptrace.cli.settings import ConfigFile, resolve
from polyptrace.cluster import embed_on
from polyptrace.compare.rows import frozen_row
from polyptrace.core.console import counted, echo
from polyptrace.embed import embed, embed_files
from polyptrace.encoders import ColourGrid
from polyptrace.encoders.foundation import FOUNDATION_MODELS
from polyptrace.encoders.frame import FROZEN
from polyptrace.encoders.weights import DEFAULT

SECTIONS = ("embed",)


def command(
    ctx: typer.Context,
    encoder: Annotated[str, typer.Argument(help="Run, encoder folder, authors' checkpoint, name, or hub id.")],
    data: Annotated[Path, typer.Option("--data", help="Dataset folder, made by 'polyptrace prepare'.")],
    out: Annotated[Path, typer.Option("--out", help="Embeddings folder to write.")],
    weights: Annotated[
        str | None,
        typer.Option("--weights", help="Weights of a foundation model or frozen backbone: file, folder or hub id."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the folder if it exists.")] = False,
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="ADDRESS", help="Compute on a Ray cluster: auto, or HOST:PORT.")
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Embed a dataset with a frozen encoder.

    Writes one vector per tracklet and one per whole track. Names: [bold]default[/] (comes with the package),
    [bold]colour-grid[/], [bold]frozen:BACKBONE[/] (any timm model, vectors averaged over frames), and the foundation
    models that [bold]polyptrace encoders[/] lists. All settings: [bold]polyptrace settings embed[/].

    Examples:

      polyptrace embed runs/ours --data data/test --out vectors/ours

      polyptrace embed default --data data/test --out vectors/default

      polyptrace embed dinov2-small --weights dinov2-small.safetensors --data data/test --out vectors/dinov2

      polyptrace embed frozen:resnet50 --weights resnet50.safetensors --data data/test --out vectors/resnet50
    """
    settings = resolve(ctx, config, SECTIONS).embed
    compute = partial(embed_on, cluster) if cluster else embed
    embeddings = embed_files(
        encoder, data, out, weights, settings, row=row_of(encoder), overwrite=overwrite, compute=compute
    )
    count, width = embeddings.vectors.shape
    echo(f"{counted(count, 'vector')} of {counted(width, 'number')}: {out}")


def row_of(encoder: str) -> dict[str, Any]:
    """The row of an encoder in a table, if it is known by name or its folder says how it was trained."""
    named = encoder in (*FOUNDATION_MODELS, DEFAULT, ColourGrid.name) or encoder.startswith(FROZEN)
    if not named and not Path(encoder).is_dir():
        return {}
    row = frozen_row(encoder)
    return {"name": row.title, "group": row.group} | ({"labels": row.labels} if row.labels else {})
