"""What the page of `polyptrace explore` shows, as JSON and files; the server adds only HTTP."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

import numpy as np

from polyptrace.core.arrays import Ints, Strings
from polyptrace.core.timecode import has_rate
from polyptrace.data import Dataset
from polyptrace.data.identity import by_appearance
from polyptrace.explore.effects import effect
from polyptrace.explore.exports import FORMATS, Named, to_html
from polyptrace.explore.identities import Identities
from polyptrace.explore.journal import active_events, undoable
from polyptrace.explore.strips import ProcedureCrops
from polyptrace.explore.workspace import Workspace
from polyptrace.lesions import SIGHTING_GAP_S


class PageContent:
    """The content of every address. Procedures are given by number, and `view` is whose answers count; None: all."""

    def __init__(self, workspace: Workspace, datasets: Sequence[Dataset], notices: Sequence[str] = ()) -> None:
        self.workspace, self.datasets, self.notices = workspace, datasets, list(notices)
        self.crops = lru_cache(2)(self._crops)

    @property
    def revision(self) -> int:
        """The number of events so far."""
        return len(self.workspace.journal.events)

    def _crops(self, number: int) -> ProcedureCrops:
        """The crops of a procedure."""
        tracks, row = self.workspace.tracks, int(self.workspace.rows[number][0])
        return ProcedureCrops(self.datasets, str(tracks.dataset[row]), str(tracks.video[row]))

    def session(self) -> dict[str, Any]:
        """The procedures and what is known about all of them."""
        workspace = self.workspace
        tracks = workspace.tracks
        return {
            "procedures": [{"name": str(tracks.video[int(rows[0])]), "tracks": len(rows)} for rows in workspace.rows],
            "answers": str(workspace.journal.path),
            "pictures": bool(self.datasets),
            "generated": tracks.generated,
            "notices": self.notices,
            "sighting_gap_s": SIGHTING_GAP_S,
            "exports": {kind: each.title for kind, each in FORMATS.items()}
            | {"html": "Read-only page (one HTML file)"},
        }

    def state(self, number: int, view: str | None, who: str) -> dict[str, Any]:
        """The items of a procedure, what the answers say about them, and what `who` can undo."""
        procedure, revision = self.workspace.procedure(number), self.revision  # an answer from now on is a later one
        state = procedure.state(view)
        tracks, rows = self.workspace.tracks, procedure.rows
        columns = np.array(state.items, np.int64).T.tolist()
        fps = float(tracks.fps[rows[0]])
        undo, redo = undoable(self.workspace.journal.events, who, procedure.key)
        return {
            "revision": revision,
            "number": number,
            "fps": fps if has_rate(fps) else None,
            "items": dict(zip(("track", "first", "last"), columns, strict=True)),
            "names": state.names,
            "component": state.component.tolist(),
            "polyp": tracks.polyp[rows][state.track].tolist() if (tracks.polyp[rows] != "").any() else None,
            "rejected": np.flatnonzero(state.rejected).tolist(),
            "notes": {str(item): text for item, text in state.notes.items()},
            "pictures": np.flatnonzero([item[0] in self.crops(number).rows for item in state.items]).tolist(),
            "contradictions": [asdict(each) for each in state.contradictions],
            "answers": len({each.event for each in state.statements if each.same is not None}),  # a move is one
            "unmapped": [event.id for event in state.unmapped],
            "mapped": state.mapped,
            "set_aside": state.set_aside,
            "undo": undo,
            "redo": redo,
        }

    def effect(self, before: Identities, after: Identities, event: int) -> dict[str, Any]:
        """What an event changes about earlier answers, with the events that this is about."""
        changes = effect(before, after, event)
        because = (each for events in changes.contradicted.values() for each in events)
        named = {event, *changes.contradicted, *because, *changes.replaced, *changes.set_aside}
        events = {each.id: each.as_json() for each in self.workspace.journal.events if each.id in named}
        return asdict(changes) | {"events": events}

    def question(self, number: int, view: str | None) -> dict[str, Any]:
        """The next question, or where there is none the next check."""
        procedure = self.workspace.procedure(number)
        question = procedure.question(view)
        if question is None:
            check = procedure.check(view)
            return {"question": None, "check": check and asdict(check)}
        probability = procedure.pairs(question.first, np.array([question.second]), view)[2]
        return {"question": asdict(question) | {"probability": float(probability[0])}, "check": None}

    def lesions(self, number: int, view: str | None) -> dict[str, Any]:
        """The lesions of a procedure and, where polyps are known, how well they agree with them."""
        procedure = self.workspace.procedure(number)
        grouping, state = procedure.grouping(view), procedure.state(view)
        polyp = self.workspace.tracks.polyp[procedure.rows][state.track]
        return {
            "lesion": grouping.lesion.tolist(),
            "confidence": grouping.confidence.tolist(),
            "low": grouping.interval[0],
            "high": grouping.interval[1],
            "left": procedure.left(view),
            "suggested": np.flatnonzero(~state.decided()).tolist(),
            "labels": agreement_with_labels(grouping.lesion, polyp),
        }

    def review(self, number: int, view: str | None) -> dict[str, Any]:
        """The history of events, and how far the annotators agree; with `view`, only the events of one annotator."""
        workspace = self.workspace
        key = workspace.keys[number]
        active = {event.id for event in active_events(workspace.journal.events)}
        return {
            "history": [
                event.as_json() | {"active": event.id in active}
                for event in workspace.journal.events
                if event.video == key and view in (None, event.who)
            ],
            "kappas": [
                [first, second, None if np.isnan(kappa) else round(kappa, 3), pairs]
                for first, second, kappa, pairs in (workspace.kappas(number) if view is None else ())
            ],
        }

    def candidates(self, number: int, item: int, top: int, view: str | None) -> dict[str, Any] | None:
        """The frames of an item and the tracks that may show the same lesion; None if there is no such item."""
        procedure = self.workspace.procedure(number)
        state = procedure.state(view)
        if not 0 <= item < len(state.items):
            return None
        return {
            "frames": self.crops(number).frames(state.items[item]),
            "candidates": procedure.candidates(item, top, view),
        }

    def export(self, kind: str, number: int, view: str | None) -> tuple[str, bytes, str]:
        """An export: file name, content and type."""
        procedure, tracks, crops = self.workspace.procedure(number), self.workspace.tracks, self.crops(number)
        row = int(procedure.rows[0])
        named = Named(
            dataset=str(tracks.dataset[row]),
            video=str(tracks.video[row]),
            fps=float(tracks.fps[row]),
            state=procedure.state(view),
            grouping=procedure.grouping(view),
            polyp=tracks.polyp[procedure.rows].tolist(),
            crops=crops,
        )
        if kind == "html":
            session = self.session()
            shown = {"procedures": [session["procedures"][number]], "exports": {}, "answers": "", "notices": []}
            answers = {
                "session": session | shown,
                "procedures/0": self.state(number, view, ""),
                "procedures/0/question": {"question": None, "check": None},
                "procedures/0/lesions": self.lesions(number, view),
                "procedures/0/review": self.review(number, view),
            }
            return named.export_name(".html"), to_html(answers, named.state.items, crops), "text/html"
        form = FORMATS[kind]
        return named.export_name(form.suffix), form.write(named), form.media


def agreement_with_labels(lesion: Ints, polyp: Strings) -> dict[str, int] | None:
    """Pairs of labelled tracks on which the lesions agree with the polyps, and all of them; None without labels."""
    known = np.flatnonzero((polyp != "") & (lesion >= 0))
    if len(known) < 2:
        return None
    by_lesion, by_polyp = lesion[known], by_appearance(polyp[known])
    total = len(known) * (len(known) - 1) // 2
    both, lesions, polyps = _equal_pairs(by_lesion, by_polyp), _equal_pairs(by_lesion), _equal_pairs(by_polyp)
    return {"agreeing": total + 2 * both - lesions - polyps, "pairs": total}


def _equal_pairs(*columns: Ints) -> int:
    """The number of pairs of rows that are equal in all columns."""
    count = np.unique(np.stack(columns, 1), axis=0, return_counts=True)[1]
    return int((count * (count - 1) // 2).sum())
