"""What a user reads: `lesions.csv`, `tracks.csv` and the page with one card per lesion."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polyptrace.core.arrays import Ints
from polyptrace.core.console import counted, percent
from polyptrace.core.timecode import has_rate, seconds_text, time_offset, time_range, timecode
from polyptrace.data.identity import TrackKey
from polyptrace.embed import Embeddings
from polyptrace.film_strips import TrackImages
from polyptrace.lesions.pictures import BestFrame, best_frame, best_picture, missing_pictures
from polyptrace.lesions.procedure_lesions import SIGHTING_GAP_S, Link, ProcedureLesions
from polyptrace.lesions.same import ASSUMED_FPS, SameModel
from polyptrace.report.gallery import strip
from polyptrace.report.page import Block, Card, Page, Part, Picture, Plots, Section, StripRow, Strips, Tile
from polyptrace.report.timeline import TrackTimes, draw_timeline

#: Pictures of a card.
PICTURES = 4
#: Uncertain pairs shown for each procedure.
MAX_UNCERTAIN = 6

LESION_COLUMNS = (
    *("dataset", "video", "lesion", "first_frame", "last_frame", "first_s", "last_s", "in_view_s", "sightings"),
    *("tracks", "confidence", "weakest_link", "best_track", "best_frame", "best_frame_s", "detector_score"),
)
TRACK_COLUMNS = (
    *("dataset", "video", "track", "first_frame", "last_frame", "start_s", "end_s", "lesion", "polyp"),
    "detector_score",
)


@dataclass(frozen=True)
class Lesion:
    """One lesion of a procedure, ready to be written."""

    number: int  # 1, 2, ... within its procedure
    rows: Ints
    sightings: tuple[Ints, ...]  # rows of each sighting
    in_view: float  # frames in which it is visible
    confidence: float
    weakest: Link | None
    best: tuple[BestFrame, ...]  # of each track whose pictures are available; best first
    detector_score: float | None  # mean of the crops of its tracks; None if no score is known


def lesion_list(tracks: Embeddings, procedure: ProcedureLesions, images: TrackImages) -> list[Lesion]:
    """The lesions of a procedure with their sightings and best frames."""
    described = []
    for number in range(procedure.count):
        rows = procedure.tracks_of(number)
        fps = float(tracks.fps[rows[0]]) if has_rate(tracks.fps[rows[0]]) else ASSUMED_FPS
        gap = tracks.position[rows[1:]] - np.maximum.accumulate(tracks.last[rows])[:-1] - 1
        sightings = np.split(rows, np.flatnonzero(gap > SIGHTING_GAP_S * fps) + 1)
        keys = [tracks.track_key(row) for row in rows.tolist()]
        frames = [best_frame(images, key) for key in keys]
        best = sorted((each for each in frames if each is not None), key=lambda each: -each.score)
        described.append(
            Lesion(
                number + 1,
                rows,
                tuple(sightings),
                float((tracks.last[rows] - tracks.position[rows] + 1).sum()),
                float(procedure.confidence[number]),
                procedure.weakest[number],
                tuple(best),
                _detector_score(images, keys),
            )
        )
    return described


def _detector_score(images: TrackImages, keys: Sequence[TrackKey]) -> float | None:
    scores = images.scores(keys)
    return float(scores.mean()) if len(scores) else None


def _score_text(score: float | None) -> str:
    return "" if score is None else f"{score:.3f}"


def lesion_table(
    tracks: Embeddings, procedures: Sequence[ProcedureLesions], lesions: Sequence[Sequence[Lesion]]
) -> list[list[str]]:
    """The lines of lesions.csv. Unknown cells are empty."""
    lines = [list(LESION_COLUMNS)]
    for procedure, described in zip(procedures, lesions, strict=True):
        for lesion in described:
            fps = float(tracks.fps[lesion.rows[0]])
            first, last = int(tracks.position[lesion.rows].min()), int(tracks.last[lesion.rows].max())
            best = lesion.best[0] if lesion.best else None
            cells = (
                *(procedure.dataset, procedure.video, lesion.number, first, last),
                *(seconds_text(first, fps), seconds_text(last, fps)),
                f"{lesion.in_view / fps:.2f}" if has_rate(fps) else "",
                *(len(lesion.sightings), len(lesion.rows), f"{lesion.confidence:.3f}"),
                "" if lesion.weakest is None else f"{lesion.weakest.probability:.3f}",
                *(("", "", "") if best is None else (best.key[2], best.frame, seconds_text(best.frame, fps))),
                _score_text(lesion.detector_score),
            )
            lines.append([str(cell) for cell in cells])
    return lines


def track_table(tracks: Embeddings, procedures: Sequence[ProcedureLesions], images: TrackImages) -> list[list[str]]:
    """The lines of tracks.csv: the lesion of each track. Unknown cells are empty."""
    lines = [list(TRACK_COLUMNS)]
    for procedure in procedures:
        for row, lesion in zip(procedure.rows.tolist(), procedure.lesion.tolist(), strict=True):
            first, last, fps = int(tracks.position[row]), int(tracks.last[row]), float(tracks.fps[row])
            cells = (procedure.dataset, procedure.video, tracks.track[row], first, last)
            times = (seconds_text(first, fps), seconds_text(last, fps))
            score = _score_text(_detector_score(images, [tracks.track_key(row)]))
            lines.append([*map(str, cells), *times, str(lesion + 1), str(tracks.polyp[row]), score])
    return lines


def lesion_page(
    tracks: Embeddings,
    procedures: Sequence[ProcedureLesions],
    lesions: Sequence[Sequence[Lesion]],
    model: SameModel,
    images: TrackImages,
    origin: str,
    remarks: Sequence[str] = (),
) -> Page:
    """The page: for each procedure the timeline, a card per lesion, and the uncertain pairs; `remarks` at the top."""
    sections = [
        Section(f"procedure-{number}", f"{procedure.video}: {procedure.count_text}", blocks)
        for number, (procedure, described) in enumerate(zip(procedures, lesions, strict=True), 1)
        for blocks in [_procedure_blocks(tracks, procedure, described, images, number)]
    ]
    explanation = Part("lesions.html.j2", {"model": model, "sighting_gap": SIGHTING_GAP_S})
    missing = missing_pictures(images, [tracks.track_key(row) for row in range(len(tracks))])
    total = sum(procedure.count for procedure in procedures)
    return Page(
        title="Lesions" if len(procedures) > 1 else f"Lesions of procedure {procedures[0].video}",
        lead=" ".join(
            [
                f"{counted(total, 'lesion')} in {counted(len(procedures), 'procedure')}."
                " The range in parentheses contains the number of lesions with a probability of 90 %.",
                *remarks,
                missing,
            ]
        ).strip(),
        sections=(*sections, Section("method", "How to read this page", (explanation,))),
        generated=tracks.generated,
        tiles=tuple(
            Tile(each.video, str(each.count), "90 % range {}–{}".format(*each.interval), None)
            for each in (procedures[:14] if len(procedures) > 1 else ())  # of one procedure, its heading says the same
        ),
        brand="polyptrace lesions",
        origin=origin,
    )


def _procedure_blocks(
    tracks: Embeddings,
    procedure: ProcedureLesions,
    lesions: Sequence[Lesion],
    images: TrackImages,
    number: int,
) -> tuple[Block, ...]:
    rows = procedure.rows
    lanes = TrackTimes(
        procedure.dataset,
        procedure.video,
        tracks.track[rows],
        tracks.position[rows],
        tracks.last[rows],
        float(tracks.fps[rows[0]]),
        procedure.lesion,
        np.full(len(rows), ""),
    )
    drawing = draw_timeline(lanes, images if images.location else None, number, procedure.count_text)
    caption = "One lane per lesion; each bar is a track, an uninterrupted view. " + _count_sentence(procedure)
    cards = (_card(tracks, lesion, images) for lesion in lesions)
    blocks: list[Block] = [Plots((drawing,), caption, wide=True), *cards]
    if procedure.uncertain:
        lesion_of = dict(zip(rows.tolist(), (procedure.lesion + 1).tolist(), strict=True))
        shown = _most_uncertain(procedure.uncertain, lesion_of)
        text = "It is not clear whether these tracks show the same lesion. Please compare them."
        if len(procedure.uncertain) > len(shown):
            text += f" {len(shown)} pairs are shown: at most one within each lesion and one between each two lesions."
        strips = tuple(_uncertain_row(tracks, link, lesion_of, images) for link in shown)
        blocks.append(Strips(strips, counted(len(procedure.uncertain), "uncertain pair"), text))
    return tuple(blocks)


def _card(tracks: Embeddings, lesion: Lesion, images: TrackImages) -> Card:
    fps = float(tracks.fps[lesion.rows[0]])
    shown = sorted(best_of_sightings(tracks, lesion)[:PICTURES], key=lambda best: best.frame)
    visible = timecode(lesion.in_view, fps) if has_rate(fps) else counted(round(lesion.in_view), "frame")
    text = (
        f"{counted(len(lesion.sightings), 'sighting')}, {counted(len(lesion.rows), 'track')}, {visible} in view."
        f" Confidence that exactly these tracks show one lesion: {percent(lesion.confidence)}"
    )
    score = lesion.detector_score
    lines = [] if score is None else [f"Mean score of the detector: {score:.2f}"]
    for number, rows in enumerate(lesion.sightings):
        range_text = time_range(float(tracks.position[rows].min()), float(tracks.last[rows].max()), fps)
        again = ""
        if number:
            gap = float(tracks.position[rows].min() - tracks.last[lesion.sightings[number - 1]].max())
            again = f", seen again after {timecode(gap, fps) if has_rate(fps) else time_offset(gap, fps).lstrip('+')}"
        lines.append(f"{range_text}{again} ({counted(len(rows), 'track')})")
    if lesion.weakest is not None and lesion.weakest.probability < 0.9:
        first, second = (_time(tracks, row) for row in (lesion.weakest.first, lesion.weakest.second))
        lines.append(f"Weakest link: {percent(lesion.weakest.probability)} that {first} and {second} show one lesion")
    return Card(f"Lesion {lesion.number}", text, tuple(_picture(best, fps, images) for best in shown), tuple(lines))


def best_of_sightings(tracks: Embeddings, lesion: Lesion) -> list[BestFrame]:
    """The best frame of each sighting, then the others; best first."""
    sighting = {tracks.track_key(row): n for n, rows in enumerate(lesion.sightings) for row in rows.tolist()}
    first: dict[int, BestFrame] = {}
    for best in lesion.best:
        first.setdefault(sighting[best.key], best)
    return [*first.values(), *(best for best in lesion.best if first[sighting[best.key]] is not best)]


def _time(tracks: Embeddings, row: int) -> str:
    """When a track starts; its number where the frame rate is unknown."""
    fps = float(tracks.fps[row])
    return timecode(float(tracks.position[row]), fps) if has_rate(fps) else f"track {tracks.track[row]}"


def _picture(best: BestFrame, fps: float, images: TrackImages) -> Picture:
    caption = f"track {best.key[2]}, {timecode(best.frame, fps)}"
    return Picture(best_picture(images, best), caption, f"{best.key[1]}, {caption}")


def _most_uncertain(links: Sequence[Link], lesion_of: dict[int, int]) -> list[Link]:
    """The most uncertain pair of each lesion and of each two lesions; links come most uncertain first."""
    chosen: dict[tuple[int, int], Link] = {}
    for link in links:
        chosen.setdefault((lesion_of[link.first], lesion_of[link.second]), link)
    return list(chosen.values())[:MAX_UNCERTAIN]


def _uncertain_row(tracks: Embeddings, link: Link, lesion_of: dict[int, int], images: TrackImages) -> StripRow:
    first, second = lesion_of[link.first], lesion_of[link.second]
    lesions = f"lesion {first}, counted once" if first == second else f"lesions {first} and {second}, counted as two"
    strips = []
    for row, number in ((link.first, first), (link.second, second)):
        time = time_range(float(tracks.position[row]), float(tracks.last[row]), float(tracks.fps[row]))
        name = f"track {tracks.track[row]}"
        strips.append(strip(tracks.track_key(row), images, "match", f"lesion {number}", name, time))
    return StripRow(f"{percent(link.probability)} the same lesion ({lesions})", tuple(strips))


def _count_sentence(procedure: ProcedureLesions) -> str:
    """The three most probable counts."""
    order = np.argsort(-procedure.distribution, kind="stable")[:3]
    likely = [each for each in sorted(order.tolist()) if procedure.distribution[each] >= 0.005]
    parts = [f"{counted(each, 'lesion')} {percent(float(procedure.distribution[each]))}" for each in likely]
    return f"Probability of the count: {', '.join(parts)}."
