"""Finds where a lesion appears again: the tracks most similar to a query track.

No labels are needed. If the other procedures show other patients, their similarities to the query occur by chance: if
99 % of them are less similar to the query than a track of the query's own procedure, chance alone produces such a
similarity once in a hundred tracks.
"""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

import numpy as np

from polyptrace.core.arrays import Floats, Ints
from polyptrace.core.console import counted, percent, proportion
from polyptrace.core.errors import UserError
from polyptrace.core.timecode import has_rate, seconds_text, time_range, timecode
from polyptrace.data.identity import polyp_keys, video_keys
from polyptrace.embed import Embeddings
from polyptrace.evaluate.similarity import unit_rows
from polyptrace.film_strips import TrackImages
from polyptrace.lesions import SameModel, procedures
from polyptrace.report.gallery import strip
from polyptrace.report.page import Page, Part, Section, Strip, StripRow

#: Where to search: in the query's own procedure, in other procedures, or in all.
Among = Literal["own", "others", "all"]

#: Columns of found.csv.
COLUMNS = (
    *("cosine", "same", "beyond", "dataset", "video", "track"),
    *("first_frame", "last_frame", "start_s", "end_s", "polyp"),
)

#: A time that is this many seconds after the last track is treated as a mistake.
MAX_SECONDS_AFTER = 60

SIGNS = {"same": "✓", "other": "✗", "match": ""}


@dataclass(frozen=True)
class Matches:
    """The tracks most similar to a query, best first, as rows of a table of tracks."""

    query: int
    rows: Ints
    cosine: Floats
    same: Floats  # P(same lesion) of tracks of the query's procedure; NaN if unknown
    beyond: Ints  # tracks of other procedures that are less similar; -1 if undefined
    others: int  # tracks of other procedures
    searched: int  # tracks that could be a match
    simultaneous: int  # tracks left out because they are visible at the same time
    roles: list[str]  # "same" or "other" polyp as the query, or "match" if this is unknown

    @property
    def same_meaning(self) -> str:
        """What P(same lesion) means; "" if it is unknown for all matches."""
        text = (
            "probability that both show one lesion, from these two tracks alone ('polyptrace lesions' uses all tracks)"
        )
        return "" if np.isnan(self.same).all() else text

    def same_text(self, position: int) -> str:
        """P(same lesion) of a match; "" if unknown."""
        return "" if np.isnan(self.same[position]) else percent(float(self.same[position]))

    def beyond_text(self, position: int) -> str:
        """How many tracks of other procedures are less similar than a match; "" if undefined."""
        return "" if self.beyond[position] < 0 else proportion(int(self.beyond[position]), self.others)


def tracks_at(tracks: Embeddings, video: str, *, track: int | None = None, frame: int | None = None) -> Ints:
    """Rows of a procedure: the track with a number, or those visible at a frame, or the nearest to it."""
    inside = _procedure(tracks, video)
    if track is not None:
        chosen: Ints = inside[tracks.track[inside] == track]
        if not len(chosen):
            numbers = ", ".join(map(str, sorted(tracks.track[inside].tolist())[:30]))
            more = ", ..." if len(inside) > 30 else ""
            raise UserError(f"--track {track}: not in procedure {video} -> one of {numbers}{more}")
        return chosen
    if (tracks.position[inside] < 0).any():
        raise UserError(f"--video {video}: the frames of its tracks are unknown -> select a track with --track")
    wanted = 0 if frame is None else frame
    last, fps = int(tracks.last[inside].max()), float(tracks.fps[inside[0]])
    if has_rate(fps) and wanted > last + MAX_SECONDS_AFTER * fps:
        raise UserError(
            f"--video {video}: {timecode(wanted, fps)} is after its last track, which ends at {timecode(last, fps)}"
            " -> give an earlier time"
        )
    distance = np.maximum(tracks.position[inside] - wanted, wanted - tracks.last[inside]).clip(0)
    nearest: Ints = inside[distance == distance.min()]
    return nearest


def frame_at(tracks: Embeddings, video: str, seconds: int) -> int:
    """The frame at a time of a procedure."""
    fps = float(tracks.fps[_procedure(tracks, video)[0]])
    if not has_rate(fps):
        raise UserError(f"--at: the frame rate of {video} is unknown -> give --frame or --track")
    return round(seconds * fps)


def most_similar(
    tracks: Embeddings, query: int, among: Among = "own", top: int = 10, model: SameModel | None = None
) -> Matches:
    """The tracks most similar to a query, without those that are visible at the same time.

    With a model, the probability of the same lesion is given for tracks of the query's procedure.
    """
    unit, _ = unit_rows(tracks.vectors)
    cosine = (unit @ unit[query]).double().numpy()
    video = video_keys(tracks)
    own = video == video[query]
    simultaneous = own & (tracks.position <= tracks.last[query]) & (tracks.last >= tracks.position[query])
    simultaneous &= tracks.position >= 0  # -1: unknown
    simultaneous[query] = False
    wanted = {"all": np.ones(len(tracks), bool), "own": own, "others": ~own}[among] & ~simultaneous
    wanted[query] = False
    rows = np.flatnonzero(wanted)
    searched = len(rows)
    rows = rows[np.argsort(-cosine[rows], kind="stable")][:top]
    others = np.sort(cosine[~own])
    beyond = np.where(own[rows] & (len(others) > 0), np.searchsorted(others, cosine[rows]), -1)
    same = np.full(len(rows), np.nan) if model is None else _same_lesion(tracks, query, rows, model)
    polyp = polyp_keys(tracks)
    roles = ["match" if not (p and polyp[query]) else "same" if p == polyp[query] else "other" for p in polyp[rows]]
    return Matches(query, rows, cosine[rows], same, beyond, len(others), searched, int(simultaneous.sum()), roles)


def _same_lesion(tracks: Embeddings, query: int, rows: Ints, model: SameModel) -> Floats:
    """P(same lesion) of rows of the query's procedure; NaN for rows of others."""
    video = video_keys(tracks)
    inside = np.flatnonzero(video == video[query])
    (group,) = procedures(tracks.rows(inside), model.centre)
    row_in_group = np.empty(len(tracks), np.int64)
    row_in_group[inside[group.rows]] = np.arange(len(inside))
    own = video[rows] == video[query]
    pairs = np.sort(np.stack([np.full(int(own.sum()), row_in_group[query]), row_in_group[rows[own]]]), axis=0)
    same = np.full(len(rows), np.nan)
    same[own] = model.probability(*group.pairs(pairs[0], pairs[1]))
    return same


def visible(tracks: Embeddings, row: int) -> str:
    """The time range in which a track is visible."""
    return time_range(float(tracks.position[row]), float(tracks.last[row]), float(tracks.fps[row]))


def match_table(tracks: Embeddings, matches: Matches) -> list[list[str]]:
    """The lines of found.csv: a header, the query, and the matches. Unknown cells are empty."""
    lines = [list(COLUMNS)]
    columns = (matches.rows.tolist(), matches.cosine, matches.same, matches.beyond)
    for row, cosine, same, beyond in [(matches.query, 1.0, np.nan, -1), *zip(*columns, strict=True)]:
        first, last, fps = int(tracks.position[row]), int(tracks.last[row]), float(tracks.fps[row])
        share = "" if beyond < 0 else f"{beyond / matches.others:.4f}"
        names = (tracks.dataset[row], tracks.video[row], tracks.track[row], first, last)
        times = (seconds_text(first, fps), seconds_text(last, fps))
        probability = "" if np.isnan(same) else f"{same:.4f}"
        lines.append([f"{cosine:.6f}", probability, share, *map(str, names), *times, str(tracks.polyp[row])])
    return lines


def match_page(tracks: Embeddings, matches: Matches, images: TrackImages, origin: str) -> Page:
    """The matches as film strips."""

    def film(row: int, role: str, label: str) -> Strip:
        name = f"{tracks.video[row]} · track\N{NO-BREAK SPACE}{tracks.track[row]}"
        return strip(tracks.track_key(row), images, role, label, name, visible(tracks, row))

    query = matches.query
    strips = [film(query, "query", "query")]
    for position, (row, role) in enumerate(zip(matches.rows.tolist(), matches.roles, strict=True)):
        label = f"{SIGNS[role]} cosine {matches.cosine[position]:.2f}".strip()
        label += f", same {matches.same_text(position)}" if matches.same_text(position) else ""
        label += f", beyond {matches.beyond_text(position)}" if matches.beyond_text(position) else ""
        strips.append(film(row, role, label))
    content = Part("matches.html.j2", {"matches": matches, "rows": [StripRow("", tuple(strips))]})
    similar = counted(len(matches.rows), "most similar track")
    return Page(
        title=f"Tracks similar to track {tracks.track[query]} of procedure {tracks.video[query]}",
        lead=f"Visible {visible(tracks, query)}. The {similar} of {matches.searched:,} that were searched.",
        sections=(Section("matches", "Matches", (content,)),),
        generated=tracks.generated,
        brand="polyptrace find",
        origin=origin,
    )


def _procedure(tracks: Embeddings, video: str) -> Ints:
    inside: Ints = np.flatnonzero(tracks.video == video)
    if not len(inside):
        known = list(dict.fromkeys(tracks.video.tolist()))
        near = ", ".join(get_close_matches(video, known, 3, 0.0)) + (", ..." if len(known) > 3 else "")
        raise UserError(f"--video {video}: these vectors have no such procedure -> use {near}")
    if len(set(tracks.dataset[inside].tolist())) > 1:
        raise UserError(f"--video {video}: in several datasets -> give the vectors of one dataset")
    return inside
