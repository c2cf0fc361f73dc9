"""From answers to polyp labels: `prepare --answers FILE`.

FILE is a journal, or the CSV or Label Studio export of `explore`. Each names tracks by their frames, so that the tracks
of a box table are found by their overlap, as in `polyptrace.explore.identities`.

In a journal, two tracks that no answer joins or keeps apart may show the same polyp. Such a procedure stays unlabelled,
unless the caller says that they differ. An export lists all lesions, so that its lesions differ.
"""

import csv
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from polyptrace.core.arrays import Ints
from polyptrace.core.errors import UserError
from polyptrace.core.files import read_json, safe_cell
from polyptrace.data import Boxes
from polyptrace.data.identity import join_keys, video_keys
from polyptrace.explore.exports import CSV_COLUMNS, NO_LESION
from polyptrace.explore.identities import identities
from polyptrace.explore.journal import Event, Item, read_journal

#: Suffixes of the exports of `explore` that list all lesions of a procedure.
EXPORTS = (".csv", ".json")


@dataclass(frozen=True)
class Labelled:
    """A box table with polyp labels, and what could not be used."""

    boxes: Boxes
    tracks: int  # that got a label
    polyps: int
    unmapped: tuple[str, ...]  # answers on tracks that do not exist
    unsettled: dict[str, int]  # procedures without labels, and how many of their pairs are undecided


def label_boxes(boxes: Boxes, track: Ints, path: Path, *, unlinked_differ: bool = False) -> Labelled:
    """Replaces the polyps of all boxes: those of answered tracks in settled procedures get a polyp, all others none.

    `track` is the track of each box, linked without polyps. With `unlinked_differ`, every procedure counts as settled:
    answered tracks that no answer links are different polyps.
    """
    events = read_answers(path)
    differ = unlinked_differ or path.suffix in EXPORTS
    keys = video_keys(boxes).astype(str)
    polyp = np.full(len(boxes), "", object)
    unmapped, labelled, polyps = [], 0, 0
    unsettled: dict[str, int] = {}
    for video in sorted({event.video for event in events}):
        rows = np.flatnonzero([_same_video(key, video) for key in np.unique(keys)])
        if not len(rows):
            unmapped.append(f"{video}: no such procedure")
            continue
        inside = np.flatnonzero(keys == np.unique(keys)[rows[0]])
        items, numbers = _items(boxes, track, inside)
        state = identities(items, events, video)
        unmapped += [f"{video}: {event.kind} on tracks {[item[0] for item in event.items]}" for event in state.unmapped]
        known = state.answered() & ~state.rejected
        if not differ and (undecided := state.undecided(known)):
            unsettled[video] = undecided
            continue
        names = sorted(set(state.component[known].tolist()))
        labelled, polyps = labelled + int(known.sum()), polyps + len(names)
        for item in np.flatnonzero(known).tolist():
            _, first, last = state.items[item]
            own = inside[(track[inside] == numbers[int(state.track[item])])]
            own = own[(boxes.frame_index[own] >= first) & (boxes.frame_index[own] <= last)]
            polyp[own] = f"{boxes.video[inside[0]]}/{names.index(int(state.component[item])) + 1}"
    return Labelled(replace(boxes, polyp=polyp), labelled, polyps, tuple(unmapped), unsettled)


def _same_video(key: str, video: str) -> bool:
    """Whether a procedure is the one of an event; other datasets with the same video name are accepted too."""
    return key == video or key.partition("/")[2] == video.partition("/")[2]


def _items(boxes: Boxes, track: Ints, rows: Ints) -> tuple[list[Item], list[int]]:
    """The tracks of one procedure as items in temporal order, and their numbers."""
    numbers, code = np.unique(track[rows], return_inverse=True)
    first = np.full(len(numbers), np.iinfo(np.int64).max)
    last = np.full(len(numbers), -1)
    np.minimum.at(first, code, boxes.frame_index[rows])
    np.maximum.at(last, code, boxes.frame_index[rows])
    order = np.lexsort((numbers, last, first))
    columns = (numbers[order].tolist(), first[order].tolist(), last[order].tolist())
    return list(zip(*columns, strict=True)), columns[0]


def read_answers(path: Path) -> list[Event]:
    """The events of a journal, of a CSV or of a Label Studio file; the latter two as one merge per lesion."""
    if path.suffix == ".csv":
        return _merges(_csv_items(path))
    if path.suffix == ".json":
        return _merges(_labelstudio_items(path))
    return read_journal(path)[0]


def _merges(lesions: dict[tuple[str, str], list[Item]]) -> list[Event]:
    """Events that say the same as a list of lesions."""
    return [
        Event(number, "", "file", "reject" if name == NO_LESION else "merge", video, tuple(items))
        for number, ((video, name), items) in enumerate(lesions.items(), 1)
    ]


def _csv_items(path: Path) -> dict[tuple[str, str], list[Item]]:
    lesions: dict[tuple[str, str], list[Item]] = {}
    line = 1
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            missing = sorted({*CSV_COLUMNS[:5], "lesion"} - set(reader.fieldnames or ()))
            if missing:
                raise ValueError(f"has no column {missing[0]}")
            for row in reader:
                line = reader.line_num
                item = tuple(int(row[name]) for name in ("track", "first_frame", "last_frame"))
                names = (np.array([_unsafe(row[each])], object) for each in ("dataset", "video"))
                lesions.setdefault((str(join_keys(*names)[0]), row["lesion"]), []).append(item)
    except (OSError, ValueError, TypeError, csv.Error) as error:
        raise UserError(f"{path}: line {line}: {error} -> give a CSV that explore exported") from None
    return lesions


def _unsafe(cell: str) -> str:
    """The text that `safe_cell` was given."""
    return cell[1:] if cell.startswith("'") and safe_cell(cell[1:]) == cell else cell


def _labelstudio_items(path: Path) -> dict[tuple[str, str], list[Item]]:
    lesions: dict[tuple[str, str], list[Item]] = {}
    try:
        for task in read_json(path):
            names = (np.array([str(task["data"].get(each, ""))], object) for each in ("dataset", "video"))
            video = str(join_keys(*names)[0])
            for region in (each for annotation in task["annotations"] for each in annotation["result"]):
                frames = [int(each["frame"]) - 1 for each in region["value"]["sequence"]]
                number = str(region.get("id", "")).partition("-")[0]
                item = (int(number) if number.isdecimal() else -1, min(frames), max(frames))
                lesions.setdefault((video, str(region["value"]["labels"][0])), []).append(item)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise UserError(f"{path}: not video annotations of Label Studio ({error!r}) -> export them again") from None
    return lesions
