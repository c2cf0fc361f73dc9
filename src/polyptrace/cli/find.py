"""`polyptrace find EMBEDDINGS --video NAME --at 12:34`."""

from pathlib import Path
from typing import Annotated

import numpy as np
from rich import box
from rich.markup import escape
from rich.table import Column, Table
from typer import Option

from polyptrace import find
from polyptrace.cli.options import Overwrite, PictureFolders, VectorsFile
from polyptrace.core.console import counted, echo, output
from polyptrace.core.errors import UserError
from polyptrace.core.files import atomic_folder, refuse_existing, write_csv
from polyptrace.core.timecode import parse_timecode
from polyptrace.embed import Embeddings, open_datasets
from polyptrace.film_strips import TrackImages
from polyptrace.lesions import same_model
from polyptrace.report.page import write_page

#: The file that marks a folder of this command, and the page.
TABLE_FILE, PAGE_FILE = "found.csv", "found.html"


def command(
    embeddings: VectorsFile,
    video: Annotated[str, Option(help="Procedure of the query track.")],
    at: Annotated[
        str | None, Option(metavar="[H:]MM:SS", help="Time at which the query is visible; needs the frame rate.")
    ] = None,
    frame: Annotated[int | None, Option(min=0, help="Instead of --at: a frame in which the query is visible.")] = None,
    track: Annotated[int | None, Option(min=0, help="Instead of --at: the number of the query track.")] = None,
    among: Annotated[find.Among, Option(help="Procedures to search: the query's own, the others, or all.")] = "own",
    top: Annotated[int, Option(min=1, help="Number of tracks to show.")] = 10,
    data: PictureFolders = None,
    out: Annotated[Path | None, Option(help="Folder to write: found.csv and, with --data, found.html.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Find where a lesion appears again: the tracks most similar to one track.

    No labels are needed. For a track of the same procedure, "same lesion" is the probability that both show the same
    lesion, from same.json beside the vectors or fitted now (see 'polyptrace lesions'). "Beyond others" is the share of
    tracks of other procedures that are less similar to the query. If these are of other patients, 99 % means that one
    track in a hundred is as similar by chance. Tracks that are visible at the same time as the query are left out.
    Where polyps are known, ✓ and ✗ mark correct and wrong matches.

    Examples:

      polyptrace find vectors/mine --video 2024-03-11 --at 12:34

      polyptrace find vectors/mine --video 2024-03-11 --track 17 --among all --data data/mine --out found
    """
    if data and out is None:
        raise UserError("--data: film strips need a page to be written to -> add --out FOLDER")
    if out is not None:
        refuse_existing(out, overwrite, TABLE_FILE)
    tracks = Embeddings.load(embeddings).whole_tracks(str(embeddings))
    datasets = open_datasets(data or (), tracks)
    query = _query(tracks, video, at, frame, track)
    known = bool((tracks.position >= 0).all())
    model, source = same_model(embeddings, tracks) if known else (None, None)
    matches = find.most_similar(tracks, query, among, top, model)
    if not len(matches.rows):
        raise UserError(f"--among {among}: no other tracks -> use --among all, or vectors of more procedures")
    _print(tracks, matches)
    if model is not None and not np.isnan(matches.same).all():
        echo(model.described(source))
    if out is None:
        return
    with atomic_folder(out, overwrite=overwrite, mark=TABLE_FILE) as folder:
        write_csv(folder / TABLE_FILE, find.match_table(tracks, matches))
        if datasets:
            page = find.match_page(tracks, matches, TrackImages.of(datasets), f"from {embeddings}")
            write_page(folder / PAGE_FILE, page)
    echo("written: " + ", ".join(str(out / name) for name in (TABLE_FILE, PAGE_FILE)[: 2 if data else 1]))


def _query(tracks: Embeddings, video: str, at: str | None, frame: int | None, track: int | None) -> int:
    """The row of the query track. Prints which track was chosen if the choice is not obvious."""
    if sum(option is not None for option in (at, frame, track)) != 1:
        raise UserError("no query track -> give one of --at, --frame and --track")
    wanted = frame if at is None else find.frame_at(tracks, video, parse_timecode(at))
    rows = find.tracks_at(tracks, video, track=track, frame=wanted)
    first = int(rows[0])
    if wanted is not None and not tracks.position[first] <= wanted <= tracks.last[first]:
        echo(f"no track at this time; using the nearest, track {tracks.track[first]}, {find.visible(tracks, first)}")
    elif wanted is not None and len(rows) > 1:
        others = ", ".join(str(tracks.track[row]) for row in rows[1:])
        echo(f"{len(rows)} tracks at this time; using track {tracks.track[first]}, for others give --track {others}")
    return first


def _print(tracks: Embeddings, matches: find.Matches) -> None:
    query, video = matches.query, escape(str(tracks.video[matches.query]))
    title = f"similar to track {tracks.track[query]} of {video}, {find.visible(tracks, query)}"
    numbers = (Column(name, justify="right") for name in ("", "cosine", "same lesion", "beyond others"))
    table = Table(*numbers, "procedure", Column("track", justify="right"), "visible", box=box.SIMPLE_HEAD, title=title)
    for position, (row, role) in enumerate(zip(matches.rows.tolist(), matches.roles, strict=True)):
        table.add_row(
            find.SIGNS[role],
            f"{matches.cosine[position]:.3f}",
            matches.same_text(position),
            matches.beyond_text(position),
            escape(str(tracks.video[row])),
            str(tracks.track[row]),
            find.visible(tracks, row),
        )
    output.print(table)
    if matches.same_meaning:
        echo(f"same lesion: {matches.same_meaning}")
    if (matches.beyond >= 0).any():
        echo(f"beyond others: compared with {counted(matches.others, 'track')} of other procedures")
    if matches.simultaneous:
        echo(f"left out: {counted(matches.simultaneous, 'track')} visible at the same time")
