"""`polyptrace prepare SOURCE PATH --out DATASET`."""

import shutil
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from polyptrace.cli.check import print_dataset
from polyptrace.cli.settings import ConfigFile, resolve
from polyptrace.cluster import fill_store_on
from polyptrace.core.console import console
from polyptrace.core.errors import UserError
from polyptrace.data import SOURCES, Asked, Boxes, check_request, prepare
from polyptrace.data.clips import join_clips, take_videos
from polyptrace.data.crops import fill_store
from polyptrace.data.sources import picture_root, read_source

SECTIONS = ("tracks", "crops")
SOME = "Options of some sources"
PART = "Part of the videos"


def command(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(help=f"Format of PATH: {', '.join(SOURCES)}.")],
    path: Annotated[Path, typer.Argument(help="Folder or file with the boxes; pictures lie below it.")],
    out: Annotated[Path, typer.Option("--out", help="Dataset folder to write.")],
    split: Annotated[str | None, typer.Option(help="Part of the source: train, test, paper-train, ...")] = None,
    min_score: Annotated[float | None, typer.Option(help="Leave out boxes with a lower detector score.")] = None,
    fps: Annotated[float | None, typer.Option(help="Frame rate, where the source does not say it.")] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave bad rows out (listed in rejected.csv) instead of stopping.")
    ] = False,
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="ADDRESS", help="Cut crops on a Ray cluster: auto, or HOST:PORT.")
    ] = None,
    config: ConfigFile = None,
    identities: Annotated[
        str | None, typer.Option(help="What an id is: 'track' (default) or 'polyp'.", rich_help_panel=SOME)
    ] = None,
    histology: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=KNOWN", help="A histology by one of the known names; repeat.", rich_help_panel=SOME),
    ] = None,
    first_frame: Annotated[
        int | None,
        typer.Option(min=0, help="mot, yolo, cvat: a video's first frame in the files; 1, 1, 0.", rich_help_panel=SOME),
    ] = None,
    boxes: Annotated[str | None, typer.Option(help="mot: which file, gt, det or auto.", rich_help_panel=SOME)] = None,
    results: Annotated[
        Path | None, typer.Option(help="coco: a detector's results JSON, with scores.", rich_help_panel=SOME)
    ] = None,
    image_size: Annotated[
        str | None,
        typer.Option(
            metavar="WIDTHxHEIGHT", help="yolo: where neither pictures nor videos are there.", rich_help_panel=SOME
        ),
    ] = None,
    cases: Annotated[
        Path | None, typer.Option(help="sun: CSV of the cases, instead of ours.", rich_help_panel=SOME)
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(metavar="OURS=THEIRS", help="polypsize: what a column is called; repeat.", rich_help_panel=SOME),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=0, help="realcolon: processes that parse; 0: one per core.", rich_help_panel=SOME),
    ] = None,
    videos: Annotated[
        str | None, typer.Option(metavar="NAME,NAME", help="Take only these videos.", rich_help_panel=PART)
    ] = None,
    share: Annotated[
        float | None, typer.Option(help="Take only a random share (0-1) of the videos.", rich_help_panel=PART)
    ] = None,
    rest: Annotated[
        bool, typer.Option("--rest", help="Take the others than --videos or --share.", rich_help_panel=PART)
    ] = False,
    join: Annotated[
        int | None,
        typer.Option("--join-clips", help="Put so many clips in a row: artificial procedures.", rich_help_panel=PART),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of --share and --join-clips.", rich_help_panel=PART)] = 0,
) -> None:
    """Turn pictures and boxes, in any published format, into a dataset folder.

    Links boxes to tracks, cuts tracklets, and stores one small crop per frame
    that some tracklet uses, so that training never decodes a picture.
    Killed? Start the same command again: it goes on. If OUT is there, made
    of the same boxes with the same settings, nothing is done again.

    Without polyp identities link by overlap: [bold]--tracks.link video[/].
    All settings: [bold]polyptrace settings tracks crops[/].

    Examples:

      polyptrace prepare realcolon REAL-Colon --split paper-train --out train

      polyptrace prepare coco rc27 --split train --out train

      polyptrace prepare mot detections --tracks.link video \\
        --tracks.max_gap 3 --min-score 0.5 --out mine

      polyptrace prepare mot clips --identities polyp --tracks.stride 2 --out clips

      polyptrace prepare mot clips --identities polyp --share 0.5 \\
        --join-clips 4 --out artificial-train

      polyptrace prepare mot clips --identities polyp --share 0.5 --rest \\
        --join-clips 4 --out artificial-test
    """
    settings = resolve(ctx, config, SECTIONS)
    name = path.resolve().name
    said: dict[str, Any] = {"format": source, "path": name, "split": split, "min_score": min_score}
    if videos is not None or share is not None:
        said |= {"videos": videos, "share": share, "rest": rest, "seed": seed}
    if join is not None:
        said |= {"artificial": f"up to {join} clips in a row", "seed": seed}
    check_request(out, Asked(settings.tracks, settings.crops, skip_bad, said))
    there = out.exists()
    options = {
        "split": split,
        "identities": identities,
        "boxes": boxes,
        "results": results,
        "first_frame": first_frame,
        "image_size": _size(image_size),
        "cases": cases,
        "histology": _pairs(histology, "--histology"),
        "columns": _pairs(columns, "--columns"),
        "workers": workers,
    }
    parsed = out.with_name(out.name + ".annotations")
    table = read_source(source, path, options, parsed)
    if min_score is not None:
        table = _above(table, min_score)
    if fps is not None:
        table = replace(table, fps=np.where(np.isfinite(table.fps), table.fps, fps))
    table = replace(table, dataset=np.where(table.dataset == "", name, table.dataset))
    if videos is not None or share is not None:
        table = take_videos(table, names=videos.split(",") if videos else None, share=share, rest=rest, seed=seed)
    if join is not None:
        table = join_clips(table, join, seed)
    print_dataset(
        prepare(
            table,
            picture_root(path),
            out,
            settings.tracks,
            settings.crops,
            skip_bad=skip_bad,
            source=said,
            fill=partial(fill_store_on, cluster) if cluster else fill_store,
        )
    )
    if there:
        console.print(f"{out}: there already, made of the same boxes with the same settings", soft_wrap=True)
    shutil.rmtree(parsed, ignore_errors=True)


def _above(table: Boxes, min_score: float) -> Boxes:
    """The boxes of which a detector was sure enough; boxes without a score stay."""
    if np.isnan(table.score).all():
        warnings.warn(f"--min-score {min_score}: no box has a score; all are kept", stacklevel=2)
    kept = table.take(~(table.score < min_score))
    if not len(kept):
        raise UserError(f"--min-score {min_score}: no box is left -> the highest score is {np.nanmax(table.score):g}")
    return kept


def _pairs(words: list[str] | None, option: str) -> dict[str, str] | None:
    """NAME=VALUE words as a mapping; None if there are none."""
    for word in words or []:
        if "=" not in word:
            raise UserError(f"{option} {word}: not NAME=VALUE -> write {option} '{word}=...'")
    return {name: value for name, _, value in (word.partition("=") for word in words)} if words else None


def _size(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    width, _, height = text.partition("x")
    if not (width.isdecimal() and height.isdecimal()):
        raise UserError(f"--image-size {text}: not understood -> write WIDTHxHEIGHT, like 1350x1080")
    return int(width), int(height)
