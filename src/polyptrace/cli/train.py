"""`polyptrace train METHOD --data DATASET --out RUN`."""

from pathlib import Path
from typing import Annotated

import typer

from polyptrace.cli.settings import ConfigFile, resolve
from polyptrace.core.errors import UserError
from polyptrace.data import Dataset
from polyptrace.methods import METHODS
from polyptrace.train import SECTIONS, train


def command(
    ctx: typer.Context,
    method: Annotated[str, typer.Argument(help=f"Row of the table: {', '.join(METHODS)}.")],
    data: Annotated[Path, typer.Option("--data", help="Dataset folder, made by 'polyptrace prepare'.")],
    out: Annotated[Path, typer.Option("--out", help="Run folder to write; the same folder goes on.")],
    init_from: Annotated[
        str | None, typer.Option("--init-from", help="Begin with the weights of another run or encoder.")
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Train a tracklet encoder on a dataset, without labels.

    Killed? Start the same command again: it goes on where it was. Each method starts from its published settings; a
    TOML file and --section.key value come on top. All settings: [bold]polyptrace settings supervision views loss
    encoder optimiser train[/].

    Examples:

      polyptrace train ours --data data/train --out runs/ours

      polyptrace train ours --data data/train --out runs/small --encoder.backbone resnet18 --encoder.weights none

      torchrun --nproc-per-node 4 -m polyptrace train ours --data data/train --out runs/ours
    """
    if method not in METHODS:
        raise UserError(f"{method}: not a method -> one of {', '.join(METHODS)}")
    settings = resolve(ctx, config, SECTIONS, METHODS[method].published())
    if settings.train.method != method:
        raise UserError(f"{config}: train.method is {settings.train.method!r}, the command says {method!r}")
    encoder = train(settings, Dataset.open(data), out, init_from)
    typer.echo(f"encoder: {encoder}")
