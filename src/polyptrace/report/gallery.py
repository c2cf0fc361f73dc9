"""The retrieval gallery: queries and their nearest tracks, at most five, as film strips."""

from collections.abc import Iterable

import numpy as np

from polyptrace.core.console import counted
from polyptrace.core.timecode import timecode
from polyptrace.data.identity import TrackKey, join_keys
from polyptrace.evaluate import Results
from polyptrace.film_strips import TrackImages
from polyptrace.report.page import Strip, StripRow

#: Frames of a strip.
FRAMES = 3

#: What a strip's frame means: "match" where polyps are unknown.
ROLES = {"query": "query", "same": "same polyp", "other": "other polyp", "match": "match"}


def pick_queries(row: Results, images: TrackImages, count: int) -> list[int]:
    """Queries at even steps from the highest to the lowest average precision, of different polyps if possible.

    Returns indices into the row's queries. Only queries whose images are available are chosen.
    """
    available = np.array([key in images.location for key in query_keys(row)], bool)
    order = np.flatnonzero(available)[np.argsort(-row.arrays["retrieval/ap"][available], kind="stable")]
    polyp = row.columns("retrieval", "polyp")[0][row.arrays["retrieval/query"]]
    chosen: list[int] = []
    seen: set[str] = set()
    for fraction in np.linspace(0, 1, min(count, len(order))):
        target = fraction * (len(order) - 1)
        nearby = sorted(range(len(order)), key=lambda position: abs(position - target))
        free = [position for position in nearby if int(order[position]) not in chosen]
        new = [p for p in free[: max(1, len(order) // 4)] if str(polyp[order[p]]) not in seen]
        best = int(order[(new or free)[0]])
        chosen.append(best)
        seen.add(str(polyp[best]))
    return chosen


def query_keys(row: Results) -> list[TrackKey]:
    """The track of each query of a row."""
    keys = row.track_keys("retrieval")
    return [keys[track] for track in row.arrays["retrieval/query"]]


def gallery_rows(row: Results, indices: Iterable[int], images: TrackImages) -> tuple[StripRow, ...]:
    """The film strips of some of a row's queries, each followed by those of its nearest tracks.

    A query has as many as its polyp has other tracks, at most five: of more, some would be wrong in any case.
    """
    dataset, polyp, position, fps = row.columns("retrieval", "dataset", "polyp", "position", "fps")
    identity, keys = join_keys(dataset, polyp), row.track_keys("retrieval")

    def strip_of(track: int, role: str, label: str) -> Strip:
        time = timecode(float(position[track]), float(fps[track]))
        return strip(keys[track], images, role, label, str(polyp[track]), time)

    rows = []
    for index in indices:
        query = int(row.arrays["retrieval/query"][index])
        others = int((identity == identity[query]).sum()) - 1
        top, scores = (row.arrays[f"retrieval/{name}"][index][:others].tolist() for name in ("top", "top_score"))
        strips = [strip_of(query, "query", "query")]
        for track, score in zip(top, scores, strict=True):
            if track >= 0:
                same = identity[track] == identity[query]
                strips.append(strip_of(track, "same" if same else "other", f"{'✓' if same else '✗'} {score:.2f}"))
        correct = sum(each.role == "same" for each in strips)
        heading = (
            f"Polyp {polyp[query]}: {correct} of its {counted(others, 'other track')} among the nearest"
            f" {len(strips) - 1}; average precision {100 * float(row.arrays['retrieval/ap'][index]):.0f} %"
        )
        rows.append(StripRow(heading, tuple(strips)))
    return tuple(rows)


def strip(key: TrackKey, images: TrackImages, role: str, label: str, name: str, time: str) -> Strip:
    """The film strip of a track with its labels; `role` is a key of `ROLES`."""
    description = f"{ROLES[role]}: {name}, procedure {key[1]}, {time}"
    return Strip(role, images.strip(key, FRAMES), label, name, time, description)
