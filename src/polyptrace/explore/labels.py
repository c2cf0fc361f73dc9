"""From answers to polyp labels: `prepare --answers FILE`.

FILE is a journal, or the CSV or Label Studio export of `explore`. Each names tracks by their frames, so that the tracks
of a box table are found by their overlap, as in `polyptrace.explore.identities`.

In a journal, two tracks that no answer joins or keeps apart may show the same polyp. Such a procedure stays unlabelled,
unless the caller says that they differ. An export lists all lesions and says which of its tracks answers decide about;
the others stay unlabelled, unless the caller says that all lesions are right.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from polyptrace.core.arrays import Ints
from polyptrace.core.errors import UserError
from polyptrace.core.files import read_json, safe_cell
from polyptrace.data import Boxes
from polyptrace.data.identity import group_rows, join_key, video_keys
from polyptrace.data.sources.reading import integer, read_table
from polyptrace.explore.exports import CSV_COLUMNS, NO_LESION, PROBABILITY, SUGGESTED
from polyptrace.explore.identities import identities
from polyptrace.explore.journal import Event, Item, read_journal

CONTRADICTS = "contradicts other answers, or joins tracks that are visible at the same time"
#: Suffixes of the exports of `explore` that list all lesions of a procedure.
EXPORTS = (".csv", ".json")


@dataclass(frozen=True)
class Labelled:
    """A box table with polyp labels, and what could not be used."""

    boxes: Boxes
    tracks: int  # that got a label
    polyps: int
    unused: tuple[str, ...]  # answers on tracks that do not exist, and contradictions
    unsettled: dict[str, int]  # procedures without labels, and how many of their pairs are undecided
    suggested: int = 0  # tracks of an export without a label, because no answers decide about them


def label_boxes(boxes: Boxes, track: Ints, path: Path, *, unlinked_differ: bool = False) -> Labelled:
    """Replaces the polyps of all boxes: those of answered tracks in settled procedures get a polyp, all others none.

    `track` is the track of each box, linked without polyps. With `unlinked_differ`, every procedure counts as settled:
    answered tracks that no answer links are different polyps, and all lesions of an export are right.
    """
    events, suggested = read_answers(path, suggestions=unlinked_differ)
    differ = unlinked_differ or path.suffix in EXPORTS
    keys = video_keys(boxes).astype(str)
    procedures = np.unique(keys).tolist()
    polyp = np.full(len(boxes), "", object)
    unused, labelled, polyps = [], 0, 0
    unsettled: dict[str, int] = {}
    for video in sorted({event.video for event in events if event.kind not in ("undo", "redo")}):
        key = _procedure(video, procedures)
        if not key:
            unused.append(f"{video}: no such procedure")
            continue
        inside = np.flatnonzero(keys == key)
        items = _items(boxes, track, inside)
        state = identities(items, events, video)
        unused += [f"{video}: {_described(event)}" for event in state.unmapped]
        excluded = {each.statement.event for each in state.contradictions}
        unused += [f"{video}: {_described(event)}, which {CONTRADICTS}" for event in events if event.id in excluded]
        known = state.answered() & ~state.rejected
        if not differ and (undecided := state.undecided(known)):
            unsettled[video] = undecided
            continue
        names = sorted(set(state.component[known].tolist()))
        labelled, polyps = labelled + int(known.sum()), polyps + len(names)
        for item in np.flatnonzero(known).tolist():
            _, first, last = state.items[item]
            own = inside[track[inside] == items[int(state.track[item])][0]]
            own = own[(boxes.frame_index[own] >= first) & (boxes.frame_index[own] <= last)]
            polyp[own] = f"{boxes.video[inside[0]]}/{names.index(int(state.component[item])) + 1}"
    return Labelled(replace(boxes, polyp=polyp), labelled, polyps, tuple(unused), unsettled, suggested)


def _described(event: Event) -> str:
    return f"{event.kind} on tracks {[item[0] for item in event.items]}"


def _procedure(video: str, keys: Sequence[str]) -> str:
    """The procedure of an event: the one with its key, or the only one of the same name; "" if there is none."""
    same_name = [key for key in keys if key.partition("/")[2] == video.partition("/")[2]]
    return video if video in keys else same_name[0] if len(same_name) == 1 else ""


def _items(boxes: Boxes, track: Ints, rows: Ints) -> list[Item]:
    """The tracks of one procedure as items in temporal order."""
    items = []
    for own in (rows[each] for each in group_rows(track[rows])):
        frames = boxes.frame_index[own]
        items.append((int(track[own[0]]), int(frames.min()), int(frames.max())))
    return sorted(items, key=lambda item: (item[1:], item[0]))


@dataclass(frozen=True)
class _Listed:
    """A track in an export."""

    video: str
    lesion: str
    item: Item
    decided: bool  # by answers, or by the person who made the list


def read_answers(path: Path, *, suggestions: bool = False) -> tuple[list[Event], int]:
    """The events of a journal, or of an export as one merge per lesion; how many tracks of an export are left out.

    These are the tracks that no answers decide about. With `suggestions` they are not left out.
    """
    if path.suffix not in EXPORTS:
        return read_journal(path)[0], 0
    listed = _csv_tracks(path) if path.suffix == ".csv" else _labelstudio_tracks(path)
    lesions: dict[tuple[str, str], list[Item]] = {}
    used = [each for each in listed if each.decided or suggestions]
    for each in used:
        lesions.setdefault((each.video, each.lesion), []).append(each.item)
    events = [
        Event(number, "", "file", "reject" if name == NO_LESION else "merge", video, tuple(items))
        for number, ((video, name), items) in enumerate(lesions.items(), 1)
    ]
    return events, len(listed) - len(used)


def _csv_tracks(path: Path) -> list[_Listed]:
    listed = []
    for row, where in read_table(path, (*CSV_COLUMNS[:5], "lesion")):
        track, first, last = (integer(row[name], f"{where}: {name}") for name in CSV_COLUMNS[2:5])
        if last < first:
            raise UserError(f"{where}: last_frame {last} is before first_frame {first} -> correct the line")
        if not row["lesion"]:
            raise UserError(f"{where}: has no lesion -> give its number, or {NO_LESION!r}, or remove the line")
        video = join_key(_unsafe(row["dataset"]), _unsafe(row["video"]))
        decided = row.get("decided_by") != PROBABILITY
        listed.append(_Listed(video, row["lesion"], (track, first, last), decided))
    return listed


def _unsafe(cell: str) -> str:
    """The text that `safe_cell` was given."""
    return cell[1:] if cell.startswith("'") and safe_cell(cell[1:]) == cell else cell


def _labelstudio_tracks(path: Path) -> list[_Listed]:
    listed = []
    try:
        for task in read_json(path):
            video = join_key(*(str(task["data"].get(each, "")) for each in ("dataset", "video")))
            for region in (each for annotation in task["annotations"] for each in annotation["result"]):
                frames = [int(each["frame"]) - 1 for each in region["value"]["sequence"]]
                number = str(region.get("id", "")).partition("-")[0]
                item = (int(number) if number.isdecimal() else -1, min(frames), max(frames))
                lesion, decided = str(region["value"]["labels"][0]), region.get("origin") != SUGGESTED
                if not lesion:
                    raise ValueError(f"region {region.get('id')}: has an empty label")
                listed.append(_Listed(video, lesion, item, decided))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise UserError(f"{path}: not video annotations of Label Studio ({error!r}) -> export them again") from None
    return listed
