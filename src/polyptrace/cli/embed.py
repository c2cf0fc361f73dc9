"""`polyptrace embed ENCODER --data DATASET --out EMBEDDINGS`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from torch import nn

from polyptrace.cli.settings import ConfigFile, resolve
from polyptrace.cluster import embed_on
from polyptrace.compare import frozen_row
from polyptrace.core.console import counted
from polyptrace.core.files import refuse_existing
from polyptrace.data import Dataset
from polyptrace.embed import VECTORS_FILE, embed
from polyptrace.encoders import FROZEN, ColourGrid, load_encoder
from polyptrace.encoders.cost import encoder_cost
from polyptrace.encoders.foundation import FOUNDATION_MODELS

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

    Writes one vector per tracklet and one per whole track. Names: [bold]colour-grid[/], [bold]frozen:BACKBONE[/] (any
    timm model, vectors averaged over frames), and the foundation models that [bold]polyptrace encoders[/] lists. All
    settings: [bold]polyptrace settings embed[/].

    Examples:

      polyptrace embed runs/ours --data data/test --out vectors/ours

      polyptrace embed dinov2-small --weights dinov2-small.safetensors --data data/test --out vectors/dinov2

      polyptrace embed frozen:resnet50 --weights resnet50.safetensors --data data/test --out vectors/resnet50
    """
    settings = resolve(ctx, config, SECTIONS).embed
    refuse_existing(out, overwrite, VECTORS_FILE)
    model = load_encoder(encoder, weights, settings.pooling, settings.preprocess)
    dataset = Dataset.open(data)
    if cluster:
        embeddings = embed_on(cluster, model, dataset, settings=settings)
    else:
        embeddings = embed(model, dataset, settings=settings)
    method = _row(encoder) | _cost(model)
    info = {**embeddings.info, "from": encoder, "weights": weights, "method": method}
    replace(embeddings, info=info).save(out, overwrite=overwrite)
    count, width = embeddings.vectors.shape
    typer.echo(f"{counted(count, 'vector')} of {counted(width, 'number')}: {out}")


def _row(encoder: str) -> dict[str, Any]:
    """The row of an encoder in a table, if it is known by name or its folder says how it was trained."""
    named = encoder in (*FOUNDATION_MODELS, ColourGrid.name) or encoder.startswith(FROZEN)
    if not named and not Path(encoder).is_dir():
        return {}
    row = frozen_row(encoder)
    return {"name": row.title, "group": row.group} | ({"labels": row.labels} if row.labels else {})


def _cost(model: nn.Module) -> dict[str, Any]:
    """Parameters and operations of the encoder, under the names that results use."""
    spent = encoder_cost(model)
    if spent is None:
        return {}
    return {
        "params": spent.params,
        "flops": {"paper_macs": float(spent.paper_macs), "flops": float(spent.flops)},
    }
