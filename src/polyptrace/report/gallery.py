"""Retrieval to look at: queries and their five nearest tracks, as film strips in green and red frames."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from polyptrace.core.console import counted
from polyptrace.data import join_keys
from polyptrace.evaluate import Results
from polyptrace.report.clock import Clock
from polyptrace.report.film import Key, Pictures, Pixels, data_uri
from polyptrace.report.style import ACCENT, RIGHT, SOFT, WRONG, Drawing, canvas, finished, styled

#: Frames on a strip.
FRAMES = 3


@dataclass(frozen=True)
class Found:
    """One track of a gallery."""

    key: Key
    polyp: str
    moment: str
    score: float
    right: bool


@dataclass(frozen=True)
class Query:
    """A query, what was found for it, and how well."""

    key: Key
    polyp: str
    moment: str
    precision: float  # its average precision
    found: tuple[Found, ...]


def pick_queries(row: Results, pictures: Pictures, count: int = 6) -> list[int]:
    """Places of queries among a row's, at even steps from the best to the worst, of different polyps if possible.

    Only queries whose pictures are there; the choice looks at average precision alone.
    """
    table, queries = row.tasks["retrieval"].table, row.arrays["retrieval/query"]
    there = np.array([track_key(row, table, int(track)) in pictures.place for track in queries], bool)
    order = np.flatnonzero(there)[np.argsort(-row.arrays["retrieval/ap"][there], kind="stable")]
    count = min(count, len(order))
    polyp = row.arrays[f"{table}/polyp"]
    chosen: list[int] = []
    seen: set[str] = set()
    for share in np.linspace(0, 1, count):
        wanted = share * (len(order) - 1)
        near = sorted(range(len(order)), key=lambda place: abs(place - wanted))
        free = [place for place in near if int(order[place]) not in chosen]
        fresh = [p for p in free[: max(1, len(order) // 4)] if str(polyp[queries[order[p]]]) not in seen]
        best = int(order[(fresh or free)[0]])
        chosen.append(best)
        seen.add(str(polyp[queries[best]]))
    return chosen


def look_up(row: Results, places: Sequence[int]) -> list[Query]:
    """What a row found for some of its queries."""
    table = row.tasks["retrieval"].table
    polyp = row.arrays[f"{table}/polyp"]
    keys = join_keys(row.arrays[f"{table}/dataset"], polyp)
    queries = []
    for place in places:
        query = int(row.arrays["retrieval/query"][place])
        found = []
        for track, score in zip(
            row.arrays["retrieval/top"][place], row.arrays["retrieval/top_score"][place], strict=True
        ):
            if track >= 0:
                right = bool(keys[track] == keys[query])
                found.append(
                    Found(
                        track_key(row, table, int(track)),
                        str(polyp[track]),
                        _moment(row, table, int(track)),
                        float(score),
                        right,
                    )
                )
        precision = float(row.arrays["retrieval/ap"][place])
        queries.append(
            Query(track_key(row, table, query), str(polyp[query]), _moment(row, table, query), precision, tuple(found))
        )
    return queries


def same_queries(row: Results, keys: Sequence[Key]) -> list[int]:
    """Places of the queries with these keys among a row's, of those that it has."""
    table = row.tasks["retrieval"].table
    place = {track_key(row, table, int(track)): n for n, track in enumerate(row.arrays["retrieval/query"])}
    return [place[key] for key in keys if key in place]


def gallery_html(queries: Sequence[Query], pictures: Pictures) -> str:
    """The gallery as a part of a page: a line of six strips for each query."""
    return "".join(_query_html(query, pictures) for query in queries)


@styled
def gallery_figure(queries: Sequence[Query], pictures: Pictures, name: str, method: str) -> Drawing:
    """The same gallery as one picture, for a paper or a talk."""
    columns = 1 + max(len(query.found) for query in queries)
    pitch, line = 1.12, 3.5  # inches from strip to strip, from query to query
    width, height = pitch * columns + 0.1, line * len(queries)
    figure = canvas(width, height)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    for number, query in enumerate(queries):
        strips = [(query.key, ACCENT, "query", query.moment)]
        for found in query.found:
            sign = f"{'✓' if found.right else '✗'} {found.score:.2f}"
            strips.append((found.key, RIGHT if found.right else WRONG, sign, found.moment))
        for place, (key, colour, head, moment) in enumerate(strips):
            strip = pictures.strip(key, FRAMES)
            if strip is not None:
                _place_strip(axes, strip, (0.1 + pitch * place, line * number + 0.3), colour, head, moment)
    axes.set(xlim=(0, width), ylim=(height, 0))
    hits = sum(bool(query.found) and query.found[0].right for query in queries)
    asked = counted(len(queries), "query", "queries")
    words = f"Retrieval by {method}: {asked} with the nearest tracks; right at the first place: {hits}."
    return finished(figure, name, words)


def _place_strip(axes: Axes, strip: Pixels, corner: tuple[float, float], colour: str, head: str, moment: str) -> None:
    left, top = corner
    right, bottom = left + 1.0, top + strip.shape[0] / strip.shape[1]
    axes.imshow(strip, extent=(left, right, bottom, top), interpolation="none", aspect="auto")
    dashed = head.startswith("✗")
    axes.add_patch(
        Rectangle(
            (left, top),
            right - left,
            bottom - top,
            fill=False,
            edgecolor=colour,
            linewidth=2,
            linestyle=(0, (3, 1.5)) if dashed else "-",
        )
    )
    axes.text((left + right) / 2, top - 0.06, head, ha="center", va="bottom", color=colour, fontweight="bold")
    axes.text((left + right) / 2, bottom + 0.05, moment, ha="center", va="top", color=SOFT, fontsize=7)


def _query_html(query: Query, pictures: Pictures) -> str:
    strips = [strip_html(query.key, pictures, "asked", "query", query.polyp, query.moment)]
    for found in query.found:
        sign = f"{'✓' if found.right else '✗'} {found.score:.2f}"
        kind = "right" if found.right else "wrong"
        strips.append(strip_html(found.key, pictures, kind, sign, found.polyp, found.moment))
    right = sum(found.right for found in query.found)
    return (
        f'<div class="query"><p>Polyp <b>{escape(query.polyp)}</b>: {right} of the nearest {len(query.found)} are'
        f" right; average precision {100 * query.precision:.0f} %</p>"
        f'<div class="strips">{"".join(strips)}</div></div>'
    )


def strip_html(key: Key, pictures: Pictures, kind: str, sign: str, what: str, moment: str) -> str:
    """One strip with what stands below it; `kind`: asked, right, wrong, or found where no label says."""
    picture = pictures.strip(key, FRAMES)
    role = {"asked": "query", "right": "same polyp", "wrong": "other polyp", "found": "found"}[kind]
    words = f"{role}: {what}, procedure {key[1]}, {moment}"
    if picture is None:
        shown = '<div class="lost">no picture</div>'
    else:
        height, width = picture.shape[:2]
        shown = f'<img src="{data_uri(picture)}" width="{width}" height="{height}" alt="{escape(words)}">'
    return (
        f'<div class="strip {kind}" title="{escape(words)}">{shown}<b>{sign}</b>'
        f"<span>{escape(what)}</span><span>{escape(moment)}</span></div>"
    )


def track_key(row: Results, table: str, track: int) -> Key:
    """What names a track of a results' table, in datasets and in other results."""
    dataset, video = (str(row.arrays[f"{table}/{column}"][track]) for column in ("dataset", "video"))
    return dataset, video, int(row.arrays[f"{table}/track"][track]), int(row.arrays[f"{table}/position"][track])


def _moment(row: Results, table: str, track: int) -> str:
    clock = Clock(float(row.arrays[f"{table}/fps"][track]))
    return clock.at(float(row.arrays[f"{table}/position"][track]))
