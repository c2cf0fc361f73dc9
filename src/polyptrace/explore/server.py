"""The local web server of `polyptrace explore`: starlette on the loopback address, without torch.

Every request needs the token of the printed URL (later as a cookie), our own Host, and no foreign Origin.
"""

import json
import secrets
import socket
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from polyptrace.core.errors import UserError
from polyptrace.explore.exports import PAGE, page_file
from polyptrace.explore.page_content import PageContent

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
    """The addresses of the page and of the interface that it uses."""

    def __init__(self, page: PageContent) -> None:
        self.page = page

    def routes(self) -> list[Route]:
        """All addresses."""
        page, number, procedure = self.page, self._number, "/api/procedures/{number:int}"
        return [
            Route("/", self.index),
            Route("/{name}.css", self.file),
            Route("/{name}.js", self.file),
            Route("/api/session", lambda _: answer(page.session())),
            Route("/api/revision", lambda _: answer({"revision": page.revision})),
            Route(procedure, self.state),
            Route(f"{procedure}/question", lambda request: answer(page.question(number(request), view_of(request)))),
            Route(f"{procedure}/lesions", lambda request: answer(page.lesions(number(request), view_of(request)))),
            Route(f"{procedure}/review", lambda request: answer(page.review(number(request), view_of(request)))),
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
            raise HTTPException(404, "not found")
        return Response(page_file(name), media_type=PAGE[name], headers={"cache-control": "no-cache"})

    def state(self, request: Request) -> Response:
        return answer(self.page.state(self._number(request), view_of(request), request.query_params.get("who", "")))

    def candidates(self, request: Request) -> Response:
        item, top = (int(request.query_params.get(name, default)) for name, default in (("item", -1), ("top", 10)))
        candidates = self.page.candidates(self._number(request), item, min(max(top, 1), 100), view_of(request))
        if candidates is None:
            raise HTTPException(404, "no such track")
        return answer(candidates)

    def strip(self, request: Request) -> Response:
        words = request.query_params
        item = tuple(int(words.get(name, -1)) for name in ("track", "first", "last"))
        frames, side = max(int(words.get("frames", 8)), 1), max(int(words.get("side", 96)), 8)
        picture = self.page.crops(self._number(request)).strip(item, frames, side)
        if picture is None:
            raise HTTPException(404, "no crops of this track")
        return Response(picture, media_type="image/jpeg", headers={"cache-control": "private, max-age=86400"})

    def export(self, request: Request) -> Response:
        try:
            name, content, media = self.page.export(
                request.path_params["kind"], self._number(request), view_of(request)
            )
        except KeyError:
            raise HTTPException(404, "no such format") from None
        disposition = f"attachment; filename*=UTF-8''{quote(name)}"  # a name may have letters of any language
        return Response(content, media_type=media, headers={"content-disposition": disposition})

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
        except ValueError as error:
            return PlainTextResponse(f"invalid request: {error}", 400)
        except UserError as error:
            return PlainTextResponse(str(error), 400)
        except OSError as error:
            return PlainTextResponse(f"{self.page.workspace.journal.path}: {error.strerror}; nothing was saved", 507)

    def _edit(self, request: Request, content: dict[str, Any]) -> Response:
        workspace, number, view = self.page.workspace, self._number(request), view_of(request)
        procedure = workspace.procedure(number)
        who = str(content.get("who", ""))
        with workspace.lock:
            before = procedure.state(view)
            event = workspace.journal.parse(content | {"who": who, "video": procedure.key})
            if event.kind in ("undo", "redo"):
                withdrawn = workspace.withdraw(event.kind, who, procedure.key, event.event)
                if withdrawn is None:
                    return PlainTextResponse(f"nothing to {event.kind}", 409)
                event = withdrawn
            else:
                if conflict := procedure.conflict(event, view):
                    return PlainTextResponse(conflict, 409)
                workspace.journal.add(event)
            state = self.page.state(number, view, who)
            effect = self.page.effect(before, procedure.state(view), event.id)
        return answer({"event": event.as_json(), "state": state, "effect": effect})

    def _number(self, request: Request) -> int:
        """The number of the procedure of an address."""
        number = int(request.path_params["number"])
        if not 0 <= number < len(self.page.workspace.keys):
            raise HTTPException(404, "no such procedure")
        return number


def view_of(request: Request) -> str | None:
    """Whose answers are looked at; None: everybody's."""
    return request.query_params.get("view") or None


class Guard(BaseHTTPMiddleware):
    """Refuses requests with a foreign Host, Origin or token, and adds the security headers to all others."""

    def __init__(self, app: ASGIApp, port: int, token: str) -> None:
        super().__init__(app)
        self.token, self.cookie = token, f"polyptrace-{port}"
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        reason = self.refused(request)
        if reason:
            return PlainTextResponse(f"403: {reason}\n", 403, HEADERS)
        response = await call_next(request)
        response.headers.update(HEADERS)
        if "token" in request.query_params:
            response.headers["set-cookie"] = f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"
        return response

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


def answer(content: object) -> Response:
    """A JSON response that is not stored by the browser."""
    return JSONResponse(content, headers={"cache-control": "no-store"})


def application(page: PageContent, port: int, token: str) -> ASGIApp:
    """The guarded application."""

    def invalid(_: Request, error: Exception) -> Response:
        return PlainTextResponse(f"invalid request: {error}", 400)

    def refused(_: Request, error: Exception) -> Response:
        return PlainTextResponse(str(error), 409)

    errors: Any = {ValueError: invalid, UserError: refused}
    return Guard(Starlette(routes=Handlers(page).routes(), exception_handlers=errors), port, token)


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
