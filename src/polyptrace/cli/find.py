"""`polyptrace find EMBEDDINGS --video NAME --at 12:34`."""

import math
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from polyptrace.core.console import counted
from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_folder, provenance, write_csv
from polyptrace.data import Dataset
from polyptrace.embed import Embeddings
from polyptrace.evaluate.track_list import seconds
from polyptrace.find import Among, Found, found_page, kind_of, moments, most_like, track_at, whole_tracks
from polyptrace.report import Pictures

COLUMNS = ("cosine", "beyond", "dataset", "video", "track", "first_frame", "last_frame", "start_s", "end_s", "polyp")


def command(
    embeddings: Annotated[
        Path, typer.Argument(help="Folder of 'polyptrace embed', or a .npz or .parquet made elsewhere.")
    ],
    video: Annotated[str, typer.Option("--video", help="Procedure of the track that is asked for.")],
    at: Annotated[
        str | None, typer.Option("--at", metavar="[H:]MM:SS", help="When it is seen, or nearly; needs the frame rate.")
    ] = None,
    frame: Annotated[
        int | None, typer.Option("--frame", min=0, help="Instead of --at: a frame of it, or near it.")
    ] = None,
    track: Annotated[int | None, typer.Option("--track", min=0, help="Instead of --at: its number.")] = None,
    among: Annotated[
        Among, typer.Option("--among", help="Look in its own procedure, in the others, or in all.")
    ] = "own",
    top: Annotated[int, typer.Option("--top", min=1, help="How many tracks to show.")] = 10,
    data: Annotated[
        list[Path] | None,
        typer.Option("--data", help="Dataset folder, for the film strips of the page; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder to write: found.csv and, with --data, found.html.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the folder if it exists.")] = False,
) -> None:
    """Find where a lesion comes back: the tracks most like one track.

    No labels are needed. Beside the cosine of a track of the same procedure stands how many tracks of other procedures
    are less like the one asked for. They show other people's lesions: 99 % means that chance makes one in a hundred so
    alike. Tracks seen at the same time are left out. Where polyps are known, ✓ and ✗ say which are right.

    Examples:

      polyptrace find vectors/mine --video 2024-03-11 --at 12:34

      polyptrace find vectors/mine --video 2024-03-11 --track 17 --among all --data data/mine --out found
    """
    if data and out is None:
        raise UserError("--data: there is no page to put film strips on -> add --out FOLDER")
    tracks = whole_tracks(Embeddings.load(embeddings), str(embeddings))
    query = _asked(tracks, video, at, frame, track)
    found = most_like(tracks, query, among, top)
    if not len(found.rows):
        raise UserError(f"--among {among}: no other track there -> try --among all, or give vectors of more procedures")
    _print(tracks, found)
    if out is None:
        return
    with atomic_folder(out, overwrite=overwrite, mark="found.csv") as folder:
        write_csv(folder / "found.csv", _table(tracks, found))
        if data:
            pictures = Pictures.of(Dataset.open(path) for path in data)
            made_by = f"polyptrace {provenance()['polyptrace']}, vectors {embeddings}"
            (folder / "found.html").write_text(found_page(tracks, found, pictures, made_by), encoding="utf-8")
    typer.echo("written: " + ", ".join(str(out / name) for name in ("found.csv", "found.html")[: 2 if data else 1]))


def _asked(tracks: Embeddings, video: str, at: str | None, frame: int | None, track: int | None) -> int:
    """The row of the track that is asked for; says which where that is not plain."""
    if sum(each is not None for each in (at, frame, track)) != 1:
        raise UserError("which track? -> give one of --at, --frame and --track")
    wanted = frame if at is None else _frame(tracks, video, at)
    chosen = track_at(tracks, video, track=track, frame=wanted)
    if wanted is not None:
        first = int(chosen[0])
        if not tracks.position[first] <= wanted <= tracks.last[first]:
            typer.echo(f"no track there; the nearest is track {tracks.track[first]}, {moments(tracks, first)}")
        elif len(chosen) > 1:
            others = ", ".join(str(tracks.track[row]) for row in chosen[1:])
            typer.echo(f"{len(chosen)} tracks there; this is track {tracks.track[first]}, for others --track {others}")
    return int(chosen[0])


def _frame(tracks: Embeddings, video: str, at: str) -> int:
    """The frame of a moment of a procedure."""
    parts = at.split(":")
    if not 2 <= len(parts) <= 3 or not all(part.isdigit() for part in parts):
        raise UserError(f"--at {at}: not a time -> write MM:SS or H:MM:SS")
    seconds = 0
    for part in parts:
        seconds = 60 * seconds + int(part)
    fps = float(tracks.fps[track_at(tracks, video, frame=0)[0]])
    if not math.isfinite(fps) or fps <= 0:
        raise UserError(f"--at {at}: the frame rate of {video} is not known -> give --frame or --track")
    return round(seconds * fps)


def _print(tracks: Embeddings, found: Found) -> None:
    query = found.query
    table = Table(
        box=box.SIMPLE_HEAD,
        title=f"like track {tracks.track[query]} of {escape(str(tracks.video[query]))}, {moments(tracks, query)}",
    )
    for name in ("", "cosine", "beyond others", "procedure", "track", "seen"):
        table.add_column(name, justify="left" if name in ("procedure", "seen") else "right")
    signs = {"right": "✓", "wrong": "✗", "found": ""}
    for row, cosine, beyond in zip(found.rows.tolist(), found.cosine, found.beyond, strict=True):
        table.add_row(
            signs[kind_of(tracks, query, row)],
            f"{cosine:.3f}",
            "" if np.isnan(beyond) else f"{100 * beyond:.1f} %",
            escape(str(tracks.video[row])),
            str(tracks.track[row]),
            moments(tracks, row),
        )
    Console().print(table)
    typer.echo(f"beyond others: of {counted(found.others, 'track')} of other procedures")
    if found.at_once:
        typer.echo(f"left out: {found.at_once} seen at the same time")


def _table(tracks: Embeddings, found: Found) -> list[list[str]]:
    """A header and a line a track, the query first; what is not known stays empty."""
    rows = [(found.query, 1.0, math.nan), *zip(found.rows.tolist(), found.cosine, found.beyond, strict=True)]
    lines = [list(COLUMNS)]
    for row, cosine, beyond in rows:
        first, last, fps = int(tracks.position[row]), int(tracks.last[row]), float(tracks.fps[row])
        names = (tracks.dataset[row], tracks.video[row], tracks.track[row], first, last)
        share = "" if math.isnan(beyond) else f"{beyond:.4f}"
        times = (seconds(first, fps), seconds(last, fps))
        lines.append([f"{cosine:.6f}", share, *map(str, names), *times, str(tracks.polyp[row])])
    return lines
