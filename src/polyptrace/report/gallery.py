"""The retrieval gallery: queries and their five nearest tracks as film strips."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from polyptrace.core.arrays import Pixels
from polyptrace.core.console import counted
from polyptrace.core.timecode import timecode
from polyptrace.data.identity import join_keys
from polyptrace.drawing import ACCENT, RIGHT, SOFT, WRONG, Drawing, canvas, finished, styled
from polyptrace.evaluate import Results
from polyptrace.film_strips import TrackImages, TrackKey
from polyptrace.report.page import Strip, StripRow

#: Frames of a strip.
FRAMES = 3

#: What a strip's frame means: "match" where polyps are unknown.
ROLES = {"query": "query", "same": "same polyp", "other": "other polyp", "match": "match"}
COLOURS = {"query": ACCENT, "same": RIGHT, "other": WRONG, "match": SOFT}


@dataclass(frozen=True)
class Match:
    """A track of a gallery: the query itself, or one of its nearest tracks."""

    key: TrackKey
    polyp: str
    time: str
    label: str
    role: str


@dataclass(frozen=True)
class Query:
    """A query with its average precision and its nearest tracks."""

    track: Match
    others: int  # tracks of the same polyp
    average_precision: float
    nearest: tuple[Match, ...]


def pick_queries(row: Results, images: TrackImages, count: int = 6) -> list[int]:
    """Queries at even steps from the highest to the lowest average precision, of different polyps if possible.

    Returns indices into the row's queries. Only queries whose images are available are chosen.
    """
    table, queries = row.tasks["retrieval"].table, row.arrays["retrieval/query"]
    available = np.array([_track_key(row, table, int(track)) in images.location for track in queries], bool)
    order = np.flatnonzero(available)[np.argsort(-row.arrays["retrieval/ap"][available], kind="stable")]
    polyp = row.arrays[f"{table}/polyp"]
    chosen: list[int] = []
    seen: set[str] = set()
    for fraction in np.linspace(0, 1, min(count, len(order))):
        target = fraction * (len(order) - 1)
        nearby = sorted(range(len(order)), key=lambda position: abs(position - target))
        free = [position for position in nearby if int(order[position]) not in chosen]
        new = [p for p in free[: max(1, len(order) // 4)] if str(polyp[queries[order[p]]]) not in seen]
        best = int(order[(new or free)[0]])
        chosen.append(best)
        seen.add(str(polyp[queries[best]]))
    return chosen


def look_up(row: Results, indices: Sequence[int]) -> list[Query]:
    """The nearest tracks of some of a row's queries."""
    table = row.tasks["retrieval"].table
    polyp = row.arrays[f"{table}/polyp"]
    identity = join_keys(row.arrays[f"{table}/dataset"], polyp)

    def match(track: int, label: str, role: str) -> Match:
        time = timecode(float(row.arrays[f"{table}/position"][track]), float(row.arrays[f"{table}/fps"][track]))
        return Match(_track_key(row, table, track), str(polyp[track]), time, label, role)

    queries = []
    for index in indices:
        query = int(row.arrays["retrieval/query"][index])
        nearest = []
        scores = row.arrays["retrieval/top_score"][index]
        for track, score in zip(row.arrays["retrieval/top"][index].tolist(), scores, strict=True):
            if track >= 0:
                same = identity[track] == identity[query]
                nearest.append(match(track, f"{'✓' if same else '✗'} {score:.2f}", "same" if same else "other"))
        precision = float(row.arrays["retrieval/ap"][index])
        others = int((identity == identity[query]).sum()) - 1
        queries.append(Query(match(query, "query", "query"), others, precision, tuple(nearest)))
    return queries


def same_queries(row: Results, keys: Sequence[TrackKey]) -> list[int]:
    """The indices of queries with these keys, as far as the row has them."""
    table = row.tasks["retrieval"].table
    index_of = {_track_key(row, table, int(track)): n for n, track in enumerate(row.arrays["retrieval/query"])}
    return [index_of[key] for key in keys if key in index_of]


def gallery_rows(queries: Sequence[Query], images: TrackImages) -> tuple[StripRow, ...]:
    """The gallery for a page: for each query a row of strips."""
    rows = []
    for query in queries:
        correct = sum(match.role == "same" for match in query.nearest)
        of_others = f"{correct} of its {counted(query.others, 'other track')}"
        heading = (
            f"Polyp {query.track.polyp}: {of_others} among the nearest {len(query.nearest)}; average precision"
            f" {100 * query.average_precision:.0f} %"
        )
        matches = (query.track, *query.nearest)
        strips = (strip(m.key, images, m.role, m.label, m.polyp, m.time) for m in matches)
        rows.append(StripRow(heading, tuple(strips)))
    return tuple(rows)


def strip(key: TrackKey, images: TrackImages, role: str, label: str, name: str, time: str) -> Strip:
    """The film strip of a track with its labels; `role` is a key of `ROLES`."""
    description = f"{ROLES[role]}: {name}, procedure {key[1]}, {time}"
    return Strip(role, images.strip(key, FRAMES), label, name, time, description)


@styled
def gallery_figure(queries: Sequence[Query], images: TrackImages, name: str, method: str) -> Drawing:
    """The gallery as one image, for a paper or a talk."""
    columns = 1 + max(len(query.nearest) for query in queries)
    pitch, height = 1.12, 3.5  # inches between strips, between queries
    size = (pitch * columns + 0.1, height * len(queries))
    figure = canvas(*size)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    for number, query in enumerate(queries):
        for column, match in enumerate((query.track, *query.nearest)):
            image = images.strip(match.key, FRAMES)
            if image is not None:
                _draw_strip(axes, image, (0.1 + pitch * column, height * number + 0.3), match)
    axes.set(xlim=(0, size[0]), ylim=(size[1], 0))
    hits = sum(bool(query.nearest) and query.nearest[0].role == "same" for query in queries)
    total = counted(len(queries), "query", "queries")
    description = f"Retrieval by {method}: {total} with their nearest tracks; the nearest is correct for {hits}."
    return finished(figure, name, description)


def _draw_strip(axes: Axes, image: Pixels, corner: tuple[float, float], match: Match) -> None:
    left, top = corner
    right, bottom = left + 1.0, top + image.shape[0] / image.shape[1]
    axes.imshow(image, extent=(left, right, bottom, top), interpolation="none", aspect="auto")
    colour = COLOURS[match.role]
    style = (0, (3, 1.5)) if match.role == "other" else "-"
    frame = Rectangle((left, top), 1.0, bottom - top, fill=False, edgecolor=colour, linewidth=2, linestyle=style)
    axes.add_patch(frame)
    middle = (left + right) / 2
    axes.text(middle, top - 0.06, match.label, ha="center", va="bottom", color=colour, fontweight="bold")
    axes.text(middle, bottom + 0.05, match.time, ha="center", va="top", color=SOFT, fontsize=7)


def _track_key(row: Results, table: str, track: int) -> TrackKey:
    """The key of a track in a table of the results."""
    dataset, video = (str(row.arrays[f"{table}/{column}"][track]) for column in ("dataset", "video"))
    return dataset, video, int(row.arrays[f"{table}/track"][track]), int(row.arrays[f"{table}/position"][track])
