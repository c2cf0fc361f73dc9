"""`polyptrace train METHOD --data DATASET --out RUN`."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option

from polyptrace.cli.options import ConfigFile, read_settings
from polyptrace.core.console import echo, suggest
from polyptrace.core.errors import UserError
from polyptrace.data import Dataset, join_datasets
from polyptrace.methods import METHODS
from polyptrace.train import SECTIONS, train, with_architecture


def command(
    ctx: Context,
    method: Annotated[str, Argument(help=f"Method to train: {', '.join(METHODS)}.")],
    data: Annotated[
        list[Path], Option("--data", help="Dataset folder, made by 'polyptrace prepare'; repeatable, to train on all.")
    ],
    out: Annotated[Path, Option(help="Run folder to write; an interrupted run resumes.")],
    init_from: Annotated[str | None, Option(help="Initial weights: a run, an encoder folder or `default`.")] = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace the run in --out once this one is done.")] = False,
    config: ConfigFile = None,
) -> None:
    """Train a tracklet encoder on one or several datasets.

    Run the same command again to resume an interrupted run; Ctrl-C writes a checkpoint first. With more
    --train.epochs, a finished run continues. Each method has its published settings as defaults; a TOML file and
    --section.key value override them. All settings: [bold]polyptrace settings supervision views loss encoder optimiser
    train[/]. MVE and TPC were published starting from a trained SFE: [bold]--init-from SFE_RUN[/]. With --init-from,
    the architecture defaults to that of the initial encoder.

    The backbone starts from ImageNet weights, which are downloaded once. Offline, use [bold]--encoder.weights FILE[/]
    or [bold]--encoder.weights none[/].

    Examples:

      polyptrace train ours --data data/train --out runs/ours

      polyptrace train ours --data data/train --out runs/small --encoder.backbone resnet18 --encoder.weights none

      polyptrace train ours --data data/mine --out runs/mine --init-from default

      polyptrace train ours --data data/january --data data/february --out runs/both

      torchrun --nproc-per-node 4 -m polyptrace train ours --data data/train --out runs/ours
    """
    if method not in METHODS:
        raise UserError(f"{method}: not a method -> one of {', '.join(METHODS)}")
    settings = read_settings(ctx, config, SECTIONS, with_architecture(METHODS[method].published(), init_from))
    if settings.train.method != method:
        raise UserError(f"{config}: train.method is {settings.train.method!r}, not {method!r} -> use the same method")
    encoder = train(settings, join_datasets([Dataset.open(each) for each in data]), out, init_from, overwrite)
    echo(f"encoder: {encoder}")
    suggest("embed", out, "--data", data[0], out="vectors")
