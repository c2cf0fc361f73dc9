"""The local web server of `polyptrace explore`: starlette on the loopback address, without torch.

Every request needs the token of the printed URL (later as a cookie), our own Host, and no foreign Origin.
"""

import json
import secrets
import socket
from collections.abc import Sequence
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from polyptrace.core.errors import UserError
from polyptrace.data import Dataset
from polyptrace.explore.exports import FORMATS, PAGE, Named, page_file, to_html
from polyptrace.explore.journal import Event, active_events, undoable
from polyptrace.explore.strips import ProcedureCrops
from polyptrace.explore.workspace import ExploredProcedure, Workspace

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}
#: Largest accepted request, in bytes.
MAX_REQUEST = 2_000_000


class Handlers:
    """The pages and the interface that they use."""

    def __init__(self, workspace: Workspace, datasets: Sequence[Dataset], notices: Sequence[str] = ()) -> None:
        self.workspace, self.datasets, self.notices = workspace, datasets, list(notices)
        self._crops: dict[int, ProcedureCrops] = {}

    def routes(self) -> list[Route]:
        """All addresses."""
        procedure = "/api/procedures/{number:int}"
        return [
            Route("/", self.index),
            Route("/{name}.css", self.file),
            Route("/{name}.js", self.file),
            Route("/api/session", self.session),
            Route("/api/revision", self.revision),
            Route(procedure, self.state),
            Route(f"{procedure}/question", self.question),
            Route(f"{procedure}/lesions", self.lesions),
            Route(f"{procedure}/review", self.review),
            Route(f"{procedure}/candidates", self.candidates),
            Route(f"{procedure}/strip", self.strip),
            Route(f"{procedure}/export/{{kind}}", self.export),
            Route(f"{procedure}/events", self.edit, methods=["POST"]),
        ]

    def index(self, _: Request) -> Response:
        return Response(page_file("index.html"), media_type="text/html")

    def file(self, request: Request) -> Response:
        name = request.url.path[1:]
        if name not in PAGE:
            return PlainTextResponse("not found", 404)
        return Response(page_file(name), media_type=PAGE[name], headers={"cache-control": "no-cache"})

    def session(self, _: Request) -> Response:
        return answer(self.describe())

    def revision(self, _: Request) -> Response:
        return answer({"revision": len(self.workspace.journal.events)})

    def state(self, request: Request) -> Response:
        number, procedure, view = self._named(request)
        return answer(self.snapshot(number, procedure, view, request.query_params.get("who", "")))

    def question(self, request: Request) -> Response:
        _, procedure, view = self._named(request)
        return answer(asked(procedure, view))

    def lesions(self, request: Request) -> Response:
        _, procedure, view = self._named(request)
        return answer(grouped(self.workspace, procedure, view))

    def review(self, request: Request) -> Response:
        number, procedure, _ = self._named(request)
        return answer(reviewed(self.workspace, number, procedure))

    def candidates(self, request: Request) -> Response:
        number, procedure, view = self._named(request)
        item = int(request.query_params.get("item", -1))
        state = procedure.state(view)
        if not 0 <= item < len(state.items):
            return PlainTextResponse("no such track", 404)
        top = min(max(int(request.query_params.get("top", 10)), 1), 100)
        found = procedure.candidates(item, top, view)
        return answer(
            {
                "frames": self.crops(number).frames(state.items[item]),
                "candidates": [
                    [each.item, round(each.cosine, 4), round(each.gap_s, 2), round(each.probability, 4), each.known]
                    for each in found
                ],
            }
        )

    def strip(self, request: Request) -> Response:
        number, _, _ = self._named(request)
        words = request.query_params
        item = tuple(int(words.get(name, -1)) for name in ("track", "first", "last"))
        picture = self.crops(number).strip(
            item, max(int(words.get("frames", 8)), 1), max(int(words.get("side", 96)), 8)
        )
        if picture is None:
            return PlainTextResponse("no crops of this track", 404)
        return Response(picture, media_type="image/jpeg", headers={"cache-control": "private, max-age=86400"})

    def export(self, request: Request) -> Response:
        number, procedure, view = self._named(request)
        kind = request.path_params["kind"]
        try:
            name, content, media = self.exported(kind, number, procedure, view)
        except KeyError:
            return PlainTextResponse("no such format", 404)
        disposition = f'attachment; filename="{name}"'
        return Response(content, media_type=media, headers={"content-disposition": disposition})

    def exported(
        self, kind: str, number: int, procedure: ExploredProcedure, view: str | None
    ) -> tuple[str, bytes, str]:
        """An export: file name, content and type."""
        tracks, row = self.workspace.tracks, int(procedure.rows[0])
        names, polyp = (str(tracks.dataset[row]), str(tracks.video[row])), tracks.polyp[procedure.rows].tolist()
        crops = self.crops(number)
        named = Named.of(procedure, names, float(tracks.fps[row]), polyp, crops, view)
        if kind == "html":
            session = self.describe() | {"procedures": [self.describe()["procedures"][number]], "exports": {}}
            answers = {
                "session": session | {"answers": "", "notices": []},
                "procedures/0": self.snapshot(number, procedure, view, ""),
                "procedures/0/question": {"question": None, "check": None},
                "procedures/0/lesions": grouped(self.workspace, procedure, view),
                "procedures/0/review": reviewed(self.workspace, number, procedure),
            }
            return f"{named.file_name}.html", to_html(answers, procedure.state(view).items, crops), "text/html"
        form = FORMATS[kind]
        return named.file_name + form.suffix, form.write(named), form.media

    async def edit(self, request: Request) -> Response:
        from starlette.concurrency import run_in_threadpool

        body = await request.body()
        if len(body) > MAX_REQUEST:
            return PlainTextResponse("the request is too large", 413)
        try:
            content = json.loads(body)
            if not isinstance(content, dict):
                raise ValueError("not an object")
            return await run_in_threadpool(self._edit, request, content)
        except (ValueError, TypeError, KeyError) as error:
            return PlainTextResponse(f"invalid request: {error}", 400)
        except UserError as error:
            return PlainTextResponse(str(error), 400)
        except OSError as error:
            return PlainTextResponse(f"{self.workspace.journal.path}: {error.strerror}; nothing was saved", 507)

    def _edit(self, request: Request, content: dict[str, Any]) -> Response:
        number, procedure, view = self._named(request)
        who, kind = str(content.pop("who", "")), content.pop("kind", "")
        with self.workspace.lock:
            if kind in ("undo", "redo"):
                event = self._withdraw(kind, who, content.get("event"))
                if event is None:
                    return PlainTextResponse(f"nothing to {kind}", 409)
            else:
                event = self.workspace.journal.parse(content | {"who": who, "kind": kind, "video": procedure.key})
                if conflict := procedure.conflict(event, view):
                    return PlainTextResponse(conflict, 409)
                self.workspace.journal.add(event)
            snapshot = self.snapshot(number, procedure, view, who)
        return answer({"event": event.as_json(), "state": snapshot})

    def _withdraw(self, kind: str, who: str, event: object) -> Event | None:
        """Undoes or redoes one event by its number, or the annotator's last one."""
        if not isinstance(event, int):
            return self.workspace.undo(who, redo=kind == "redo")
        events = self.workspace.journal.events
        active = {each.id for each in active_events(events)}
        known = {each.id for each in events if each.kind not in ("undo", "redo")}
        if (event not in active) if kind == "undo" else (event in active or event not in known):
            return None
        return self.workspace.append(kind, who, event=event)

    def describe(self) -> dict[str, Any]:
        """The procedures and what is known about all of them."""
        workspace = self.workspace
        tracks = workspace.tracks
        first = [int(rows[0]) for rows in workspace.rows]
        return {
            "procedures": [
                {"name": str(tracks.video[row]), "dataset": str(tracks.dataset[row]), "tracks": len(rows)}
                for row, rows in zip(first, workspace.rows, strict=True)
            ],
            "annotators": sorted({event.who for event in workspace.journal.events}),
            "answers": str(workspace.journal.path),
            "pictures": bool(self.datasets),
            "generated": bool(tracks.info.get("generated", False)),
            "notices": self.notices,
            "exports": {kind: each.title for kind, each in FORMATS.items()}
            | {"html": "Read-only page (one HTML file)"},
        }

    def snapshot(self, number: int, procedure: ExploredProcedure, view: str | None, who: str) -> dict[str, Any]:
        """The items of a procedure and what the answers say about them."""
        state = procedure.state(view)
        tracks, rows = self.workspace.tracks, procedure.rows
        columns = np.array(state.items, np.int64).T.tolist()
        fps = float(tracks.fps[rows[0]])
        undo, redo = undoable(self.workspace.journal.events, who)
        return {
            "revision": len(self.workspace.journal.events),
            "number": number,
            "fps": fps if np.isfinite(fps) and fps > 0 else None,
            "items": dict(zip(("track", "first", "last"), columns, strict=True)),
            "component": state.component.tolist(),
            "polyp": tracks.polyp[rows][state.track].tolist() if (tracks.polyp[rows] != "").any() else None,
            "rejected": np.flatnonzero(state.rejected).tolist(),
            "notes": {str(item): text for item, text in state.notes.items()},
            "pictures": np.flatnonzero([item[0] in self.crops(number).rows for item in state.items]).tolist(),
            "contradictions": [
                {
                    "event": each.statement.event,
                    "who": each.statement.who,
                    "same": each.statement.same,
                    "items": [each.statement.first, each.statement.second],
                    "because": list(each.because),
                    "people": list(each.people),
                }
                for each in state.contradictions
            ],
            "answers": sum(each.same is not None for each in state.statements),
            "unmapped": [event.id for event in state.unmapped],
            "mapped": state.mapped,
            "set_aside": state.set_aside,
            "undo": undo,
            "redo": redo,
        }

    def crops(self, number: int) -> ProcedureCrops:
        """The crops of a procedure; those of the last few stay open."""
        if number not in self._crops:
            row = int(self.workspace.rows[number][0])
            tracks = self.workspace.tracks
            if len(self._crops) >= 2:
                self._crops.clear()
            self._crops[number] = ProcedureCrops(self.datasets, str(tracks.dataset[row]), str(tracks.video[row]))
        return self._crops[number]

    def _named(self, request: Request) -> tuple[int, ExploredProcedure, str | None]:
        """The procedure of an address, and whose answers are looked at; None: everybody's."""
        number = int(request.path_params["number"])
        if not 0 <= number < len(self.workspace.keys):
            raise MissingProcedureError
        return number, self.workspace.procedure(number), request.query_params.get("view") or None


class Guard:
    """Refuses requests with a foreign Host, Origin or token, and adds the security headers to all others."""

    def __init__(self, app: ASGIApp, port: int, token: str) -> None:
        self.app, self.token, self.cookie = app, token, f"polyptrace-{port}"
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        reason = self.refused(request)
        if reason:
            await PlainTextResponse(f"403: {reason}\n", 403, HEADERS)(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = dict(HEADERS)
                if "token" in request.query_params:
                    added["set-cookie"] = f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"
                message["headers"] = [*message["headers"], *((k.encode(), v.encode()) for k, v in added.items())]
            await send(message)

        await self.app(scope, receive, with_headers)

    def refused(self, request: Request) -> str:
        """Why a request is refused; "" if it is not."""
        headers: Headers = request.headers
        if headers.get("host") not in self.hosts:
            return "foreign Host -> open the URL that polyptrace printed"
        origin = headers.get("origin")
        if origin is not None and origin.removeprefix("http://") not in self.hosts:
            return "foreign Origin -> open the URL that polyptrace printed"
        given = request.query_params.get("token", request.cookies.get(self.cookie, ""))
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            return "no valid token -> open the URL that polyptrace printed, with its token"
        return ""


class MissingProcedureError(Exception):
    """No procedure has this number."""


def asked(procedure: ExploredProcedure, view: str | None) -> dict[str, Any]:
    """The next question, or where there is none the next check."""
    question = procedure.question(view)
    check = procedure.check(view) if question is None else None
    return {
        "question": question
        and {
            "items": [question.first, question.second],
            "probability": round(float(procedure.pairs(question.first, np.array([question.second]), view)[2][0]), 4),
            "same_decides": question.same_decides,
            "different_decides": question.different_decides,
        },
        "check": check
        and {
            "items": [check.first, check.second],
            "wrong": round(check.wrong, 4),
            "event": check.statement.event,
            "said": "same" if check.statement.same else "different",
            "who": check.statement.who,
        },
    }


def grouped(workspace: Workspace, procedure: ExploredProcedure, view: str | None) -> dict[str, Any]:
    """The lesions of a procedure and, where polyps are known, how well they agree with them."""
    revision = len(workspace.journal.events)
    found, state = procedure.grouping(view), procedure.state(view)
    polyp = workspace.tracks.polyp[procedure.rows][state.track]
    return {
        "revision": revision,
        "lesion": found.lesion.tolist(),
        "confidence": [round(each, 4) for each in found.confidence.tolist()],
        "low": found.interval[0],
        "high": found.interval[1],
        "left": procedure.left(view),
        "labels": agreement_with_labels(found.lesion, polyp),
    }


def agreement_with_labels(lesion: Any, polyp: Any) -> dict[str, int] | None:
    """Pairs of labelled tracks on which the lesions agree with the polyps, and all of them; None without labels."""
    known = np.flatnonzero((polyp != "") & (lesion >= 0))
    if len(known) < 2:
        return None
    by_lesion, by_polyp = (
        np.unique(lesion[known], return_inverse=True)[1],
        np.unique(polyp[known], return_inverse=True)[1],
    )
    table = np.zeros((by_lesion.max() + 1, by_polyp.max() + 1), np.int64)
    np.add.at(table, (by_lesion, by_polyp), 1)

    def pairs(counts: Any) -> int:
        return int((counts * (counts - 1) // 2).sum())

    total = len(known) * (len(known) - 1) // 2
    both, lesions, polyps = pairs(table), pairs(table.sum(axis=1)), pairs(table.sum(axis=0))
    return {"agreeing": total + 2 * both - lesions - polyps, "pairs": total}


def reviewed(workspace: Workspace, number: int, procedure: ExploredProcedure) -> dict[str, Any]:
    """Who said what, and how far the annotators agree."""
    events = [event for event in workspace.journal.events if event.video == procedure.key]
    active = {event.id for event in active_events(workspace.journal.events)}
    return {
        "history": [event.as_json() | {"active": event.id in active} for event in events],
        "kappas": [
            [first, second, None if np.isnan(kappa) else round(kappa, 3), pairs]
            for first, second, kappa, pairs in workspace.kappas(number)
        ],
    }


def answer(content: object) -> Response:
    """A JSON response that is not stored by the browser."""
    return JSONResponse(content, headers={"cache-control": "no-store"})


def application(handlers: Handlers, port: int, token: str) -> ASGIApp:
    """The guarded application."""

    def missing(_: Request, __: Exception) -> Response:
        return PlainTextResponse("no such procedure", 404)

    def invalid(_: Request, error: Exception) -> Response:
        return PlainTextResponse(f"invalid request: {error}", 400)

    def refused(_: Request, error: Exception) -> Response:
        return PlainTextResponse(str(error), 409)

    errors: Any = {MissingProcedureError: missing, ValueError: invalid, UserError: refused}
    return Guard(Starlette(routes=handlers.routes(), exception_handlers=errors), port, token)


def bind(port: int) -> socket.socket:
    """A socket on the loopback address; port 0 takes any free one."""
    # asyncio sends without delay only if the protocol is stated: 40 ms a response
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
        listening.listen()  # before the address is printed: the first request waits instead of failing
    except OSError as error:
        listening.close()
        raise UserError(f"--port {port}: {error.strerror} -> give another port, or 0 for any free one") from None
    return listening
