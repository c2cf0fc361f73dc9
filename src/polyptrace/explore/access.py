"""Which requests the local server answers.

Every request needs the token of the printed URL (later as a cookie), our own Host, and no foreign Origin.
"""

import secrets

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
