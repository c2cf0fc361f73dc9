"""`polyptrace prepare SOURCE PATH --out DATASET`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from polyptrace.cli.check import print_dataset
from polyptrace.cli.settings import ConfigFile, resolve
from polyptrace.data import SOURCES, prepare
from polyptrace.data.sources import picture_root
from polyptrace.errors import UserError

SECTIONS = ("tracks", "crops")


def command(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(help=f"Format of PATH: {', '.join(SOURCES)}.")],
    path: Annotated[Path, typer.Argument(help="Folder or file with the boxes; pictures lie below it.")],
    out: Annotated[Path, typer.Option("--out", help="Dataset folder to write.")],
    split: Annotated[str | None, typer.Option(help="Part of the source: train, test, paper-train, ...")] = None,
    identities: Annotated[str | None, typer.Option(help="mot: what an id is, 'track' (default) or 'polyp'.")] = None,
    min_score: Annotated[float | None, typer.Option(help="Leave out boxes with a lower detector score.")] = None,
    fps: Annotated[float | None, typer.Option(help="Frame rate, where the source does not say it.")] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave bad rows out (listed in rejected.csv) instead of stopping.")
    ] = False,
    config: ConfigFile = None,
) -> None:
    """Turn pictures and boxes, in any published format, into a dataset folder.

    Links boxes to tracks, cuts tracklets, and stores one small crop per frame that some tracklet uses, so that training
    never decodes a picture. Killed? Start the same command again: it goes on.

    Without polyp identities link by overlap alone: [bold]--tracks.link video[/]. All settings: [bold]polyptrace
    settings tracks crops[/].

    Examples:

      polyptrace prepare coco rc27 --split train --out data/train

      polyptrace prepare mot clips --identities polyp --tracks.stride 2 --out data/clips

      polyptrace prepare mot detections --tracks.link video --tracks.max_gap 3 --min-score 0.5 --out data/mine
    """
    settings = resolve(ctx, config, SECTIONS)
    if source not in SOURCES:
        raise UserError(f"{source}: not a source -> one of {', '.join(SOURCES)}")
    options = {"split": split} | ({"identities": identities} if identities else {})
    boxes = SOURCES[source](path, **options)
    if min_score is not None:
        boxes = boxes.take(~(boxes.score < min_score))
    if fps is not None:
        boxes = replace(boxes, fps=np.where(np.isfinite(boxes.fps), boxes.fps, fps))
    said = {"format": source, "path": path.name, "split": split, "min_score": min_score}
    dataset = prepare(boxes, picture_root(path), out, settings.tracks, settings.crops, skip_bad=skip_bad, source=said)
    print_dataset(dataset)
