"""The tracks most like one track, and how seldom chance makes two tracks so alike.

Chance needs no label: tracks of other procedures show other patients' lesions. The share of them that is less like the
query than a track of its own procedure says how much that likeness means: at 99 % one in a hundred lesions of others
looks as much like it.
"""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from polyptrace.core.console import counted
from polyptrace.core.errors import UserError
from polyptrace.data import video_keys
from polyptrace.embed import Embeddings
from polyptrace.evaluate.similarity import unit_vectors

#: Where to look: in the query's own procedure, in the other procedures, everywhere.
Among = Literal["own", "others", "all"]


@dataclass(frozen=True)
class Found:
    """Tracks like a query, most alike first: rows of a table of tracks."""

    query: int
    rows: NDArray[np.int64]
    cosine: NDArray[np.float64]
    beyond: NDArray[np.float64]  # share of other procedures' tracks that are less like it; NaN: itself one, or none
    others: int  # tracks of other procedures, which `beyond` is a share of
    at_once: int  # tracks that show it at the same time, and so cannot be it: left out


def whole_tracks(embeddings: Embeddings, where: str) -> Embeddings:
    """The vectors of whole tracks, which are what can be found."""
    tracks = embeddings.select("track")
    if not len(tracks):
        raise UserError(f"{where}: no vectors of whole tracks -> embed the dataset with 'polyptrace embed'")
    if (tracks.video == "").any():
        raise UserError(f"{where}: not every row has a video -> add the column 'video'")
    return tracks


def track_at(
    tracks: Embeddings, video: str, *, track: int | None = None, frame: int | None = None
) -> NDArray[np.int64]:
    """The rows of a procedure's tracks that are meant: one by its number, those at a frame, else the nearest to it."""
    inside: NDArray[np.int64] = np.flatnonzero(tracks.video == video)
    if not len(inside):
        known = list(dict.fromkeys(tracks.video.tolist()))
        near = ", ".join(get_close_matches(video, known, 3, 0.0))
        raise UserError(
            f"--video {video}: not among the {counted(len(known), 'procedure')} of these vectors -> {near}, ..."
        )
    if len(set(tracks.dataset[inside].tolist())) > 1:
        raise UserError(f"--video {video}: a procedure of several datasets here -> give the vectors of one of them")
    if track is not None:
        chosen: NDArray[np.int64] = inside[tracks.track[inside] == track]
        if not len(chosen):
            numbers = ", ".join(map(str, sorted(tracks.track[inside].tolist())[:30]))
            raise UserError(f"--track {track}: not in procedure {video} -> one of {numbers}")
        return chosen
    if (tracks.position[inside] < 0).any():
        raise UserError(f"--video {video}: the frames of its tracks are not known -> say which one with --track")
    wanted = 0 if frame is None else frame
    away = np.maximum(tracks.position[inside] - wanted, wanted - tracks.last[inside]).clip(0)
    nearest: NDArray[np.int64] = inside[away == away.min()]
    return nearest


def most_like(tracks: Embeddings, query: int, among: Among = "own", top: int = 10) -> Found:
    """The tracks most like a query, without those that show frames of the same time."""
    unit, _ = unit_vectors(tracks.vectors)
    cosine = (unit @ unit[query]).double().numpy()
    video = video_keys(tracks)
    own = video == video[query]
    at_once = own & (tracks.position <= tracks.last[query]) & (tracks.last >= tracks.position[query])
    at_once &= tracks.position >= 0  # -1: not known
    at_once[query] = False
    wanted = {"all": np.ones(len(tracks), bool), "own": own, "others": ~own}[among] & ~at_once
    wanted[query] = False
    rows = np.flatnonzero(wanted)
    rows = rows[np.argsort(-cosine[rows], kind="stable")][:top]
    others = np.sort(cosine[~own])
    beyond = np.where(own[rows], np.searchsorted(others, cosine[rows]) / max(len(others), 1), np.nan)
    beyond = beyond if len(others) else np.full(len(rows), np.nan)
    return Found(query, rows, cosine[rows], beyond, len(others), int(at_once.sum()))
