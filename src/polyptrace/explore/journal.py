"""The journal of answers and edits: one JSON object per line, appended and flushed to disk before it is acknowledged.

    journal = Journal.open(Path("answers.jsonl"))
    journal.append("answer", who="Ada", video="d/v1", items=[(3, 120, 180), (7, 900, 1010)], answer="same")

Nothing is ever rewritten: undo and redo are events themselves. The first line is `{"format": 1}`.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self

from polyptrace.core.errors import UserError
from polyptrace.core.files import sync
from polyptrace.core.schema import from_json
from polyptrace.embed import ANSWERS_FILE

FORMAT = 1
#: The first line.
HEADER = json.dumps({"format": FORMAT})
Kind = Literal["answer", "merge", "move", "split", "reject", "restore", "note", "undo", "redo"]
Answer = Literal["same", "different", "unsure"]
#: Track, first frame, last frame.
Item = tuple[int, ...]
#: Longest name of an annotator and longest note, in characters.
MAX_NAME, MAX_NOTE = 200, 10_000


@dataclass(frozen=True)
class Event:
    """One line of the journal. Which fields are used depends on the kind.

    answer        whether the two items show the same lesion
    merge         all items show one lesion
    move          the items show the lesion of `to` (or a new one) and not that of `others`
    split         the item shows two lesions, the second one from `frame` on
    reject        the items show no lesion; restore: they do
    note          a note on the items; "" removes it
    undo, redo    of the event with the number `event`
    """

    id: int
    time: str
    who: str
    kind: Kind
    video: str = ""
    items: tuple[Item, ...] = ()
    answer: Answer | None = None
    to: Item | None = None
    others: tuple[Item, ...] = ()
    frame: int = -1
    text: str = ""
    event: int = 0

    def __post_init__(self) -> None:
        for item in (*self.items, *self.others, *((self.to,) if self.to else ())):
            if len(item) != 3 or item[2] < item[1]:
                raise ValueError(f"items: {list(item)} is not [track, first frame, last frame]")
        if not self.items and self.kind not in ("undo", "redo"):
            raise ValueError(f"items: a {self.kind} names an item")
        if self.kind == "answer" and len(set(self.items)) != 2:
            raise ValueError("items: an answer names two different items")
        if self.kind == "answer" and self.answer is None:
            raise ValueError("answer: is missing")
        if self.kind == "split" and not self.items[0][1] < self.frame <= self.items[0][2]:
            raise ValueError("frame: is not inside the track")
        if not self.who.strip() or len(self.who) > MAX_NAME:
            raise ValueError(f"who: give a name of at most {MAX_NAME} characters")
        if len(self.text) > MAX_NOTE:
            raise ValueError(f"text: is longer than {MAX_NOTE:,} characters")

    def as_json(self) -> dict[str, Any]:
        """The fields that are set."""
        values = asdict(self)
        return {each.name: values[each.name] for each in fields(self) if values[each.name] != each.default}


@dataclass
class Journal:
    """An open journal and its events. One process at a time writes to it; see `polyptrace.core.lock`."""

    path: Path
    events: list[Event] = field(default_factory=list)
    dropped: str = ""  # what was dropped from the end, for the user
    sync: bool = True  # False only in simulations

    @classmethod
    def open(cls, path: Path) -> Self:
        """Reads a journal. A new file is created with its first event, so that a failed start leaves none behind.

        A torn last line was never acknowledged: it is dropped and reported.
        """
        if not path.exists():
            return cls(path)
        events, torn = read_journal(path)
        dropped = ""
        if torn:
            os.truncate(path, path.stat().st_size - torn)
            dropped = f"{path}: the last line was incomplete and is dropped ({torn} bytes); it was never acknowledged"
        if not os.access(path, os.W_OK):
            raise UserError(f"{path}: cannot be written -> check its permissions, or give another file with --answers")
        return cls(path, events, dropped)

    def parse(self, content: dict[str, Any]) -> Event:
        """The next event, from the other fields as JSON; an invalid one is an error that names the field."""
        return from_json(Event, content | self._next(), "invalid request", "reload the page")

    def append(self, kind: Kind, who: str, **given: Any) -> Event:
        """Writes an event and returns it after it is on disk; an invalid one is a ValueError and changes nothing."""
        return self.add(Event(who=who, kind=kind, **self._next(), **given))

    def _next(self) -> dict[str, Any]:
        """The number and the time of the next event."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        return {"id": self.events[-1].id + 1 if self.events else 1, "time": now}

    def add(self, event: Event) -> Event:
        """Writes the next event and returns it after it is on disk."""
        self._write(json.dumps(event.as_json(), ensure_ascii=False))
        self.events.append(event)
        return event

    def _write(self, line: str) -> None:
        with self.path.open("ab") as file:
            end = file.tell()
            try:
                file.write(f"{line}\n".encode() if end else f"{HEADER}\n{line}\n".encode())
                file.flush()
                if self.sync:
                    os.fsync(file.fileno())
                if self.sync and not end:
                    sync(self.path.parent)
            except OSError:  # a full disk: the next event must not continue half a line
                os.truncate(self.path, end)
                raise


def read_journal(path: Path) -> tuple[list[Event], int]:
    """The events of a journal, and the size of an incomplete last line in bytes; other damage is an error."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror} -> check the path and its permissions") from None
    *lines, torn = content.split(b"\n")
    advice = "give the answers.jsonl of 'explore'; 'prepare --answers' also reads its CSV and Label Studio exports"
    foreign = UserError(f"{path}: line 1: not a journal of answers of format {FORMAT} -> {advice}")
    if not lines and not HEADER.encode().startswith(torn):  # not a torn header
        raise foreign
    events: list[Event] = []
    for number, line in enumerate(lines, 1):
        where = f"{path}: line {number}"
        advice = "restore the file from a copy, or remove this line"
        try:
            parsed = json.loads(line)
        except ValueError:
            if number == 1:
                raise foreign from None
            raise UserError(f"{where}: damaged, not a JSON object -> {advice}") from None
        if number == 1:
            if parsed != {"format": FORMAT}:
                raise foreign
            continue
        events.append(from_json(Event, parsed, where, advice))
        if len(events) > 1 and events[-1].id <= events[-2].id:
            raise UserError(f"{where}: event {events[-1].id} after event {events[-2].id} -> {advice}")
    return events, len(torn)


def active_events(events: Sequence[Event]) -> list[Event]:
    """The events that are not undone, in order, without the undo and redo events."""
    undone: set[int] = set()
    for event in events:
        if event.kind == "undo":
            undone.add(event.event)
        elif event.kind == "redo":
            undone.discard(event.event)
    return [event for event in events if event.id not in undone and event.kind not in ("undo", "redo")]


def undoable(events: Sequence[Event], who: str, video: str) -> tuple[int, int]:
    """The events of an annotator in a procedure that undo and redo apply to next; 0 where there is none.

    A new edit ends the redo of what was undone before it. What others withdraw is not undone again.
    """
    own: set[int] = set()
    done: list[int] = []
    undone: list[int] = []
    for event in events:
        if event.kind not in ("undo", "redo"):
            if event.who == who and event.video == video:
                own.add(event.id)
                done.append(event.id)
                undone.clear()
        elif event.event in own:
            done = [each for each in done if each != event.event]
            undone = [each for each in undone if each != event.event]
            if event.kind == "redo":
                done.append(event.event)
            elif event.who == who:
                undone.append(event.event)
    return (done[-1] if done else 0), (undone[-1] if undone else 0)


def default_answers(vectors: Path) -> Path:
    """The journal of some vectors, in their folder or beside their file."""
    return vectors / ANSWERS_FILE if vectors.is_dir() else vectors.with_suffix(".answers.jsonl")
