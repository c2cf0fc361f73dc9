"""Requests of the page: which ones the local server answers, and which edits it accepts.

Every request needs the token of the printed URL (later as a cookie), our own Host, and no foreign Origin. An edit may
only name tracks as they are now, and may not join tracks that are visible at the same time.
"""

import secrets
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from polyptrace.explore.journal import Item
from polyptrace.explore.workspace import ExploredProcedure

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


def event_fields(content: dict[str, Any]) -> dict[str, Any]:
    """The fields of an event from a request, in their types."""
    fields: dict[str, Any] = {}
    for name in ("items", "others"):
        if name in content:
            fields[name] = tuple(_item(each) for each in content.pop(name))
    if content.get("to") is not None:
        fields["to"] = _item(content.pop("to"))
    content.pop("to", None)
    for name, kind in (("answer", str), ("frame", int), ("text", str)):
        if name in content:
            value = content.pop(name)
            if not isinstance(value, kind):
                raise ValueError(f"{name} is not of type {kind.__name__}")
            fields[name] = value
    if content:
        raise ValueError(f"unknown field {sorted(content)[0]!r}")
    return fields


def _item(value: Any) -> Item:
    if not isinstance(value, list) or len(value) != 3 or not all(type(each) is int for each in value):
        raise ValueError("an item is [track, first frame, last frame]")
    return tuple(value)


def forbidden(procedure: ExploredProcedure, view: str | None, kind: str, fields: dict[str, Any]) -> str:
    """Why an edit is refused: tracks that are visible at the same time cannot be one lesion."""
    state = procedure.state(view)
    place = {item: number for number, item in enumerate(state.items)}
    named = [*fields.get("items", ()), *fields.get("others", ()), *([fields["to"]] if fields.get("to") else [])]
    missing = [item for item in named if item not in place]
    if missing:
        return f"track {missing[0][0]} was changed in the meantime -> reload the page"
    joined = {
        "merge": list(fields.get("items", ())),
        "move": [*fields.get("items", ()), *([fields["to"]] if fields.get("to") else [])],
        "answer": list(fields.get("items", ())) if fields.get("answer") == "same" else [],
    }.get(kind, [])
    whole = sorted(
        {int(member) for item in joined for member in state.members(place[item])}
        if kind == "merge"
        else {place[item] for item in joined}
    )
    items = sorted(state.items[each] for each in whole)
    items.sort(key=lambda item: item[1:])
    latest = None
    for item in items:
        if latest is not None and item[1] <= latest[2]:
            return f"tracks {latest[0]} and {item[0]} are visible at the same time, so they show two lesions"
        latest = item if latest is None or item[2] > latest[2] else latest
    return ""
